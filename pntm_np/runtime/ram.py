"""How much RAM is free, and the refusal of work that does not fit."""

from __future__ import annotations

import math
import os
from pathlib import Path

from autodiff import backend
from pntm_np.runtime.errors import NOT_AVAILABLE, PntmError

MEMINFO, CGROUP = Path("/proc/meminfo"), Path("/sys/fs/cgroup")
SPARE = 1.3  # estimates count arrays only; the allocator and the interpreter need more


class NotEnoughMemory(PntmError, RuntimeError):
    """The work does not fit into memory; the message has the numbers and the option to lower."""

    exit_code = NOT_AVAILABLE


def available(device: str = "cpu") -> int | None:
    """Bytes that can still be allocated, or None if unknown."""
    if device == "cuda":
        return int(backend.load(device).xp.cuda.runtime.memGetInfo()[0])
    found: list[float] = []
    try:
        lines = dict(line.split(":") for line in MEMINFO.read_text().splitlines())
        found.append(int(lines["MemAvailable"].split()[0]) * 1024)
    except (OSError, KeyError, ValueError):
        if hasattr(os, "sysconf") and "SC_PHYS_PAGES" in os.sysconf_names:
            found.append(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    try:
        limit = (CGROUP / "memory.max").read_text().strip()
        counts = dict(line.split() for line in (CGROUP / "memory.stat").read_text().splitlines())
        used = int((CGROUP / "memory.current").read_text()) - int(counts["inactive_file"])  # a reclaimable cache
        found.append(math.inf if limit == "max" else int(limit) - used)
    except (OSError, KeyError, ValueError):
        pass
    finite = [amount for amount in found if amount != math.inf]
    return int(min(finite)) if finite else None


def require(need: int, what: str, lower: str, device: str = "cpu") -> None:
    """Raise NotEnoughMemory if ``what`` needs more bytes than are free; ``lower`` names the options to lower."""
    there = available(device)
    if there is not None and need * SPARE > there:
        raise NotEnoughMemory(f"{what} needs about {size(need)}, and {size(there)} are free; lower {lower}")


def size(amount: int) -> str:
    return f"{amount / 1e9:,.1f} GB" if amount >= 1e8 else f"{amount / 1e6:,.1f} MB"
