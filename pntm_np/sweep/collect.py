"""Runs without what is large, for a repository: configuration, result or failure, some rows of the metrics."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pntm_np.files import write_atomically
from pntm_np.sweep.grid import GridError
from pntm_np.sweep.supervise import FAILURE
from pntm_np.training.run import Run

ROWS = 200  # of the loss, at the most; every evaluation is kept


def collect(directory: Path, out: Path) -> list[str]:
    """Copy the runs in ``directory`` that have ended, well or not; their names."""
    ended = [path.parent for name in ("result.json", FAILURE) for path in sorted(directory.glob(f"*/{name}"))]
    runs = {Run(place): Run(out / place.name) for place in ended}
    for run, kept in runs.items():
        if run.complete:
            run.read_result()  # refuses what is none
        if kept.path("config.json").exists() and kept.read_config() != run.read_config():
            raise GridError(f"{kept.directory}: there is another run of that name; give another --out")
    for run, kept in runs.items():
        kept.directory.mkdir(parents=True, exist_ok=True)
        for name in ("config.json", "result.json", FAILURE):
            if run.path(name).exists():
                write_atomically(kept.path(name), run.path(name).read_bytes())
        if run.path("metrics.jsonl").exists():
            rows = [json.loads(line) for line in run.path("metrics.jsonl").read_text().splitlines()]
            write_atomically(
                kept.path("metrics.jsonl"), "".join(json.dumps(row) + "\n" for row in thinned(rows)).encode()
            )
    return sorted(run.directory.name for run in runs)


def thinned(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    losses = sum("loss" in row for row in rows)
    every, seen, kept = -(-losses // ROWS) or 1, 0, []
    for row in rows:
        seen += "loss" in row
        if "loss" not in row or seen % every == 0:
            kept.append(row)
    return kept
