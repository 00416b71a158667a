"""Collect runs that have ended, each in a small file: its result or failure, its cost, and some of its metrics."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pntm_np.experiments.sweep.grid import GridError
from pntm_np.experiments.sweep.supervise import FAILURE, failure
from pntm_np.runtime.files import json_bytes, unusable, write_atomically
from pntm_np.runtime.untrusted import CheckpointError, Json, is_number, parse, read_bytes, read_json
from pntm_np.training import cost
from pntm_np.training.config import Config
from pntm_np.training.run import Run, is_result

KIND = "run-2"  # version of the file format
ROWS = 200  # most rows of the loss; every evaluation is kept


@dataclass(frozen=True)
class Collected:
    config: Config
    result: Json | None  # None if the run failed
    failure: Json | None
    cost: Json  # wall and processor seconds, threads, and versions
    losses: dict[str, list]  # columns step, length, loss and gradient_norm
    evaluations: dict[str, list]  # columns step, exact_match and judged_loss, on the training lengths


def collect(directory: Path, out: Path) -> tuple[list[str], list[str]]:
    """Copy the runs in ``directory`` that have finished or failed; return their names, and why others are left out."""
    if why := unusable(out) or ("these are the runs themselves" if out.resolve() == directory.resolve() else ""):
        raise GridError(f"--out {out}: {why}")
    places = {path.parent for name in ("result.json", FAILURE) for path in directory.glob(f"*/{name}")}
    kept, left_out = {}, []
    for place in sorted(places):
        try:
            found, there = small(Run(place)), read_collected(out, place.name)
        except (CheckpointError, OSError) as error:  # the others are still good
            left_out.append(str(error))
            continue
        if there and there.config != found.config:
            raise GridError(f"{path_of(out, place.name)}: has another run of that name; give another --out")
        kept[place.name] = found
    for name, found in kept.items():
        out.mkdir(parents=True, exist_ok=True)
        content = {"pntm": KIND, **asdict(found), "config": found.config.as_json()}
        write_atomically(path_of(out, name), json_bytes(content))
    return list(kept), left_out


def path_of(out: Path, name: str) -> Path:
    return out / f"{name}.json"


def small(run: Run) -> Collected:
    result = run.read_result() if run.complete else None
    given_up = None if result else failure(run.directory)
    try:
        lines = read_bytes(run.path("metrics.jsonl")).split(b"\n")[:-1]  # a crash may have cut off the last line
        rows = [parse(line) for line in lines]
        losses = columns(thinned([row for row in rows if "loss" in row]))
        evaluations = columns([{k: row[k] for k in row if k != "by_length"} for row in rows if "exact_match" in row])
    except FileNotFoundError:
        losses, evaluations = {}, {}  # the run failed before its first step
    except (ValueError, TypeError, KeyError) as error:
        if isinstance(error, CheckpointError):
            raise
        raise CheckpointError(f"{run.path('metrics.jsonl')}: expected the metrics of a run") from None
    facts = asdict(given_up) if given_up else None
    return Collected(run.read_config(), result, facts, cost.total(run), losses, evaluations)


def read_collected(out: Path, name: str) -> Collected | None:
    path = path_of(out, name)
    try:
        content = read_json(path)
    except FileNotFoundError:
        return None
    found = collected(content)
    if found is None:
        raise CheckpointError(f"{path}: expected a run in the format of pntm sweep collect")
    return found


def collected(content: Any) -> Collected | None:
    """The run in the content of an untrusted file; None if the content is not a run."""
    if not isinstance(content, dict) or content.get("pntm") != KIND:
        return None
    try:
        content = {name: value for name, value in content.items() if name != "pntm"}
        found = Collected(**{**content, "config": Config.from_json(content["config"])})
    except (KeyError, TypeError, ValueError):
        return None
    failed = found.failure or {}
    parts = (failed, found.cost, found.losses, found.evaluations)
    if not all(isinstance(part, dict) for part in parts):
        return None
    seconds = [value for name, value in found.cost.items() if name.endswith("seconds")]
    told = found.result is not None or all(isinstance(failed.get(name), str) for name in ("state", "cause"))
    usable = told and (found.result is None or is_result(found.result))
    return found if usable and all(is_number(value, 0) for value in seconds) else None


def columns(rows: list[Json]) -> dict[str, list]:
    """Turn rows into columns; raises ValueError for anything but numbers, and KeyError for missing ones."""
    found = {name: [row[name] for row in rows] for name in rows[0]} if rows else {}
    if not all(is_number(value) or isinstance(value, bool) for values in found.values() for value in values):
        raise ValueError
    return found


def thinned(rows: list[Json]) -> list[Json]:
    every = -(-len(rows) // ROWS) or 1
    return rows[::-1][::every][::-1]
