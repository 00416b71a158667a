"""Scores gathered for the eye: bands of lengths, and bars."""

from __future__ import annotations

from typing import NamedTuple

from pntm_np.evaluation.score import Evaluation

EIGHTHS = " ▁▂▃▄▅▆▇█"


class Band(NamedTuple):
    first: int
    last: int
    trained: bool
    exact_match: float
    token_accuracy: float
    chance: float


def bands(found: Evaluation, max_length: int) -> list[Band]:
    """The training lengths as one band, longer ones in bands of half as many."""
    lengths = [score.length for score in found.by_length]
    longest, width = max(lengths), max(1, max_length // 2)
    while (longest - max_length) / width > 12:
        width *= 2
    edges = [(1, max_length)] + [(a, min(a + width - 1, longest)) for a in range(max_length + 1, longest + 1, width)]
    return [
        Band(
            max(a, min(lengths)),
            min(b, longest),
            b <= max_length,
            *(found.mean(figure, a, b) for figure in ("exact_match", "token_accuracy", "chance")),
        )
        for a, b in edges
        if any(a <= n <= b for n in lengths)
    ]


def grouped(values: dict[int, float], most: int) -> dict[int, float]:
    """Means over neighbouring lengths, at most so many, each under its longest."""
    lengths = sorted(values)
    size = -(-len(lengths) // most)
    parts = [lengths[k : k + size] for k in range(0, len(lengths), size)]
    return {part[-1]: sum(values[n] for n in part) / len(part) for part in parts}


def bars(values: dict[int, float], height: int = 4) -> list[str]:
    """A column for each length, as lines of text with the lengths below."""
    width = max(4, len(str(max(values))) + 1)
    lines = []
    for level in reversed(range(height)):
        label = "1.0 " if level == height - 1 else "0.0 " if level == 0 else "    "
        cells = []
        for value in values.values():
            filled = min(max(round(value * height * 8) - level * 8, 0), 8)
            filled = max(filled, 1) if level == 0 else filled  # a score of 0 is a score
            cells.append(EIGHTHS[filled] * (width - 1))
        lines.append(label + " ".join(cells))
    return [*lines, "    " + "".join(f"{length:^{width}}" for length in values).rstrip()]
