"""Time something that runs several times, and estimate the time that is left."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable
from typing import NamedTuple

Watch = Callable[[str, str, int, int, float | None], None]  # model, form, length, runs so far, seconds of the last
Stop = Callable[[], bool]
GUESS = 2e-4  # seconds per time step, assumed before anything has been timed


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
    """Three digits and a unit: 1.23 s, 45.6 ms, 7.89 us."""
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= size or unit == "us":
            value = seconds / size
            return f"{value:.{0 if value >= 100 else 1 if value >= 10 else 2}f} {unit}"
    raise AssertionError


class Ahead:
    """Estimate the time left: each contestant takes as long per time step as in its last run, until patience ends."""

    def __init__(self, work: list[tuple[str, int]], repeats: int, patience: float = math.inf) -> None:
        self.work, self.repeats, self.patience = list(work), repeats, patience  # work: (contestant, length), in order
        self.rate: dict[str, float] = {}

    def timed(self, name: str, length: int, seconds: float) -> None:
        self.rate[name] = seconds / length

    def finished(self, name: str, length: int) -> None:
        if (name, length) in self.work:
            self.work.remove((name, length))

    def skip(self, name: str) -> None:
        self.work = [item for item in self.work if item[0] != name]

    def left(self, now: tuple[str, int], done: int) -> float:
        fallback = max(self.rate.values(), default=GUESS)
        total, given_up = 0.0, set()
        for name, length in self.work:
            if name not in given_up:
                once = self.rate.get(name, fallback) * length
                total += once * self.repeats
                given_up |= {name} if once > self.patience else set()
        return max(0.0, total - done * self.rate.get(now[0], fallback) * now[1])
