"""Runs that have ended, each in one small file for a repository: result or failure, cost, and some of the metrics."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pntm_np.files import unusable, write_atomically
from pntm_np.sealed import CheckpointError
from pntm_np.sweep.grid import GridError
from pntm_np.sweep.supervise import FAILURE, failure
from pntm_np.training import cost
from pntm_np.training.config import Config
from pntm_np.training.run import Run, is_result

KIND = "run-2"  # the version of the file
ROWS = 200  # of the loss, at the most; every evaluation is kept


@dataclass(frozen=True)
class Collected:
    """A run that has ended, as its file tells."""

    config: Config
    result: dict[str, Any] | None  # or failure: why it was given up
    failure: dict[str, Any] | None
    cost: dict[str, Any]  # seconds by the clock and of the processor, threads, and what made it
    losses: dict[str, list]  # step, length, loss and gradient_norm, column by column
    evaluations: dict[str, list]  # step, exact_match and judged_loss, on the training lengths


def collect(directory: Path, out: Path) -> list[str]:
    """Copy the runs in ``directory`` that have ended, well or not; their names. All is read before any is written."""
    if why := unusable(out) or ("these are the runs themselves" if out.resolve() == directory.resolve() else ""):
        raise GridError(f"--out {out}: {why}")
    places = {path.parent for name in ("result.json", FAILURE) for path in directory.glob(f"*/{name}")}
    kept = {place.name: small(Run(place)) for place in sorted(places)}
    for name, found in kept.items():
        there = read_collected(out, name)
        if there and there.config != found.config:
            raise GridError(f"{path_of(out, name)}: there is another run of that name; give another --out")
    for name, found in kept.items():
        out.mkdir(parents=True, exist_ok=True)
        content = {"pntm": KIND, **asdict(found), "config": found.config.as_json()}
        write_atomically(path_of(out, name), (json.dumps(content, allow_nan=False) + "\n").encode())
    return list(kept)


def path_of(out: Path, name: str) -> Path:
    return out / f"{name}.json"


def small(run: Run) -> Collected:
    """What is kept of a run."""
    result = run.read_result() if run.complete else None
    given_up = None if result else failure(run.directory)
    try:
        rows = [json.loads(line) for line in run.path("metrics.jsonl").read_text().splitlines()]
        losses = columns(thinned([row for row in rows if "loss" in row]))
        evaluations = columns([{k: row[k] for k in row if k != "by_length"} for row in rows if "exact_match" in row])
    except FileNotFoundError:
        losses, evaluations = {}, {}  # it failed before its first step
    except (ValueError, TypeError, RecursionError):
        raise CheckpointError(f"{run.path('metrics.jsonl')}: not the metrics of a run") from None
    facts = asdict(given_up) if given_up else None
    return Collected(run.read_config(), result, facts, cost.total(run), losses, evaluations)


def read_collected(out: Path, name: str) -> Collected | None:
    """The run of that name, if it has been collected."""
    path = path_of(out, name)
    try:
        content = json.loads(path.read_bytes())
    except FileNotFoundError:
        return None
    except (ValueError, RecursionError):
        raise CheckpointError(f"{path}: not readable as JSON") from None
    found = collected(content)
    if found is None:
        raise CheckpointError(f"{path}: not a run as pntm sweep collect keeps it")
    return found


def collected(content: Any) -> Collected | None:
    """The run in the content of a file that is not trusted; None if it is none."""
    if not isinstance(content, dict) or content.get("pntm") != KIND:
        return None
    try:
        content = {name: value for name, value in content.items() if name != "pntm"}
        found = Collected(**{**content, "config": Config.from_json(content["config"])})
    except (KeyError, TypeError, ValueError):
        return None
    parts = (found.cost, found.losses, found.evaluations)
    usable = is_result(found.result) if found.result is not None else isinstance(found.failure, dict)
    return found if usable and all(isinstance(part, dict) for part in parts) else None


def columns(rows: list[dict[str, Any]]) -> dict[str, list]:
    return {name: [row[name] for row in rows] for name in rows[0]} if rows else {}


def thinned(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Every so many of them, with the last."""
    every = -(-len(rows) // ROWS) or 1
    return rows[::-1][::every][::-1]
