"""The page in a real browser: from disk, without a network, by keys alone, on a laptop and on a phone."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import cli
import pntm_np as pn
from tests.browser import opened
from tests.pntm_np.experiments.trace.machines import MODELS, SHIPPED, problem, small, untrained

REVERSE = next(path for path in SHIPPED if path.stem == "reverse-string-pntm")
LONG = problem("parity-check", 240)


def make(*args: str | Path) -> None:
    done = CliRunner().invoke(cli.main, ["trace", *map(str, args)])
    assert done.exit_code == 0, done.output


@pytest.fixture(scope="module")
def files(tmp_path_factory) -> Path:
    place = tmp_path_factory.mktemp("traces")
    make(REVERSE, "aabbaabab", "-o", place / "one.html", "-o", place / "one.json")
    # A machine of the paper's size, made so that its heads part: a trained one need not go wrong.
    pn.save(place / "untrained", untrained("pntm"))
    both = "--tau", "0", "--compare-tau", "0.5", "--memory-size", "256"
    make(place / "untrained", LONG, *both, "-o", place / "two.html", "-o", place / "two.json")
    for name in MODELS:
        pn.save(place / name, small(name))
        make(place / name, "aababba", "--memory-size", "13", "-o", place / f"{name}.html", "-o", place / f"{name}.json")
    return place


def ready(page) -> None:
    page.wait_for_selector("html[data-ready]")


def here(page, panel: int = 0) -> int:
    return int(page.locator(".panel").nth(panel).locator(".cell.here").get_attribute("data-cell"))


def time_of(page) -> int:
    return int(page.evaluate("document.documentElement.dataset.time"))


@pytest.mark.parametrize("name", ["one", *MODELS])
def test_keys_move_time_and_the_cell_is_the_recorded_one(files, name):
    recorded = json.loads((files / f"{name}.json").read_text())
    steps = len(recorded["steps"])
    with opened(files / f"{name}.html") as page:
        ready(page)
        for t in range(steps):
            assert time_of(page) == t
            if recorded["heads"]:
                head = recorded["heads"][int(page.locator("select").last.input_value())]
                assert here(page) == int(np.argmax(head["addresses"][t]))
            page.keyboard.press("ArrowRight")
        assert time_of(page) == steps - 1, "there is nothing behind the last step"
        written = page.locator(".answer").inner_text()
        assert written == "".join(s["predicted"] for s in recorded["steps"][recorded["separator"] :])
        wrong = [s["expected"] not in (None, s["predicted"]) for s in recorded["steps"]]
        assert page.locator(".answer .wrong").count() == sum(wrong)
        for key, t in (
            ("Home", 0),
            ("End", steps - 1),
            ("ArrowLeft", steps - 2),
            ("Shift+ArrowLeft", max(0, steps - 12)),
        ):
            page.keyboard.press(key)
            assert time_of(page) == t


def test_every_head_can_be_chosen_by_key_and_by_list(files):
    recorded = json.loads((files / "one.json").read_text())
    with opened(files / "one.html") as page:
        ready(page)
        page.keyboard.press("End")
        page.locator("#next").focus()  # away from the list
        for _ in recorded["heads"]:
            page.keyboard.press("ArrowDown")
            head = recorded["heads"][int(page.locator("select").last.input_value())]
            assert here(page) == head["path"][-1]
        page.locator("select").last.select_option(label="write 3")
        head = next(h for h in recorded["heads"] if h["name"] == "write 3")
        assert here(page) == head["path"][-1] and "write 3" in page.locator(".said").inner_text()


def test_the_slider_the_buttons_and_play(files):
    with opened(files / "one.html") as page:
        ready(page)
        page.locator("#time").fill("7")
        assert time_of(page) == 7 and "step 8 of" in page.locator("#time").get_attribute("aria-valuetext")
        page.locator("#time").press("ArrowRight")
        assert time_of(page) == 8
        page.locator("#back").click()
        assert time_of(page) == 7
        page.locator("#speed").select_option("12")
        page.locator("#play").click()
        page.wait_for_function("document.documentElement.dataset.time > 10")
        page.locator("#play").click()
        now = time_of(page)
        page.wait_for_timeout(300)
        assert time_of(page) == now and page.locator("#play").inner_text() == "play"


def test_a_cell_tells_when_it_was_written(files):
    recorded = json.loads((files / "one.json").read_text())
    with opened(files / "one.html") as page:
        ready(page)
        page.locator("select").last.select_option(label="write 2")
        page.keyboard.press("End")
        head = next(h for h in recorded["heads"] if h["name"] == "write 2")
        cell = here(page)
        step = max(t for t, row in enumerate(head["addresses"]) if row[cell] >= 0.5)
        expected = f"Cell {cell}: last written at step {step + 1}, which read {recorded['steps'][step]['token']}, by head write 2."
        page.locator(f".cell[data-cell='{cell}']").hover()
        assert expected in page.locator(".said").inner_text()
        page.mouse.move(5, 5)
        assert "last written" not in page.locator(".said").inner_text()
        page.locator("#next").focus()
        page.keyboard.press("]")
        page.keyboard.press("[")
        page.keyboard.press("]")
        assert expected in page.locator(".said").inner_text(), "the same without a mouse"


def test_the_page_rebuilds_what_was_recorded(files):
    """Every address and every number of the memory, as the page has it, against the JSON."""
    for name in ("one", "ntm", "transformer-fire"):
        recorded = json.loads((files / f"{name}.json").read_text())
        with opened(files / f"{name}.html") as page:
            ready(page)
            found = np.array(page.evaluate("Array.from(panels[0].run.addresses)"))
            expected = np.stack([h["addresses"] for h in recorded["heads"]], axis=1)
            # float32 by another order of operations; 1/65535 and 1/255 are what a page keeps of an NTM's and of attention
            close = {"one": 1e-5, "ntm": 1e-5, "transformer-fire": 2e-3}[name]
            np.testing.assert_allclose(found.reshape(expected.shape), expected, atol=close)
            if recorded["memory"]:
                cells = np.array(page.evaluate("Array.from(panels[0].run.memory)"))
                expected = np.array(recorded["memory"])
                # of an NTM, 1/131070 of each address times what is added, over a dozen steps
                np.testing.assert_allclose(cells.reshape(expected.shape), expected, atol=1e-3)


def test_two_beside_each_other(files):
    with opened(files / "two.html") as page:
        ready(page)
        assert page.locator(".panel").count() == 2
        titles = page.locator(".panel h2").all_inner_texts()
        assert "tau 0" in titles[0] and "tau 0.5" in titles[1] and titles[0] != titles[1]
        page.locator(".panel").nth(1).locator("select").select_option(label="read 3")
        assert page.locator(".panel select").first.evaluate("s => s.selectedOptions[0].label") == "read 3"
        page.keyboard.press("End")
        said = page.locator(".said").all_inner_texts()
        assert all("This head is first on a different cell than in the other trace at step" in line for line in said)


def test_a_long_page_is_small_and_quick(files):
    assert (files / "two.html").stat().st_size < 3_000_000
    with opened(files / "two.html") as page:
        ready(page)
        spent = page.evaluate(
            """() => Array.from({length: 60}, (_, k) => {
                const start = performance.now();
                document.dispatchEvent(new KeyboardEvent("keydown", {key: "ArrowRight"}));
                document.body.getBoundingClientRect();  // the layout is part of it
                return performance.now() - start;
            })"""
        )
        # both machines at once; a busy machine may interrupt some of the steps, so the middle one counts
        assert sorted(spent)[30] < 33


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_on_a_phone(files, scheme):
    with opened(files / "two.html", 400, 800, color_scheme=scheme, has_touch=True) as page:
        ready(page)
        assert page.evaluate("document.documentElement.scrollWidth") <= 400
        page.locator("#next").tap()
        assert time_of(page) == 1
        boxes = [page.locator(s).first.bounding_box() for s in ("#next", "#time", ".tape", ".answer")]
        assert all(box and box["x"] >= 0 and box["x"] + box["width"] <= 400 for box in boxes)
        assert page.locator("#next").bounding_box()["height"] >= 32, "large enough for a finger"
        back = page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert (back == "rgb(255, 255, 255)") == (scheme == "light")


def test_text_cannot_end_the_script(tmp_path):
    """Symbols of a task of one's own may be any characters."""
    model = pn.Model.new("pntm", 7, np.random.default_rng(0), width=12, heads=2, cell=6)
    model.training = {"task": "mine", "symbols": "</>&x", "max_length": 8, "end_token": True}
    model.training |= {"lengths": [1, 24], "samples": 128}
    pn.save(tmp_path / "m", model)
    make(tmp_path / "m", "</x>&", "-o", tmp_path / "t.html")
    with opened(tmp_path / "t.html") as page:
        ready(page)
        assert page.locator(".tokens span").first.inner_text() == "<"
    content = (tmp_path / "t.html").read_text().split('id="trace">')[1].split("</script>")[0]
    assert "<" not in content and "\\u003c" in content, "nor can the name of a file, which has more than one character"
