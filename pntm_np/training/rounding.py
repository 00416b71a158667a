"""Rounding in training: a machine that is to be exact for ever has to do without what lies between 0 and 1.

A head whose shifts are a fifth of a cell does its task on short inputs. Noise does not keep it from that, for noise
averages out over the steps; rounding does. Rounded all at once it would forget what it has learnt. So half of the rows
are rounded, each by a threshold of its own, from the paper's, which few decisions notice, to one that leaves none.
"""

from __future__ import annotations

import math

import numpy as np

import autodiff as ad
from autodiff.backend import Array
from pntm_np.models import Thresholds

# Of three shifts that sum to 1 at most one is above 1/2: all are one-hot. Gates may have to stay between 0 and 1.
ROUNDED = Thresholds(0.5, 0.1)


def row_thresholds(rng: np.random.Generator, rows: int, least: float, device: str) -> dict[str, Array]:
    """For rows 0, 2, .. of a shard: logarithms are uniform from ``least`` to ``ROUNDED``, which gates do not exceed."""
    drawn = np.exp(rng.uniform(math.log(least), math.log(ROUNDED.tau), -(-rows // 2))).astype(np.float32)
    most = ROUNDED._asdict()
    return {name: ad.to_device(np.minimum(drawn, np.float32(most[name])), device) for name in most}
