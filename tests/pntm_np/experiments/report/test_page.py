"""The page in a real browser: from disk, without a network, on a laptop and on a phone."""

from __future__ import annotations

from pathlib import Path

import pytest

from pntm_np.experiments.report.build import report
from tests.browser import opened
from tests.pntm_np.experiments.report.made import write_all


@pytest.fixture(scope="module")
def page_file(tmp_path_factory) -> Path:
    place = tmp_path_factory.mktemp("page")
    write_all(place)
    report(place, place / "report", lambda line: None)
    return (place / "report" / "report.html").rename(place / "alone.html")  # away from the files beside it


@pytest.mark.parametrize("width", [1280, 400])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_reads_well(page_file, width, scheme):
    with opened(page_file, width, color_scheme=scheme) as page:
        assert page.evaluate("document.documentElement.scrollWidth") <= width  # what is wide scrolls in its own box
        assert page.locator("section").count() == 11 and page.locator("img").count() == 4
        assert page.evaluate("[...document.images].every(i => i.complete && i.naturalWidth > 0 && i.alt.length > 20)")
        back, text = (page.evaluate(f"getComputedStyle(document.body).{name}") for name in ("backgroundColor", "color"))
        assert (back == "rgb(255, 255, 255)") == (scheme == "light") and back != text
        page.locator("nav a", has_text="Memory against length").click()
        assert page.evaluate("document.querySelector('#memory').getBoundingClientRect().top") < 100


def test_tables_say_what_the_files_say(page_file):
    with opened(page_file) as page:
        cells = page.locator("#spread tbody tr", has_text="P-NTM, our recipe").locator("td").all_inner_texts()
        assert cells[:6] == ["P-NTM, our recipe", "6", "12", "0", "1.00", "1.00"]
        assert page.locator("#best td b").count() == 24  # twelve of ours, twelve of the paper's
        page.locator("#runs summary").click()
        assert page.locator("#runs tbody tr").first.is_visible()
