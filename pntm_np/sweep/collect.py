"""Finished runs without what is large, for a repository: configuration, result, some rows of the metrics."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pntm_np.files import write_atomically
from pntm_np.training.run import Run

ROWS = 200  # of the loss, at the most; every evaluation is kept


def collect(directory: Path, out: Path) -> list[str]:
    """Copy the finished runs in ``directory``; their names."""
    names = []
    for path in sorted(directory.glob("*/result.json")):
        run, place = Run(path.parent), out / path.parent.name
        run.read_result()  # refuses what is none
        place.mkdir(parents=True, exist_ok=True)
        rows = [json.loads(line) for line in run.path("metrics.jsonl").read_text().splitlines()]
        kept = "".join(json.dumps(row) + "\n" for row in thinned(rows))
        write_atomically(place / "metrics.jsonl", kept.encode())
        for name in ("config.json", "result.json"):
            write_atomically(place / name, run.path(name).read_bytes())
        names.append(place.name)
    return names


def thinned(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    losses = sum("loss" in row for row in rows)
    every, seen, kept = -(-losses // ROWS) or 1, 0, []
    for row in rows:
        seen += "loss" in row
        if "loss" not in row or seen % every == 0:
            kept.append(row)
    return kept
