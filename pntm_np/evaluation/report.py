"""The report of an evaluation, and its forms: JSON, bands of lengths, bars of text, and a figure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from pntm_np.evaluation.settings import Settings
from pntm_np.runtime.plotting import pyplot, write_figure
from pntm_np.runtime.untrusted import Json

MOST = 6  # digits that a share is shown with
FIGURES = ("exact_match", "token_accuracy", "chance")
EIGHTHS = " ▁▂▃▄▅▆▇█"


@dataclass(frozen=True)
class LengthScore:
    length: int
    samples: int
    exact_match: float
    token_accuracy: float
    chance: float  # that an answer of random output symbols is right


def mean(scores: Sequence[LengthScore], figure: str, first: int = 1, last: float = math.inf) -> float:
    """The mean over lengths, with equal weights."""
    found = [getattr(score, figure) for score in scores if first <= score.length <= last]
    return float(np.mean(found)) if found else float("nan")


@dataclass(frozen=True)
class Evaluation:
    """The report of an evaluation, at the end of training or by ``pntm eval``."""

    task: str
    model: str
    end_token: bool
    settings: Settings
    by_length: list[LengthScore]

    @property
    def title(self) -> str:
        return f"{self.model} on {self.task}{' with end token' if self.end_token else ''}"

    def as_json(self) -> Json:
        """Means over all lengths, and the score: the mean exact match on lengths beyond the training lengths."""
        asked = self.settings
        longer = [score.length for score in self.by_length if score.length > asked.max_length]
        found: Json = {"task": self.task, "model": self.model, "trained_to_length": asked.max_length}
        found |= {"end_token": self.end_token, **asked.options.thresholds._asdict(), "memory_size": asked.memory_size}
        found |= {"seed": asked.seed, "samples": asked.samples}
        found["score"] = mean(self.by_length, "exact_match", asked.max_length + 1) if longer else None
        found["score_lengths"] = [min(longer), max(longer)] if longer else None
        found |= {figure: mean(self.by_length, figure) for figure in FIGURES}
        return found | {"by_length": [asdict(score) for score in self.by_length]}

    def plot(self, path: Path) -> None:
        scores, max_length = self.by_length, self.settings.max_length
        lengths = [score.length for score in scores]
        mark = {"marker": "o" if len(lengths) < 30 else "", "ms": 3}
        figure, axes = pyplot().subplots(figsize=(7, 3.5), layout="constrained")
        if min(lengths) <= max_length:
            axes.axvspan(min(lengths) - 0.5, max_length + 0.5, color="0.92", label="training lengths")
        axes.plot(lengths, [s.token_accuracy for s in scores], **mark, color="C1", label="token accuracy")
        axes.plot(lengths, [s.exact_match for s in scores], **mark, color="C0", label="exact match")
        axes.set(xlabel="length of the input", ylabel="share", ylim=(-0.03, 1.03))
        axes.set_title(f"{self.title}, trained on lengths up to {max_length}", parse_math=False)
        axes.set_xlim(min(lengths) - 0.5, max(lengths) + 0.5)
        axes.grid(alpha=0.3)
        axes.legend(loc="lower left", framealpha=0.9)
        write_figure(figure, path)


def share(value: float, digits: int) -> str:
    """Round, but never up to 1: a share close to 1 gets as many digits as that takes."""
    while value < 1 and digits < MOST and float(f"{value:.{digits}f}") == 1:
        digits += 1
    return f"{min(value, 1 - 10.0**-digits) if value < 1 else value:.{digits}f}"


class Band(NamedTuple):
    first: int
    last: int
    trained: bool
    exact_match: float
    token_accuracy: float
    chance: float


def bands(scores: Sequence[LengthScore], max_length: int) -> list[Band]:
    """Means over bands of lengths: the training lengths are one band, longer bands are half as wide."""
    lengths = [score.length for score in scores]
    longest, width = max(lengths), max(1, max_length // 2)
    while (longest - max_length) / width > 12:
        width *= 2
    edges = [(1, max_length)] + [(a, min(a + width - 1, longest)) for a in range(max_length + 1, longest + 1, width)]
    found = []
    for a, b in edges:
        if any(a <= n <= b for n in lengths):
            means = (mean(scores, figure, a, b) for figure in FIGURES)
            found.append(Band(max(a, min(lengths)), min(b, longest), b <= max_length, *means))
    return found


def grouped(values: dict[int, float], most: int) -> dict[int, float]:
    """Means over at most ``most`` groups of neighbouring lengths, each under its longest."""
    lengths = sorted(values)
    size = -(-len(lengths) // most)
    parts = [lengths[k : k + size] for k in range(0, len(lengths), size)]
    return {part[-1]: sum(values[n] for n in part) / len(part) for part in parts}


def bars(values: dict[int, float], height: int = 4) -> list[str]:
    """Lines of text with a bar for each length, and the lengths below."""
    width = max(4, len(str(max(values))) + 1)
    lines = []
    for level in reversed(range(height)):
        label = "1.0 " if level == height - 1 else "0.0 " if level == 0 else "    "
        cells = []
        for value in values.values():
            filled = min(max(round(value * height * 8) - level * 8, 0), 8)
            filled = max(filled, 1) if level == 0 else filled  # a score of 0 is visible, too
            cells.append(EIGHTHS[filled] * (width - 1))
        lines.append(label + " ".join(cells))
    return [*lines, "    " + "".join(f"{length:^{width}}" for length in values).rstrip()]
