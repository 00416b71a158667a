"""Samples as a model is trained on them: every token predicts the next, and the loss covers the answer."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tasks.task import NOTHING, Task


class Batch(NamedTuple):
    tokens: np.ndarray  # (B, T): x | y
    targets: np.ndarray  # (B, T): the token after each
    mask: np.ndarray  # (B, T): which targets count: y and its end token


def batch(task: Task, rng: np.random.Generator, length: int, size: int, end_token: bool = True) -> Batch:
    """Samples of one length. Without end token an answer is learnt up to its last symbol."""
    x, y = task.sample(rng, length, size)
    separator = np.full((len(x), 1), task.separator)
    answer = np.concatenate([y, np.full((len(y), 1), NOTHING)], axis=1)
    lengths = np.sum(answer != NOTHING, axis=1, keepdims=True)
    answer = np.where(answer == NOTHING, task.end, answer)
    sequence = np.concatenate([x, separator, answer], axis=1)
    place = np.arange(sequence.shape[1] - 1) - x.shape[1]  # in the answer, of each target
    last = lengths if end_token else lengths - 1
    mask = (place >= 0) & (place <= last)
    used = int(x.shape[1] + 1 + last.max())
    return Batch(sequence[:, :used], sequence[:, 1 : used + 1], mask[:, :used])
