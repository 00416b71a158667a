"""What the pages show is run, so that it stays true."""

from __future__ import annotations

import importlib
import re
import tomllib
from pathlib import Path

import numpy as np
from click.testing import CliRunner

import autodiff as ad
import cli
from tests import standin
from tests.autodiff import table, test_ops

ROOT = Path(__file__).parent.parent


def python_blocks(page: str) -> list[str]:
    return re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(), re.DOTALL)


def test_every_page_is_in_the_index_and_links_lead_somewhere():
    index = (ROOT / "docs" / "README.md").read_text()
    for page in [*(ROOT / "docs").glob("*.md"), *ROOT.glob("*.md"), *(ROOT / "results").rglob("README.md")]:
        assert page.parent.name != "docs" or page.name == "README.md" or f"({page.name})" in index, page.name
        for target, anchor in re.findall(r"\]\((?!https?:)([^)#]*)#?([^)]*)\)", page.read_text()):
            found = page.parent / target if target else page
            assert found.exists(), f"{page.name}: {target}"
            headings = re.findall(r"^#+ (.*)$", found.read_text(), re.MULTILINE) if anchor else []
            anchors = [re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings]
            assert not anchor or anchor in anchors, f"{page.name}: {target}#{anchor}"


def test_one_version_everywhere():
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    releases = re.findall(r"^## \[(\d\S*)\] - (\S+)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    citation = (ROOT / "CITATION.cff").read_text()
    assert releases[0][0] == version and f"\nversion: {version}\n" in citation
    assert f'\ndate-released: "{releases[0][1]}"\n' in citation


def test_the_readme_examples_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names: dict = {}
    for block in python_blocks("README.md"):
        exec(block, names)
    start = ad.value_and_grad(names["loss"])({"W": np.ones((3, 2)), "b": np.zeros(2)}, names["x"], names["y"])[0]
    assert names["value"] < start  # the first example learns
    assert names["logits"].shape == (1, 6) and (tmp_path / "model.safetensors").exists()


def test_the_page_on_the_scans_runs():
    (block,) = python_blocks("docs/scans.md")
    names: dict = {}
    exec(block, names)
    assert names["reads"].shape == (2, 100, 3, 3, 4)


def test_the_page_on_adding_an_op_is_true_and_short(device, monkeypatch):
    """The op on the page, put where the page says, passes all that its row asks for."""
    text = (ROOT / "docs" / "add-an-op.md").read_text()
    assert len(text.splitlines()) < 40 and "add-an-op.md" in (ROOT / "README.md").read_text()
    op_source, row_source = python_blocks("docs/add-an-op.md")
    names = {"Array": object, "Pullback": object, "array_module": ad.array_module, "differentiable": ad.differentiable}
    monkeypatch.setattr(standin.xp, "hypot", standin.Ufunc("hypot", np.hypot), raising=False)
    exec(op_source, names)
    monkeypatch.setattr(ad, "hypotenuse", names["hypotenuse"], raising=False)
    (row,) = eval(f"[{row_source}]", vars(table))
    for test in (
        test_ops.test_value,
        test_ops.test_layout_does_not_matter,
        test_ops.test_float32_is_kept,
        test_ops.test_plain_arrays_record_nothing_and_stay_as_they_were,
    ):
        test(row, device)
    test_ops.test_no_synchronisation(row)
    for arrays, static in row.cases:
        ad.check_gradients(lambda *a: row.op(*a, **static), *arrays, tolerance=row.tolerance)


def test_the_page_on_adding_a_task_is_true(tmp_path, monkeypatch):
    """The tasks on the page, in a file, go through every command that the page shows."""
    text = (ROOT / "docs" / "add-a-task.md").read_text()
    first, second = python_blocks("docs/add-a-task.md")
    (tmp_path / "my_tasks.py").write_text(first + second)
    monkeypatch.chdir(tmp_path)
    assert "add-a-task.md" in (ROOT / "README.md").read_text()
    commands = [line.split()[1:] for line in text.splitlines() if line.startswith("pntm ")]
    assert [command[0] for command in commands] == ["tasks", "train", "eval", "solve"]
    small = [
        "--steps",
        "3",
        "--max-length",
        "4",
        "--lengths",
        "1:3",
        "--samples",
        "2",
        "--size",
        "width=8",
        "--size",
        "heads=2",
        "--size",
        "cell=4",
    ]
    more = {"train": small, "eval": ["--lengths", "1:3", "--samples", "2"]}
    for command in commands:
        done = CliRunner().invoke(cli.main, command + more.get(command[0], []))
        assert done.exit_code == 0, done.output
    assert CliRunner().invoke(cli.main, ["eval", "runs/last-first"]).exit_code == 2
    done = CliRunner().invoke(cli.main, ["train", "--resume", "--out", "runs/last-first"])
    assert done.exit_code == 2 and "name it again" in done.output
    done = CliRunner().invoke(cli.main, ["tasks", "my_tasks.py:Sum", "--length", "5", "--count", "2"])
    assert done.exit_code == 0 and "modulo 3" in done.output


def test_the_page_on_adding_a_model_is_true(tmp_path, monkeypatch):
    """Its mixer and its builder make a model that is the same by sequence and by step."""
    from pntm_np.models import registry

    mixer, builder = python_blocks(ROOT / "docs" / "add-a-model.md")
    (tmp_path / "mingru_gated_of_the_docs.py").write_text(mixer)
    monkeypatch.syspath_prepend(tmp_path)
    names = {**vars(registry), **vars(importlib.import_module("mingru_gated_of_the_docs"))}
    exec(builder, names)
    monkeypatch.setitem(registry.MODELS, "gated", names["_gated"])
    model = registry.build("gated", 5, width=8, depth=2)
    params, tokens = model.init(np.random.default_rng(0), np.float64), np.array([[0, 3, 1, 4]])
    state, logits = model.initial_state(1, dtype=np.float64), []
    for token in tokens.T:
        state, now = model.step(params, state, token)
        logits.append(now)
    np.testing.assert_allclose(model.forward(params, tokens), np.stack(logits, axis=1), rtol=1e-12)


def test_the_page_on_adding_a_command_is_true():
    (command,) = python_blocks(ROOT / "docs" / "add-a-command.md")
    names: dict = {"__annotations__": {}, **vars(importlib.import_module("pntm_np.commands.solve"))}
    exec(command, names)
    machine = str(ROOT / "results" / "checkpoints" / "parity-check-pntm.safetensors")
    assert CliRunner().invoke(names["count"], [machine]).output == "259,989\n"
