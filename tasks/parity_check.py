from __future__ import annotations

import numpy as np

from tasks.task import Task


class ParityCheck(Task):
    """For every prefix of the input, 1 if it has an even number of a's and 0 if it has an odd number.

    >>> ParityCheck().solve("aaabba")
    '010001'
    >>> ParityCheck().solve("bbab")
    '1100'
    """

    name = "parity-check"
    symbols = "ab01"
    inputs = "ab"
    outputs = "01"
    example = "aaabba"

    def solve(self, text: str) -> str:
        self.check(text)
        return "".join("01"[text[: k + 1].count("a") % 2 == 0] for k in range(len(text)))

    def sample(self, rng: np.random.Generator, length: int, batch: int) -> tuple[np.ndarray, np.ndarray]:
        x = rng.integers(0, 2, (batch, length))
        even = np.cumsum(x == 0, axis=1) % 2 == 0
        return x, 2 + even
