"""What one sees while something runs: a bar on a terminal, a line every few seconds elsewhere; on stderr."""

from __future__ import annotations

import contextlib
import sys
import time
from typing import Any

EVERY = 5.0  # seconds between two plain lines
PREPARING = "preparing; the first time kernels are compiled, for some seconds"


class Progress:
    """``with Progress("length", 80) as shown: shown.advance(text)`` counts; ``shown.update(text, seconds_left)`` tells
    the time of work whose parts are not equally long."""

    def __init__(self, what: str, total: int | None = None, first: str = "") -> None:
        self.what, self.total, self.first, self.done, self.bar = what, total, first, 0, None
        self.began = self.last = time.perf_counter()

    def __enter__(self) -> Progress:
        if sys.stderr.isatty():
            from rich import progress
            from rich.console import Console

            counted = (progress.MofNCompleteColumn(), progress.TimeRemainingColumn()) if self.total else ()
            text = progress.TextColumn("{task.description}")
            columns = (progress.TextColumn(self.what), progress.BarColumn(), *counted, text)
            self.bar = progress.Progress(*columns, console=Console(stderr=True), transient=True)
            self.bar.start()
            self.line = self.bar.add_task(self.first, total=self.total)
        elif self.first:
            self._print(f"{self.what}: {self.first}")
        return self

    def __exit__(self, *exception: Any) -> None:
        if self.bar:
            self.bar.stop()

    def advance(self, text: str) -> None:
        self.done += 1
        if self.bar:
            self.bar.update(self.line, advance=1, description=text)
        elif self._due():
            self._print(f"{self.what} {self.done} of {self.total}  {text}")

    def note(self, text: str) -> None:
        """What is going on, without progress."""
        if self.bar:
            self.bar.update(self.line, description=text)

    def update(self, text: str, left: float) -> None:
        gone = time.perf_counter() - self.began
        line = f"{text}  {clock_time(gone)} gone, about {clock_time(left)} left"
        if self.bar:
            self.bar.update(self.line, total=gone + left, completed=gone, description=line)
        elif self._due():
            self._print(f"{self.what}: {line}")

    def _due(self) -> bool:
        due = time.perf_counter() - self.last >= EVERY
        if due:
            self.last = time.perf_counter()
        return due

    def _print(self, line: str) -> None:
        with contextlib.suppress(OSError):  # nobody reads: the result is worth more than the progress
            print(line, file=sys.stderr, flush=True)


def clock_time(seconds: float) -> str:
    """1:02:03 or 2:03."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
