"""Write the rows of a benchmark to a file as they are measured, so that it can be resumed."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

from pntm_np.experiments.bench.forward import MODELS, Settings
from pntm_np.runtime.errors import USAGE, PntmError
from pntm_np.runtime.files import clear_partial, json_bytes, write_atomically
from pntm_np.runtime.untrusted import CheckpointError, Json, is_count, is_number, read_json
from pntm_np.scans import FORMS

ROW = {"mean", "std", "best", "runs", "peak_bytes", "difference", "agrees"}  # beside model, form and length
LARGE = 1e12  # most seconds, time steps or speed-up; more is a mistake, and cannot be drawn


class BenchError(PntmError, ValueError):
    exit_code = USAGE


class Record:
    def __init__(self, path: Path, settings: Settings, machine: Json) -> None:
        self.path, self.settings, self.machine = path, settings, machine
        self.rows: list[Json] = []

    def open(self, resume: bool) -> dict[tuple[str, str, int], Json]:
        """The rows that the file already has, by model, form and length."""
        if not self.path.exists():
            return {}
        if not resume:
            raise BenchError(f"{self.path} already has a benchmark; give --resume to continue it, or another --out")
        try:
            kept = read_json(self.path)
            settings, rows = kept["settings"], kept["rows"]
            found = {(r["model"], r["form"], r["length"]): r for r in rows}
            changed = [k for k, v in self._settings().items() if settings.get(k) != v]
            if not isinstance(kept["machine"], dict) or not all(map(is_row, rows)):
                raise ValueError
        except (ValueError, KeyError, TypeError, AttributeError):
            raise CheckpointError(f"{self.path}: expected a benchmark that can be resumed") from None
        if changed:
            name = changed[0]
            raise BenchError(
                f"{self.path} was made with {name} {_short(settings.get(name))}, not {_short(self._settings()[name])}; "
                "give the same value, or another --out"
            )
        if _fixed(kept.get("machine", {})) != _fixed(self.machine):
            raise BenchError(f"{self.path} was made on another computer or with other versions; give another --out")
        self.machine = kept["machine"]
        return found

    def add(self, row: Json) -> None:
        self.rows.append(row)
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
    """The form of NTM that a form is compared with, like for like: compiled code with compiled code, array operations
    with array operations (of which NTM has the loop alone)."""
    return "fused" if form == "fused" else "sequential"


def with_speedup(rows: list[Json]) -> list[Json]:
    """Add to each row its speed-up over NTM at the same length, and the form of NTM that this compares with."""
    ntm = {(row["form"], row["length"]): row["mean"] for row in rows if row["model"] == "ntm" and row["mean"]}
    found = []
    for row in rows:
        beside = ntm.get((partner(row["form"]), row["length"]))
        ratio = beside / row["mean"] if beside and row["mean"] else None
        found.append(row | {"speedup_over_ntm": ratio, "ntm_form": partner(row["form"])})
    return found


def crossovers(rows: list[Json]) -> list[str]:
    """From which length on each form of P-NTM is faster, or slower, than the form of NTM it is compared with."""
    ahead: dict[tuple[str, str], dict[int, bool]] = {}
    for row in with_speedup(rows):
        if row["model"] == "pntm" and row["speedup_over_ntm"]:
            ahead.setdefault((row["form"], row["ntm_form"]), {})[row["length"]] = row["speedup_over_ntm"] > 1
    lines = []
    for (form, beside), faster in ahead.items():
        lengths = sorted(faster)
        last = faster[lengths[-1]]
        changed = [n for n in lengths if faster[n] != last]
        since = f"from {lengths[lengths.index(changed[-1]) + 1]:,} time steps on" if changed else "at every length"
        lines.append(f"P-NTM, {form}, is {'faster' if last else 'slower'} than NTM, {beside}, {since}")
    return lines
