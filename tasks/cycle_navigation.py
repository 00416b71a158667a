from __future__ import annotations

import numpy as np

from tasks.task import Task


class CycleNavigation(Task):
    """The position on a cycle of five after each move, starting at 0: s stays, i steps forward, d steps back.

    >>> CycleNavigation().solve("siidis")
    '012122'
    >>> CycleNavigation().solve("ddi")
    '434'
    """

    name = "cycle-navigation"
    symbols = "sid01234"
    inputs = "sid"
    outputs = "01234"
    example = "siidis"

    def solve(self, text: str) -> str:
        place, places = 0, ""
        for move in self.check(text):
            place = (place + {"s": 0, "i": 1, "d": -1}[move]) % 5
            places += str(place)
        return places

    def sample(self, rng: np.random.Generator, length: int, batch: int) -> tuple[np.ndarray, np.ndarray]:
        x = rng.integers(0, 3, (batch, length))
        moves = np.array([0, 1, -1])[x]
        return x, 3 + np.cumsum(moves, axis=1) % 5
