"""What one sees while a bench runs: a bar with the time left on a terminal, a line every few seconds elsewhere."""

from __future__ import annotations

import contextlib
import math
import sys
import time
from typing import Any

from pntm_np.bench.clock import clock_time

COMPILING = "the first time kernels are compiled, for some seconds"
EVERY = 5.0  # seconds between two plain lines
GUESS = 2e-4  # seconds a step, before anything has been timed


class Ahead:
    """How long the rest takes: every contestant as long per step as last time it was timed, until patience ends."""

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


class Progress:
    """``with Progress("bench", "first ..") as shown: shown.update(text, seconds_left)``; on stderr."""

    def __init__(self, what: str, first: str) -> None:
        self.what, self.first, self.bar = what, first, None
        self.began = self.last = time.perf_counter()

    def __enter__(self) -> Progress:
        if sys.stderr.isatty():
            from rich import progress
            from rich.console import Console

            columns = (progress.TextColumn(self.what), progress.BarColumn(), progress.TextColumn("{task.description}"))
            self.bar = progress.Progress(*columns, console=Console(stderr=True), transient=True)
            self.bar.start()
            self.line = self.bar.add_task(self.first, total=None)
        else:
            self._print(self.first)
        return self

    def __exit__(self, *exception: Any) -> None:
        if self.bar:
            self.bar.stop()

    def update(self, text: str, left: float) -> None:
        gone = time.perf_counter() - self.began
        line = f"{text}  {clock_time(gone)} gone, about {clock_time(left)} left"
        if self.bar:
            self.bar.update(self.line, total=gone + left, completed=gone, description=line)
        elif time.perf_counter() - self.last >= EVERY:
            self.last = time.perf_counter()
            self._print(line)

    def _print(self, line: str) -> None:
        with contextlib.suppress(OSError):  # nobody reads: the result is worth more than the progress
            print(f"{self.what}: {line}", file=sys.stderr, flush=True)
