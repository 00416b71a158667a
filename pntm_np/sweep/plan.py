"""What is planned in a sweep's directory, kept in ``sweep.json``; a later sweep may add runs, not change them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pntm_np.files import locked, write_atomically
from pntm_np.sealed import CheckpointError
from pntm_np.sweep.grid import GridError, Planned
from pntm_np.training.config import Config
from pntm_np.training.run import Run

FILE = "sweep.json"


def read_plan(directory: Path) -> list[Planned]:
    """In the order in which the runs were planned; none if there is no sweep."""
    path = directory / FILE
    if not path.exists():
        return []
    try:
        rows = json.loads(path.read_bytes())["runs"]
        return [Planned(r["task"], r["variant"], Config.from_json(r["config"]), r["source"]) for r in rows]
    except (ValueError, KeyError, TypeError, RecursionError):
        raise CheckpointError(f"{path}: not the plan of a sweep") from None


def extend_plan(directory: Path, runs: list[Planned]) -> list[Planned]:
    """The plan with these runs; refuses one that is planned, or was made, in another way."""
    planned = {run.name: run for run in read_plan(directory)}
    for run in runs:
        before = planned.get(run.name)
        kept = before.config if before else _made(directory / run.name)
        if kept is not None and kept != run.config:
            raise GridError(f"{directory / run.name}: {difference(kept, run.config)}; name the variant differently")
    return list((planned | {run.name: run for run in runs}).values())


def write_plan(directory: Path, runs: list[Planned]) -> None:
    """Add these runs; other sweeps may do so at the same time."""
    directory.mkdir(parents=True, exist_ok=True)
    with locked(directory / ".sweep.lock"):
        runs = extend_plan(directory, runs)
        rows = [{"task": r.task, "variant": r.variant, "source": r.source, "config": r.config.as_json()} for r in runs]
        content = json.dumps({"runs": rows}, indent=1) + "\n"
        if not (directory / FILE).exists() or (directory / FILE).read_text() != content:
            write_atomically(directory / FILE, content.encode())


def _made(directory: Path) -> Config | None:
    run = Run(directory)
    return run.read_config() if run.path("config.json").exists() else None


def difference(kept: Config, wanted: Config) -> str:
    a, b = kept.as_json(), wanted.as_json()
    name = next(k for k in a if a[k] != b[k])
    value: Any = a[name]
    return f"its {name} is {value!r}, not {b[name]!r}"
