"""Rounding in training: a machine that is to be exact for ever has to do without what lies between 0 and 1.

A head whose shifts are a fifth of a cell does its task on short inputs. Noise does not keep it from that, for noise
averages out over the steps; rounding does. But rounded all at once a machine forgets what it has learnt. So half of the
rows are rounded, each by a threshold of its own, and the largest of them grows as long as the machine, rounded by that,
goes on answering, from the paper's threshold to one that leaves every shift one-hot.
"""

from __future__ import annotations

import math

import numpy as np

import autodiff as ad
from autodiff import Array
from pntm_np.models import PAPER, Thresholds

FIRST, LAST = PAPER.tau, 0.5  # of three shifts that sum to 1 at most one is above 1/2: all are one-hot
GATES = 0.1  # gates are rounded no further: they may have to stay between 0 and 1
ANSWERS = 0.9  # of the inputs of the training lengths: enough to be rounded more; with half as many it is rounded less
GROWTH = 1.3  # of the largest threshold, from one evaluation to the next


def next_threshold(largest: float, answered: float) -> float:
    """The largest threshold after an evaluation, with the one before, in which so many inputs were answered."""
    if answered >= ANSWERS:
        return min(largest * GROWTH, LAST) if largest else FIRST
    return max(largest / GROWTH, FIRST) if largest and answered < ANSWERS / 2 else largest


def thresholds(tau: float) -> Thresholds:
    return Thresholds(tau, min(tau, GATES))


def row_thresholds(
    rng: np.random.Generator, rows: int, smallest: float, largest: float, device: str
) -> dict[str, Array]:
    """For rows 0, 2, .. of a shard, by name: their logarithms are uniform between the two."""
    drawn = np.exp(rng.uniform(math.log(smallest), math.log(largest), -(-rows // 2))).astype(np.float32)
    found = {"tau": drawn, "gate_tau": np.minimum(drawn, np.float32(GATES))}
    return {name: ad.to_device(taus, device) for name, taus in found.items()}
