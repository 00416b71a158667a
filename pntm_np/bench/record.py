"""Rows of a bench in a file, each as soon as it is there, so that an interrupted one can go on."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from pntm_np.bench.forward import Settings
from pntm_np.files import clear_partial, write_atomically
from pntm_np.sealed import CheckpointError

ROW = {"mean", "std", "best", "runs", "peak_bytes", "difference", "agrees"}  # and what is timed


class BenchError(ValueError):
    """This cannot be timed, or not kept there; the message says why and what can be done."""


class Record:
    def __init__(self, path: Path, settings: Settings, machine: dict[str, Any]) -> None:
        self.path, self.settings, self.machine = path, settings, machine
        self.rows: list[dict[str, Any]] = []

    def open(self, resume: bool) -> dict[tuple[str, str, int], dict[str, Any]]:
        """The rows that are there already, by model, form and length."""
        if not self.path.exists():
            return {}
        if not resume:
            raise BenchError(f"{self.path} holds a bench already; --resume goes on with it, --out names another file")
        try:
            kept = json.loads(self.path.read_text())
            settings, rows = kept["settings"], kept["rows"]
            found = {(r["model"], r["form"], r["length"]): r for r in rows}
            changed = [k for k, v in self._settings().items() if settings.get(k) != v]
            if not isinstance(kept["machine"], dict) or not all(row.keys() >= ROW for row in rows):
                raise ValueError
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            raise CheckpointError(f"{self.path}: no bench that can be resumed") from None
        if changed:
            name = changed[0]
            raise BenchError(
                f"{self.path} was made with {name} {_short(settings.get(name))}, not {_short(self._settings()[name])}; "
                "give the same, or another --out"
            )
        if _fixed(kept.get("machine", {})) != _fixed(self.machine):
            raise BenchError(f"{self.path} was made on another machine or with other versions; name another --out")
        self.machine = kept["machine"]
        return found

    def add(self, row: dict[str, Any]) -> None:
        self.rows.append(row)
        self.save()

    def save(self) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        clear_partial([self.path])
        write_atomically(self.path, (json.dumps(self.as_json(), indent=1) + "\n").encode())

    def as_json(self) -> dict[str, Any]:
        return {"machine": self.machine, "settings": self._settings(), "rows": with_speedup(self.rows)}

    def _settings(self) -> dict[str, Any]:
        return {k: list(v) if isinstance(v, tuple) else v for k, v in asdict(self.settings).items()}


def _short(value: Any) -> str:
    return ",".join(map(str, value))[:60] if isinstance(value, list) else str(value)[:60]


def _fixed(machine: dict[str, Any]) -> dict[str, Any]:
    return {k: v for k, v in machine.items() if k != "free_memory"}


def with_speedup(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Each row with how many times faster it is than the fastest NTM of the same length."""
    ntm: dict[int, float] = {}
    for row in rows:
        if row["model"] == "ntm" and row["mean"]:
            ntm[row["length"]] = min(row["mean"], ntm.get(row["length"], row["mean"]))
    return [
        row | {"speedup_over_ntm": ntm[row["length"]] / row["mean"] if row["mean"] and row["length"] in ntm else None}
        for row in rows
    ]


def crossovers(rows: list[dict[str, Any]]) -> list[str]:
    """From which length on one contestant is faster than another, where that changes; and who is always faster."""
    means: dict[str, dict[int, float]] = {}
    for row in rows:
        if row["mean"]:
            means.setdefault(f"{row['model']} {row['form']}", {})[row["length"]] = row["mean"]
    lines, names = [], list(means)
    for i, a in enumerate(names):
        for b in names[i + 1 :]:
            shared = sorted(means[a].keys() & means[b].keys())
            if not shared:
                continue
            ahead = [means[a][n] <= means[b][n] for n in shared]
            first, second = (a, b) if ahead[-1] else (b, a)
            last_behind = max((k for k, x in enumerate(ahead) if x != ahead[-1]), default=-1)
            since = "at every length" if last_behind < 0 else f"from {shared[last_behind + 1]:,} steps on"
            lines.append(f"{first} is faster than {second} {since}")
    return lines
