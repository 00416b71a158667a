"""What is planned in a sweep's directory, kept in ``sweep.json``; a later sweep may add runs, not change them.

The file is not trusted: it says which runs there are, and nothing in it is imported. A task that is in a file of the
user's is there by its name alone; where that file is, the command line says each time, or the grid that it names.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from pntm_np.experiments.sweep.grid import GridError, Planned, check_count
from pntm_np.runtime.files import json_bytes, locked, write_atomically
from pntm_np.runtime.untrusted import CheckpointError, read_bytes, read_json
from pntm_np.training.config import Config
from pntm_np.training.run import Run
from tasks import TASKS

FILE = "sweep.json"


def read_plan(directory: Path) -> list[Planned]:
    """In the order in which the runs were planned; none if there is no sweep."""
    path = directory / FILE
    if not path.exists():
        return []
    content = read_json(path)
    try:
        check_count(len(content["runs"]))
        runs = [_row(row) for row in content["runs"]]
        if len({run.name for run in runs}) < len(runs):
            raise ValueError("a run is there twice")
    except (ValueError, KeyError, TypeError) as error:
        why = f": {error}" if isinstance(error, ValueError) else ""
        raise CheckpointError(f"{path}: not the plan of a sweep{why}") from None
    return runs


def _row(row: dict[str, Any]) -> Planned:
    run = Planned(row["variant"], Config.from_json(row["config"]))
    if run.task in TASKS and run.config.symbols != TASKS[run.task].symbols:
        raise ValueError(f"{run.name} has other symbols than {run.task}")
    return run


def extend_plan(directory: Path, runs: list[Planned]) -> list[Planned]:
    """The plan with these runs; refuses one that is planned, or was made, in another way."""
    sources = {(run.task, run.config.symbols): run.source for run in runs}
    before = [replace(run, source=sources.get((run.task, run.config.symbols), "")) for run in read_plan(directory)]
    planned = {run.name: run for run in before}
    for run in runs:
        kept = planned[run.name].config if run.name in planned else _made(directory / run.name)
        if kept is not None and kept != run.config:
            raise GridError(f"{directory / run.name}: {difference(kept, run.config)}; name the variant differently")
    planned |= {run.name: run for run in runs}
    check_count(len(planned))
    return list(planned.values())


def write_plan(directory: Path, runs: list[Planned]) -> None:
    """Add these runs; other sweeps may do so at the same time."""
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / FILE
    with locked(directory / ".sweep.lock"):
        rows = [{"variant": r.variant, "config": r.config.as_json()} for r in extend_plan(directory, runs)]
        content = json_bytes({"runs": rows}, indent=1)
        if not path.exists() or read_bytes(path) != content:
            write_atomically(path, content)


def _made(directory: Path) -> Config | None:
    run = Run(directory)
    return run.read_config() if run.path("config.json").exists() else None


def difference(kept: Config, wanted: Config) -> str:
    a, b = kept.as_json(), wanted.as_json()
    name = next(k for k in a if a[k] != b[k])
    value: Any = a[name]
    return f"its {name} is {value!r}, not {b[name]!r}"
