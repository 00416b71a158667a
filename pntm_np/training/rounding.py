"""Rounding in training: a model that stays exact on any length must not rely on values between 0 and 1.

A head that shifts by a fifth of a cell works on short inputs. Noise does not prevent that, because noise averages out
over the steps; rounding does. But a model that is rounded all at once forgets what it has learnt. So half of the rows
are rounded, each with a threshold of its own. As long as the model, rounded by the largest of them, answers correctly,
that largest threshold grows, from the paper's to one that leaves every shift one-hot.
"""

from __future__ import annotations

import math

import numpy as np

import autodiff as ad
from autodiff import Array
from pntm_np.models import PAPER, Thresholds

FIRST, LAST = PAPER.tau, 0.5  # of three shifts that sum to 1 at most one is above 1/2: all are one-hot
GATES = 0.1  # largest threshold of gates: some tasks may need gates between 0 and 1
ANSWERS = 0.9  # share of right answers on the training lengths from which rounding grows; below half of it, it shrinks
GROWTH = 1.3  # factor on the largest threshold from one evaluation to the next


def next_threshold(largest: float, answered: float) -> float:
    """The largest threshold after an evaluation with the threshold ``largest`` and the exact match ``answered``."""
    if answered >= ANSWERS:
        return min(largest * GROWTH, LAST) if largest else FIRST
    return max(largest / GROWTH, FIRST) if largest and answered < ANSWERS / 2 else largest


def thresholds(tau: float) -> Thresholds:
    return Thresholds(tau, min(tau, GATES))


def row_thresholds(
    rng: np.random.Generator, rows: int, smallest: float, largest: float, device: str
) -> dict[str, Array]:
    """Thresholds of rows 0, 2, .. of a shard, by name, log-uniform between ``smallest`` and ``largest``."""
    drawn = np.exp(rng.uniform(math.log(smallest), math.log(largest), -(-rows // 2))).astype(np.float32)
    found = {"tau": drawn, "gate_tau": np.minimum(drawn, np.float32(GATES))}
    return {name: ad.to_device(taus, device) for name, taus in found.items()}
