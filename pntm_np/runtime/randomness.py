"""Random numbers of training and evaluation: from a seed, a purpose and a place, never from what came before.

So a batch of any step can be drawn again without the steps before it, and an evaluation set depends on nothing but its
seed, whatever is trained, resumed or asked for beside it.
"""

from __future__ import annotations

import numpy as np

PARAMETERS, BATCHES, JUDGE, EVALUATION, THRESHOLDS, CELLS, NOISE, EXAMINE, ROUNDING = range(9)  # purposes


def generator(purpose: int, seed: int, *place: int) -> np.random.Generator:
    return np.random.default_rng([purpose, seed, *place])
