"""The state of each run of a sweep."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from pntm_np.experiments.sweep.collect import path_of, read_collected
from pntm_np.experiments.sweep.grid import GridError, Planned, difference
from pntm_np.experiments.sweep.supervise import failure, last_row
from pntm_np.runtime.untrusted import CheckpointError, Json
from pntm_np.training.run import Run

PERFECT = 1.0


@dataclass(frozen=True)
class Standing:
    name: str
    task: str
    variant: str
    seed: int
    state: str  # done, running, failed, stopped (begun, but no process runs it) or waiting
    step: int
    steps: int
    score: float | None = None  # exact match on inputs longer than in training
    cause: str = ""


def standing(directory: Path, planned: Planned, done: Path | None = None) -> Standing:
    """The state of a run; runs that have been collected in ``done`` count as done wherever they were made."""
    place = directory / planned.name
    run, config = Run(place), planned.config
    score, cause = None, ""
    step = max(0, last_row(run).get("step", 0))
    if kept := done and finished(done, planned):
        state, score, step = "done", kept["score"], kept["step"]
    elif run.complete:
        try:
            result = run.read_result()
            state, score, step = "done", result["score"], result["step"]
        except CheckpointError as error:
            state, cause = "failed", str(error)
    elif run.at_work:
        state = "running"
    elif given_up := failure(place):
        state, cause = "failed", f"{given_up.state}: {given_up.cause}".rstrip(": ")
    else:
        state = "stopped" if step else "waiting"
    return Standing(planned.name, planned.task, planned.variant, config.seed, state, step, config.steps, score, cause)


def finished(done: Path, planned: Planned) -> Json | None:
    """The result of the run if it was collected; refuses one that was made with another configuration."""
    kept = read_collected(done, planned.name)
    if kept and kept.config != planned.config:
        raise GridError(f"{path_of(done, planned.name)}: {difference(kept.config, planned.config)}")
    return kept.result if kept else None


def summary(standings: Iterable[Standing]) -> list[Json]:
    """For each task and variant: how many runs are in each state, and the scores of finished runs."""
    groups: dict[tuple[str, str], list[Standing]] = {}
    for run in standings:
        groups.setdefault((run.task, run.variant), []).append(run)
    rows = []
    for (task, variant), runs in groups.items():
        scores = [run.score for run in runs if run.score is not None]
        states = [run.state for run in runs]
        row = {"task": task, "variant": variant, "runs": len(runs)}
        row |= {state: states.count(state) for state in ("done", "running", "failed")}
        row |= {"perfect": sum(score == PERFECT for score in scores), "best": max(scores, default=None)}
        rows.append(row | {"mean": sum(scores) / len(scores) if scores else None})
    return rows
