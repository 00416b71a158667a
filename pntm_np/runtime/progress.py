"""Progress on stderr: a bar on a terminal, a line every few seconds elsewhere."""

from __future__ import annotations

import contextlib
import sys
import time
from typing import TYPE_CHECKING, Self, TextIO

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.live import Live
    from rich.progress import Progress as Bar

EVERY = 5.0  # seconds between two plain lines
PREPARING = "preparing; the first time, kernels are compiled, which takes some seconds"


class Display:
    """On a terminal, a ``panel`` that is redrawn in place; elsewhere, a plain line every few seconds."""

    every, transient = EVERY, True  # seconds between two plain lines; whether the panel disappears at the end

    def __init__(self, stream: TextIO | None = None) -> None:
        self.stream = stream or sys.stderr
        self.live: Live | None = None
        self.start = self.last = time.perf_counter()

    def panel(self) -> RenderableType:
        raise NotImplementedError

    def __enter__(self) -> Self:
        if self.stream.isatty():
            from rich.console import Console
            from rich.live import Live

            console = Console(file=self.stream, highlight=False)
            self.live = Live(console=console, get_renderable=self.panel, transient=self.transient)
            self.live.start()
        return self

    def __exit__(self, *exception: object) -> None:
        if self.live:
            self.live.stop()

    def say(self, line: str) -> None:
        """Print a permanent line, above the panel if there is one."""
        with contextlib.suppress(OSError):  # a closed stderr must not cost the result
            if self.live:
                self.live.console.print(line, markup=False, highlight=False, soft_wrap=True)
            else:
                print(line, file=self.stream, flush=True)

    def due(self) -> bool:
        """Whether the next plain line is due."""
        due = not self.live and time.perf_counter() - self.last >= self.every
        if due:
            self.last = time.perf_counter()
        return due


class Progress(Display):
    """``with Progress("length", 80) as shown: shown.advance(text)`` counts; ``shown.update(text, seconds_left)`` shows
    the time left for work whose parts take different times."""

    def __init__(self, what: str, total: int | None = None, first: str = "") -> None:
        super().__init__()
        self.what, self.total, self.first, self.done = what, total, first, 0
        self.bar: Bar | None = None

    def __enter__(self) -> Self:
        if self.stream.isatty():
            from rich import progress

            counted = (progress.MofNCompleteColumn(), progress.TimeRemainingColumn()) if self.total else ()
            text = progress.TextColumn("{task.description}")
            self.bar = progress.Progress(progress.TextColumn(self.what), progress.BarColumn(), *counted, text)
            self.line = self.bar.add_task(self.first, total=self.total)
        elif self.first:
            self.say(f"{self.what}: {self.first}")
        return super().__enter__()

    def panel(self) -> RenderableType:
        return self.bar or ""

    def advance(self, text: str) -> None:
        self.done += 1
        if self.bar:
            self.bar.update(self.line, advance=1, description=text)
        elif self.due():
            self.say(f"{self.what} {self.done} of {self.total}  {text}")

    def note(self, text: str) -> None:
        """Show a text without progress."""
        if self.bar:
            self.bar.update(self.line, description=text)

    def update(self, text: str, left: float) -> None:
        elapsed = time.perf_counter() - self.start
        line = f"{text}  {clock_time(elapsed)} elapsed, about {clock_time(left)} left"
        if self.bar:
            self.bar.update(self.line, total=elapsed + left, completed=elapsed, description=line)
        elif self.due():
            self.say(f"{self.what}: {line}")


def clock_time(seconds: float) -> str:
    """1:02:03 or 2:03."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
