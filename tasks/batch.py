"""Samples as a model is trained on them: every token predicts the next, and the loss covers the answer."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tasks.task import NOTHING, Task


class Batch(NamedTuple):
    tokens: np.ndarray  # (B, T): x | y
    targets: np.ndarray  # (B, T): the token after each
    mask: np.ndarray  # (B, T): which targets count: y, and its end token if there is one


def batch(task: Task, rng: np.random.Generator, length: int, size: int) -> Batch:
    """Samples of one length. What stands after the end of a shorter answer is masked, and of no influence."""
    x, y = task.sample(rng, length, size)
    if task.end_token:
        y = np.concatenate([y, np.full((size, 1), NOTHING)], axis=1)
        y[np.arange(size), np.argmax(y == NOTHING, axis=1)] = task.end
    separator = np.full((size, 1), task.separator)
    sequence = np.concatenate([x, separator, np.where(y == NOTHING, task.separator, y)], axis=1)
    mask = np.concatenate([np.zeros((size, x.shape[1]), bool), y != NOTHING], axis=1)
    return Batch(sequence[:, :-1], sequence[:, 1:], mask)
