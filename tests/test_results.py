"""What is shipped in results/: machines that still answer as their runs say, and pages that say what the report says."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from pntm_np.evaluation import Context, Settings, evaluate
from pntm_np.evaluation.trained import load_trained, task_of
from pntm_np.experiments.report.build import report
from pntm_np.experiments.sweep.collect import read_collected
from pntm_np.experiments.sweep.grid import read_grid
from pntm_np.models import Options
from pntm_np.models.checkpoint import load
from pntm_np.runtime.workers import Workers
from pntm_np.scans import default_form

RESULTS = Path(__file__).resolve().parent.parent / "results"
MACHINES = sorted((RESULTS / "checkpoints").glob("*.safetensors"))
RUNS = sorted((RESULTS / "runs").glob("*.json"))


def run_of(machine: Path):
    """The collected run that made it."""
    made = load(machine).training
    found = read_collected(RESULTS / "runs", f"{machine.stem}-{made['seed']}")
    assert found and found.result, f"{machine.name}: its run is not in results/runs"
    return found


@pytest.mark.parametrize("machine", MACHINES, ids=lambda path: path.stem)
def test_a_shipped_machine_is_that_of_its_run_and_answers_as_it_says(machine):
    """Without options: with the thresholds that it keeps, the evaluation's first inputs of some lengths."""
    run, trained = run_of(machine), load_trained(machine)
    model = trained.model
    assert {**run.config.as_json(), "step": run.result["step"]} == model.training
    assert model.thresholds == (run.result["tau"], run.result["gate_tau"])
    by_length = {row["length"]: row["exact_match"] for row in run.result["by_length"]}
    lengths = [n for n in (5, 40, 80, 120) if by_length[n] == 1]  # a few inputs tell nothing of others
    with Workers(1) as workers:
        options = Options(default_form("cpu"), *model.thresholds)
        task = task_of(trained, None)
        settings = Settings(lengths, 4, run.result["evaluation_seed"], options=options)
        now = evaluate(model, task, settings, Context(workers))
    assert [score.exact_match for score in now.by_length] == [1.0] * len(lengths)


def test_there_are_machines():
    assert MACHINES and all(path.stat().st_size < 2_000_000 for path in MACHINES)


@pytest.mark.parametrize("machine", MACHINES, ids=lambda path: path.stem)
def test_of_its_runs_a_machine_is_that_with_the_smallest_loss_on_the_training_lengths(machine):
    seeds = {
        path.stem.removeprefix(f"{machine.stem}-"): path for path in RUNS if path.stem.startswith(f"{machine.stem}-")
    }
    found = {seed: read_collected(path.parent, path.stem) for seed, path in seeds.items() if seed.isdigit()}
    losses = {int(seed): run.evaluations["judged_loss"][-1] for seed, run in found.items()}
    assert min(losses, key=losses.get) == load(machine).training["seed"]


@pytest.mark.parametrize("path", sorted((RESULTS / "grids").glob("*.toml")), ids=lambda path: path.stem)
def test_grids_can_be_run_and_hold_the_runs_that_were_made(path):
    """A run that has been made is one of a grid, as it stands there."""
    planned = {run.name: run.config for run in read_grid(path)}
    for made in RUNS:
        if made.stem in planned:
            assert read_collected(made.parent, made.stem).config == planned[made.stem], made.name


def test_runs_are_whole():
    for path in RUNS:
        result = read_collected(path.parent, path.stem).result
        scores = [row["exact_match"] for row in result["by_length"] if row["length"] > 40]
        assert result["score"] == pytest.approx(np.mean(scores)) and len(scores) == 80


@pytest.mark.parametrize("machine", MACHINES, ids=lambda path: path.stem)
def test_the_readme_shows_how_far_a_machine_reaches(machine):
    text = (RESULTS.parent / "README.md").read_text()
    far = json.loads(machine.with_name(f"{machine.stem}-1000.json").read_text())
    ((length, samples, exact),) = ((row["length"], row["samples"], row["exact_match"]) for row in far["by_length"])
    rows = [row for row in run_of(machine).result["by_length"] if row["length"] > 40]
    right = sum(round(row["exact_match"] * row["samples"]) for row in rows)
    assert (length, samples, far["seed"]) == (1000, 128, 1)
    assert f"| {far['task']} | {right:,} | {round(exact * samples)} |" in text
    assert f"pntm eval results/checkpoints/{machine.name} --lengths 1000 --memory-size ample --seed 1\n" in text


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
