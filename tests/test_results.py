"""What is shipped in results/: machines that still answer, and a README that says what the report says."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from pntm_np.evaluation.score import evaluate, evaluation_memory
from pntm_np.evaluation.trained import load_trained, task_of
from pntm_np.models import Options
from pntm_np.report.session import report
from pntm_np.scans import default_form
from pntm_np.training.run import Run
from pntm_np.workers import Workers

RESULTS = Path(__file__).resolve().parent.parent / "results"
MACHINES = sorted((RESULTS / "checkpoints").glob("*.safetensors"))
SEED = 12_345  # not one that a machine was chosen or reported by


def judged(machine: Path) -> dict:
    """Its evaluation on lengths 41 to 120, which stands beside it."""
    return json.loads(machine.with_name(f"{machine.stem}-41-120.json").read_text())


@pytest.mark.parametrize("machine", MACHINES, ids=lambda path: path.stem)
def test_a_shipped_machine_answers_as_reported(machine):
    found, trained = judged(machine), load_trained(machine)
    assert [row["length"] for row in found["by_length"]] == list(range(41, 121)) and found["seed"] != 0
    assert trained.max_length == 40 and found["task"] == trained.task
    options = Options(default_form("cpu"), found["tau"], found["gate_tau"])
    with Workers(1) as workers:
        now = evaluate(
            trained.model, task_of(trained, None), [5, 40, 80, 120], 4, SEED, evaluation_memory(120), options, workers,
            trained.end_token,
        )  # fmt: skip
    if found["exact_match"] == 1:
        assert [score.exact_match for score in now.by_length] == [1.0] * 4


def test_there_are_machines():
    assert MACHINES and all(path.stat().st_size < 2_000_000 for path in MACHINES)


def test_runs_are_whole():
    places = [path.parent for path in (RESULTS / "runs").glob("*/config.json")]
    for place in places:
        result = Run(place).read_result()
        scores = [row["exact_match"] for row in result["by_length"] if row["length"] > 40]
        assert result["score"] == pytest.approx(np.mean(scores)) and len(scores) == 80
    assert len(places) >= len(MACHINES)


def test_the_readme_shows_what_was_found():
    text = (RESULTS.parent / "README.md").read_text()
    tables = {name: text.split(f"| {name}, exact match on |")[1].split("\n\n")[0] for name in ("P-NTM", "NTM")}
    for machine in MACHINES:
        trained, model = load_trained(machine), machine.stem.rsplit("-", 1)[1]
        task = trained.task + ("" if trained.end_token else ", no end token")
        for kind, said in (("", ""), ("-ample", ", ample memory")):
            paths = [machine.with_name(f"{machine.stem}{kind}-{n}.json") for n in ("41-120", "500", "1000")]
            if kind and not any(path.exists() for path in paths):
                continue
            found = [json.loads(path.read_text()) for path in paths]
            shown = [f"{np.floor(100 * f['exact_match']) / 100:.2f}" for f in found]  # 1.00 is perfect
            assert f"| {task}{said} | {' | '.join(shown)} |" in tables[{"pntm": "P-NTM", "ntm": "NTM"}[model]]


def test_the_report_is_that_of_the_runs(tmp_path):
    """Every table and figure again from what is in the repository; the README shows the main one."""
    report(RESULTS, tmp_path, lambda line: None)
    made, kept = ({path.name: path for path in place.iterdir()} for place in (tmp_path, RESULTS / "report"))
    assert made.keys() == kept.keys()
    for name in made:
        if made[name].suffix in (".csv", ".md"):
            assert made[name].read_text() == kept[name].read_text(), f"{name}: pntm report results"
    table = (RESULTS / "report" / "best.md").read_text().split("\n\n")[0]
    assert table in (RESULTS.parent / "README.md").read_text()
