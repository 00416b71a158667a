from __future__ import annotations

import numpy as np

from tasks.task import Task


class DuplicateString(Task):
    """The input, written twice.

    >>> DuplicateString().solve("aabba")
    'aabbaaabba'
    >>> DuplicateString().solve("b")
    'bb'
    """

    name = "duplicate-string"
    symbols = inputs = outputs = "ab"
    example = "aabba"

    def solve(self, text: str) -> str:
        return self.check(text) * 2

    def sample(self, rng: np.random.Generator, length: int, batch: int) -> tuple[np.ndarray, np.ndarray]:
        x = rng.integers(0, 2, (batch, length))
        return x, np.concatenate([x, x], axis=1)
