"""The display of a run on stderr: a live panel on a terminal, plain lines elsewhere."""

from __future__ import annotations

import os
import sys
import time
from typing import TYPE_CHECKING, TextIO

from pntm_np.evaluation.fit import Fit
from pntm_np.evaluation.report import EIGHTHS, LengthScore, bars, grouped, share
from pntm_np.runtime.progress import PREPARING, Display, clock_time
from pntm_np.training.config import Config
from pntm_np.training.learner import Report
from pntm_np.training.loop import Watcher

if TYPE_CHECKING:
    from rich.console import RenderableType

SMOOTH = 0.95  # smoothing of the displayed loss, which depends on the length that was drawn
BARS = 12  # groups of lengths, side by side


class Meter:
    def __init__(self, config: Config) -> None:
        self.config, self.first, self.step, self.steps = config, 0, 0, config.steps
        self.start = time.perf_counter()
        self.tokens, self.loss, self.norm = 0, float("nan"), float("nan")
        self.scores: dict[int, float] = {}
        self.end: float | None = None  # when training ended and the evaluation began

    def began(self, step: int) -> None:
        self.first = self.step = step
        self.start = time.perf_counter()

    def add(self, step: int, tokens: int, report: Report) -> None:
        self.step, self.norm = step, report.gradient_norm
        self.tokens += tokens
        fresh = self.loss != self.loss
        self.loss = report.loss if fresh else SMOOTH * self.loss + (1 - SMOOTH) * report.loss

    def line(self) -> str:
        elapsed = (self.end or time.perf_counter()) - self.start
        done = self.step - self.first
        speed = f"{self.tokens / elapsed:,.0f} tokens/s" if done else "starting"
        left = clock_time(elapsed / done * (self.steps - self.step)) if done else "-"
        if self.end:
            return f"loss {self.loss:.4f}  trained in {clock_time(elapsed)}" if done else "trained before"
        bound = "at most " if self.config.stop_when_solved and self.steps == self.config.steps else ""
        shown = f"loss {self.loss:.4f}  gradient {self.norm:.1e}  {speed}" if done else speed
        return f"{shown}  {clock_time(elapsed)} elapsed, {bound}{left} left"


class PlainDisplay(Display, Watcher):
    def __init__(self, config: Config, title: str, stream: TextIO) -> None:
        super().__init__(stream)
        self.meter, self.title, self.last = Meter(config), title, 0.0

    def __enter__(self) -> PlainDisplay:
        return self  # no panel, even on a terminal

    def preparing(self) -> None:
        self.say(f"{self.title}\n{PREPARING}")

    def began(self, step: int) -> None:
        self.meter.began(step)
        if step:
            self.say(f"resumed at step {step:,}")

    def ends(self, step: int) -> None:
        self.meter.steps = step
        if step > self.meter.step:
            self.say(f"the training lengths are learnt; the learning rate falls until step {step:,}")

    def restarted(self, step: int) -> None:
        self.say(f"step {step:,}  no progress; training starts over with new parameters")

    def stepped(self, step: int, tokens: int, report: Report) -> None:
        self.meter.add(step, tokens, report)
        if self.due() or step == self.meter.first + 1:
            self.say(f"step {step:,}/{self.meter.steps:,}  {self.meter.line()}")

    def judged(self, step: int, found: Fit) -> None:
        figures = "  ".join(f"{length}: {share(value, 2)}" for length, value in grouped(found.right, BARS).items())
        exact = f"exact match {share(found.exact_match, 3)}, loss {found.token_loss:.1e}"
        self.say(f"step {step:,}  {exact} on the training lengths; by length up to {figures}")

    def evaluated(self, score: LengthScore) -> None:
        if not self.meter.end:
            self.meter.end = time.perf_counter()
            self.say(f"step {self.meter.step:,}  {self.meter.line()}")
        if self.due():
            self.say(f"evaluated up to length {score.length}: exact match {share(score.exact_match, 2)}")


class LiveDisplay(Display, Watcher):
    transient = False

    def __init__(self, config: Config, title: str, stream: TextIO) -> None:
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

        super().__init__(stream)
        self.meter, self.title, self.note = Meter(config), title, ""
        self.progress = Progress(TextColumn("step"), BarColumn(None), MofNCompleteColumn(), expand=True)
        self.bar = self.progress.add_task("", total=config.steps)
        self.shown = ""  # what the bars show

    def __exit__(self, *exception: object) -> None:
        self.note = ""
        super().__exit__(*exception)

    def panel(self) -> RenderableType:
        from rich.console import Group
        from rich.text import Text

        self.progress.update(self.bar, completed=self.meter.step)
        lines: list[RenderableType] = [Text(self.title, style="bold"), self.progress]
        lines.append(Text(self.meter.line(), no_wrap=True))
        if self.meter.scores:
            lines.append(Text(f"\nexact match by length of the input{self.shown}"))
            lines += [Text(line, style="cyan", no_wrap=True) for line in bars(grouped(self.meter.scores, BARS))]
        if self.note:
            lines.append(Text(self.note))
        return Group(*lines)

    def preparing(self) -> None:
        self.note = PREPARING

    def began(self, step: int) -> None:
        self.meter.began(step)
        self.note = ""

    def ends(self, step: int) -> None:
        self.meter.steps = step
        self.progress.update(self.bar, total=step)
        if step > self.meter.step:
            self.note = "\nthe training lengths are learnt; the learning rate falls over the last steps"

    def restarted(self, step: int) -> None:
        self.note = f"\nno progress; started over with new parameters at step {step:,}"

    def stepped(self, step: int, tokens: int, report: Report) -> None:
        self.meter.add(step, tokens, report)

    def judged(self, step: int, found: Fit) -> None:
        self.meter.scores, self.shown = found.right, f" at step {step:,}, training lengths"

    def evaluated(self, score: LengthScore) -> None:
        first, last = self.meter.config.lengths
        if not self.meter.end:
            self.meter.end, self.meter.scores = time.perf_counter(), dict.fromkeys(range(first, last + 1), 0.0)
        self.meter.scores[score.length] = score.exact_match
        self.shown = f"; trained on lengths up to {self.meter.config.max_length}"
        self.note = f"\nevaluating: length {score.length} of {last}, exact match {share(score.exact_match, 2)}"


def display(config: Config, title: str) -> LiveDisplay | PlainDisplay:
    stream = sys.stderr
    live = stream.isatty() and os.environ.get("TERM") not in (None, "", "dumb") and can_show(EIGHTHS, stream)
    return (LiveDisplay if live else PlainDisplay)(config, title, stream)


def can_show(text: str, stream: TextIO) -> bool:
    try:
        text.encode(stream.encoding or "ascii")
    except UnicodeEncodeError:
        return False
    return True
