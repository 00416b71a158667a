"""Training batches: the model predicts the next token at every position, and the loss covers the answer."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tasks.task import NOTHING, Task


class Batch(NamedTuple):
    tokens: np.ndarray  # (B, T): x | y
    targets: np.ndarray  # (B, T): the token that follows each of them
    mask: np.ndarray  # (B, T): whether a target counts, as those in y and its end token (if any) do


def batch(task: Task, rng: np.random.Generator, length: int, size: int) -> Batch:
    """``size`` samples of one length. The padding after a shorter answer is masked and has no effect on the loss."""
    x, y = task.sample(rng, length, size)
    if task.end_token:
        y = np.concatenate([y, np.full((size, 1), NOTHING)], axis=1)
        y[np.arange(size), np.argmax(y == NOTHING, axis=1)] = task.end
    separator = np.full((size, 1), task.separator)
    sequence = np.concatenate([x, separator, np.where(y == NOTHING, task.separator, y)], axis=1)
    mask = np.concatenate([np.zeros((size, x.shape[1]), bool), y != NOTHING], axis=1)
    return Batch(sequence[:, :-1], sequence[:, 1:], mask)
