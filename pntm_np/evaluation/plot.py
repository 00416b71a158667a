"""Accuracy against length, as a picture."""

from __future__ import annotations

from pathlib import Path

from pntm_np.evaluation.score import Evaluation
from pntm_np.runtime.plotting import pyplot, write_figure


def plot_evaluation(found: Evaluation, path: Path, title: str, max_length: int) -> None:
    lengths = [score.length for score in found.by_length]
    mark = {"marker": "o" if len(lengths) < 30 else "", "ms": 3}
    figure, axes = pyplot().subplots(figsize=(7, 3.5), layout="constrained")
    if min(lengths) <= max_length:
        axes.axvspan(min(lengths) - 0.5, max_length + 0.5, color="0.92", label="training lengths")
    axes.plot(lengths, [s.token_accuracy for s in found.by_length], **mark, color="C1", label="tokens right")
    axes.plot(lengths, [s.exact_match for s in found.by_length], **mark, color="C0", label="exact match")
    axes.set(xlabel="length of the input", ylabel="share", ylim=(-0.03, 1.03))
    axes.set_title(title, parse_math=False)
    axes.set_xlim(min(lengths) - 0.5, max(lengths) + 0.5)
    axes.grid(alpha=0.3)
    axes.legend(loc="lower left", framealpha=0.9)
    write_figure(figure, path)
