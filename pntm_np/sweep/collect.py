"""Runs without what is large, for a repository: configuration, result or failure, some rows of the metrics."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pntm_np.files import unusable, write_atomically
from pntm_np.sealed import CheckpointError
from pntm_np.sweep.grid import GridError
from pntm_np.sweep.supervise import FAILURE
from pntm_np.training.run import Run

ROWS = 200  # of the loss, at the most; every evaluation is kept


def collect(directory: Path, out: Path) -> list[str]:
    """Copy the runs in ``directory`` that have ended, well or not; their names. All is read before any is written."""
    if why := unusable(out) or ("these are the runs themselves" if out.resolve() == directory.resolve() else ""):
        raise GridError(f"--out {out}: {why}")
    places = {path.parent for name in ("result.json", FAILURE) for path in directory.glob(f"*/{name}")}
    kept = {place.name: _small(Run(place), Run(out / place.name)) for place in sorted(places)}
    for name, files in kept.items():
        (out / name).mkdir(parents=True, exist_ok=True)
        for file, content in files.items():
            write_atomically(out / name / file, content)
    return list(kept)


def _small(run: Run, there: Run) -> dict[str, bytes]:
    """The files of a run that are kept."""
    if run.complete:
        run.read_result()  # refuses what is none
    if there.path("config.json").exists() and there.read_config() != run.read_config():
        raise GridError(f"{there.directory}: there is another run of that name; give another --out")
    files = {n: run.path(n).read_bytes() for n in ("config.json", "result.json", FAILURE) if run.path(n).exists()}
    try:
        rows = [json.loads(line) for line in run.path("metrics.jsonl").read_text().splitlines()]
        text = "".join(json.dumps(row) + "\n" for row in thinned(rows))
    except FileNotFoundError:
        return files  # it failed before its first step
    except (ValueError, TypeError, RecursionError):
        raise CheckpointError(f"{run.path('metrics.jsonl')}: not the metrics of a run") from None
    return files | {"metrics.jsonl": text.encode()}


def thinned(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    losses = sum("loss" in row for row in rows)
    every, seen, kept = -(-losses // ROWS) or 1, 0, []
    for row in rows:
        seen += "loss" in row
        if "loss" not in row or seen % every == 0:
            kept.append(row)
    return kept
