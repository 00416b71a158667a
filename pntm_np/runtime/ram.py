"""How much memory a run needs, before any of it is taken, and how much there is."""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import Any

from autodiff import backend
from pntm_np.models import PNTM, Architecture, Attention, LSTMModel, MinGRU, NTMModel, Stack
from pntm_np.models.attention.layer import FIRE_LENGTH
from pntm_np.models.summary import cache_growth, state_size
from pntm_np.runtime.errors import NOT_AVAILABLE, PntmError

BYTES = 4  # float32
STATES = 4  # copies of a sequence's state in a training step
MEMINFO, CGROUP = Path("/proc/meminfo"), Path("/sys/fs/cgroup")
SPARE = 1.3  # numbers below are measured peaks; allocators and the interpreter want some room


class NotEnoughMemory(PntmError, RuntimeError):
    """What was asked for cannot fit; the message has the numbers and the flag to lower."""

    exit_code = NOT_AVAILABLE


def training_need(architecture: Architecture, rows: int, steps: int, cells: int, form: str, device: str = "cpu") -> int:
    """Bytes at the peak of one shard's forward and backward pass. Factors were fitted to peaks by tracemalloc."""
    d, per_step = architecture.width, 0.0
    if isinstance(architecture, Stack):
        for mixer in architecture.mixers:
            if isinstance(mixer, MinGRU):
                per_step += (10 + 5 * mixer.expansion) * d
            elif isinstance(mixer, PNTM):
                addresses = {"paper": 8 * mixer.cell, "fused": mixer.heads}.get(form, 4 * mixer.heads)
                per_step += 14 * d + addresses * cells
            elif isinstance(mixer, Attention):
                per_step += 15 * d if form == "fused" else 20 * d + 2.7 * mixer.heads * steps
                by_pairs = device != "cpu" or steps > FIRE_LENGTH
                bias = {"fire": 70 if by_pairs else mixer.heads, "alibi": mixer.heads}.get(mixer.positions, 0)
                per_step += bias * steps / rows
    elif isinstance(architecture, NTMModel):
        H, n = architecture.heads, architecture.cell
        per_step = 29 * d + (2 * H + n) * cells if form == "fused" else 20 * d + 3.5 * H * n * cells
    elif isinstance(architecture, LSTMModel):
        per_step = 10 * d
    states = STATES * state_numbers(architecture, cells)
    return int(BYTES * (rows * (steps * per_step + states) + 3 * architecture.parameter_count()))


def state_numbers(architecture: Architecture, cells: int) -> int:
    one, two = state_size(architecture, 1), state_size(architecture, 2)  # it grows by the same with every cell
    return one + (cells - 1) * (two - one)


def decoding_need(architecture: Architecture, rows: int, steps: int, cells: int) -> int:
    """Bytes of the states of rows decoded together, and of what a step makes beside them; fitted likewise."""
    state = state_numbers(architecture, cells)
    copies = 10.5 if isinstance(architecture, NTMModel) else 2.8
    per_row = copies * state + 2.2 * steps * cache_growth(architecture) + 14 * architecture.width
    return int(BYTES * rows * per_row)


def available(device: str = "cpu") -> int | None:
    """Bytes that can still be had, or None if that cannot be told."""
    if device == "cuda":
        return int(backend.load(device).xp.cuda.runtime.memGetInfo()[0])
    found = []
    try:
        lines = dict(line.split(":") for line in MEMINFO.read_text().splitlines())
        found.append(int(lines["MemAvailable"].split()[0]) * 1024)
    except (OSError, KeyError, ValueError):
        if hasattr(os, "sysconf") and "SC_PHYS_PAGES" in os.sysconf_names:
            found.append(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    try:
        limit = (CGROUP / "memory.max").read_text().strip()
        counts = dict(line.split() for line in (CGROUP / "memory.stat").read_text().splitlines())
        used = int((CGROUP / "memory.current").read_text()) - int(counts["inactive_file"])  # a cache, given back
        found.append(math.inf if limit == "max" else int(limit) - used)
    except (OSError, KeyError, ValueError):
        pass
    finite = [amount for amount in found if amount != math.inf]
    return int(min(finite)) if finite else None


def require(need: int, what: str, lower: str, device: str = "cpu") -> None:
    """Refuse what cannot fit."""
    there: Any = available(device)
    if there is not None and need * SPARE > there:
        raise NotEnoughMemory(f"{what} needs about {size(need)}, and {size(there)} are free; lower {lower}")


def size(amount: int) -> str:
    return f"{amount / 1e9:,.1f} GB" if amount >= 1e8 else f"{amount / 1e6:,.1f} MB"
