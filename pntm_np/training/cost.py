"""Cost and origin of a run in ``timing.jsonl``, apart from the checkpoint, whose bytes must not depend on them.

Every process adds a row when it starts, whenever it saves, and after its evaluation; a killed one leaves its rows.
"""

from __future__ import annotations

import time

from pntm_np.runtime.origin import made_by
from pntm_np.runtime.untrusted import CheckpointError, Json, is_number, parse, read_bytes
from pntm_np.training.run import Run

TIMING = "timing.jsonl"


class Cost:
    """Records the cost of this process from now on."""

    def __init__(self, run: Run, step: int, threads: int) -> None:
        self.run = run
        run.append(TIMING, {"from_step": step, "threads": threads, "started": round(time.time(), 3), **made_by()})
        self.clock = now()

    def trained(self, step: int) -> None:
        self._add("training", step)

    def evaluated(self, step: int) -> None:
        self._add("evaluation", step)

    def _add(self, kind: str, step: int) -> None:
        """Add a row with the time spent since the previous row."""
        spent = {name: round(after - self.clock[name], 3) for name, after in now().items()}
        self.run.append(TIMING, {"step": step, **{f"{kind}_{name}": value for name, value in spent.items()}})
        self.clock = now()


def now() -> dict[str, float]:
    return {"seconds": time.perf_counter(), "cpu_seconds": time.process_time()}


def total(run: Run) -> Json:
    """Wall-clock and processor seconds of the whole run, and the versions that its last process used."""
    try:
        lines = read_bytes(run.path(TIMING)).splitlines()
    except (OSError, CheckpointError):
        return {}
    spent: Json = {}
    for line in lines:
        try:
            row = parse(line)
        except ValueError:
            continue  # truncated by a crash
        if not isinstance(row, dict):
            continue
        for name, value in row.items():
            if name.endswith("seconds"):
                spent[name] = round(spent.get(name, 0.0) + (value if is_number(value, 0) else 0.0), 3)
            elif name not in ("step", "from_step", "started", "diverged"):
                spent[name] = value
    return spent
