"""Random numbers from a purpose, a seed and a place, never from earlier draws.

So the batch of any step can be drawn again without the steps before it, and an evaluation set depends on its seed only.
"""

from __future__ import annotations

import numpy as np

PARAMETERS, BATCHES, JUDGE, EVALUATION, THRESHOLDS, CELLS, NOISE, EXAMINE, ROUNDING = range(9)  # purposes


def generator(purpose: int, seed: int, *place: int) -> np.random.Generator:
    return np.random.default_rng([purpose, seed, *place])
