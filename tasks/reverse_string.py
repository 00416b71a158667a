from __future__ import annotations

import numpy as np

from tasks.task import Task


class ReverseString(Task):
    """The input, reversed.

    >>> ReverseString().solve("aabba")
    'abbaa'
    >>> ReverseString().solve("abb")
    'bba'
    """

    name = "reverse-string"
    symbols = inputs = outputs = "ab"
    example = "aabba"

    def solve(self, text: str) -> str:
        return self.check(text)[::-1]

    def sample(self, rng: np.random.Generator, length: int, batch: int) -> tuple[np.ndarray, np.ndarray]:
        x = rng.integers(0, 2, (batch, length))
        return x, x[:, ::-1]
