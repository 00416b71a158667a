"""Seconds of something that is done several times."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import NamedTuple


class Timing(NamedTuple):
    mean: float
    std: float
    best: float
    runs: int


def time_once(run: Callable[[], object]) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def summary(seconds: list[float]) -> Timing:
    spread = statistics.stdev(seconds) if len(seconds) > 1 else 0.0
    return Timing(statistics.fmean(seconds), spread, min(seconds), len(seconds))


def duration(seconds: float) -> str:
    """For people: 1.23 s, 45.6 ms, 7.89 us."""
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= size or unit == "us":
            value = seconds / size
            return f"{value:.{0 if value >= 100 else 1 if value >= 10 else 2}f} {unit}"
    raise AssertionError
