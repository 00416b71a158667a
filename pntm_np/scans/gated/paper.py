"""minGRU's log-space scan, with decay 1 - z and gain z c. ``log_space`` describes its errors."""

from __future__ import annotations

import numpy as np

from autodiff import Array, Pair, Pullback, array_module, differentiable
from pntm_np.scans.gated.chunked import carried_back
from pntm_np.scans.log_space import clamp, log_space_scan


@differentiable
def gated_paper(z: Array, c: Array, h0: Array) -> tuple[Pair, Pullback]:
    xp = array_module(z, c, h0)
    gate = clamp(z)
    with np.errstate(divide="ignore", invalid="ignore"):  # log of an initial 0 is -inf, of a negative number NaN
        states = log_space_scan(xp.log1p(-gate), xp.log(gate) + xp.log(c), xp.log(h0))

    def pullback(g):
        carried = carried_back(1 - gate, *g)
        before = xp.concatenate([h0[:, None], states[:, :-1]], axis=1)
        return carried * (c - before) * (z == gate), carried * gate, carried[:, 0] * (1 - gate[:, 0])

    return (states, states[:, -1].copy()), pullback
