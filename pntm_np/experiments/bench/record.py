"""Rows of a bench in a file, each as soon as it is there, so that an interrupted one can go on."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

from pntm_np.experiments.bench.forward import MODELS, Settings
from pntm_np.runtime.errors import USAGE, PntmError
from pntm_np.runtime.files import clear_partial, json_bytes, write_atomically
from pntm_np.runtime.untrusted import CheckpointError, Json, is_count, is_number, read_json
from pntm_np.scans import FORMS

ROW = {"mean", "std", "best", "runs", "peak_bytes", "difference", "agrees"}  # and what is timed
LARGE = 1e12  # seconds or steps, or times as fast: more is a mistake, and cannot be drawn


class BenchError(PntmError, ValueError):
    exit_code = USAGE


class Record:
    def __init__(self, path: Path, settings: Settings, machine: Json) -> None:
        self.path, self.settings, self.machine = path, settings, machine
        self.rows: list[Json] = []

    def open(self, resume: bool) -> dict[tuple[str, str, int], Json]:
        """The rows that are there already, by model, form and length."""
        if not self.path.exists():
            return {}
        if not resume:
            raise BenchError(f"{self.path} holds a bench already; --resume goes on with it, --out names another file")
        try:
            kept = read_json(self.path)
            settings, rows = kept["settings"], kept["rows"]
            found = {(r["model"], r["form"], r["length"]): r for r in rows}
            changed = [k for k, v in self._settings().items() if settings.get(k) != v]
            if not isinstance(kept["machine"], dict) or not all(map(is_row, rows)):
                raise ValueError
        except (ValueError, KeyError, TypeError, AttributeError):
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

    def add(self, row: Json) -> None:
        self.rows.append(row)
        self.save()

    def save(self) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        clear_partial([self.path])
        write_atomically(self.path, json_bytes(self.as_json(), indent=1))

    def as_json(self) -> Json:
        return {"machine": self.machine, "settings": self._settings(), "rows": with_speedup(self.rows)}

    def _settings(self) -> Json:
        return {k: list(v) if isinstance(v, tuple) else v for k, v in asdict(self.settings).items()}


def is_row(row: Any) -> bool:
    if not isinstance(row, dict) or not row.keys() >= ROW:
        return False
    timed = row["mean"] is not None
    return (
        row.get("model") in MODELS
        and row.get("form") in FORMS
        and is_number(row.get("length"), 1, LARGE)
        and is_count(row["runs"])
        and all(is_number(row[name], 1 / LARGE, LARGE) if timed else row[name] is None for name in ("mean", "best"))
        and (is_number(row["std"], 0, LARGE) if timed else row["std"] is None)
        and all(row[name] is None or is_number(row[name], 0) for name in ("peak_bytes", "difference"))
        and (timed or isinstance(row.get("skipped", ""), str))
    )


def _short(value: Any) -> str:
    return ",".join(map(str, value))[:60] if isinstance(value, list) else str(value)[:60]


def _fixed(machine: Json) -> Json:
    return {k: v for k, v in machine.items() if k != "free_memory"}


def partner(form: str) -> str:
    """The form of NTM that a form is compared with, like with like: compiled code with compiled code, array operations
    with array operations. NTM has no other form of the latter than the loop."""
    return "fused" if form == "fused" else "sequential"


def with_speedup(rows: list[Json]) -> list[Json]:
    """Each row with how many times faster it is than its partner among the NTMs of its length, and which that is."""
    ntm = {(row["form"], row["length"]): row["mean"] for row in rows if row["model"] == "ntm" and row["mean"]}
    found = []
    for row in rows:
        beside = ntm.get((partner(row["form"]), row["length"]))
        ratio = beside / row["mean"] if beside and row["mean"] else None
        found.append(row | {"speedup_over_ntm": ratio, "ntm_form": partner(row["form"])})
    return found


def crossovers(rows: list[Json]) -> list[str]:
    """From which length on each form of P-NTM is faster than its partner, or slower."""
    ahead: dict[tuple[str, str], dict[int, bool]] = {}
    for row in with_speedup(rows):
        if row["model"] == "pntm" and row["speedup_over_ntm"]:
            ahead.setdefault((row["form"], row["ntm_form"]), {})[row["length"]] = row["speedup_over_ntm"] > 1
    lines = []
    for (form, beside), faster in ahead.items():
        lengths = sorted(faster)
        last = faster[lengths[-1]]
        changed = [n for n in lengths if faster[n] != last]
        since = f"from {lengths[lengths.index(changed[-1]) + 1]:,} steps on" if changed else "at every length"
        lines.append(f"P-NTM, {form}, is {'faster' if last else 'slower'} than NTM, {beside}, {since}")
    return lines
