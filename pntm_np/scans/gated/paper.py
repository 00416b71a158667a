"""minGRU's log-space scan: cumulative sums of logarithms (paper, Algorithm 2 with scalars; minGRU's appendix).

With A_t = sum of log(1 - z) up to t:  h_t = exp(A_t + logcumsumexp(log h_0, log z_t + log c_t - A_t)).
Logarithms need c > 0 and h_0 >= 0, and z is clamped to [EPS, 1 - EPS]: a gate is never quite open or closed.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from autodiff import array_module, differentiable, logcumsumexp
from autodiff.backend import Array

EPS = 1e-6  # the paper gives none


def log_space_scan(log_decay: Any, log_gain: Any, log_start: Any) -> tuple[Any, Any]:
    """States v_t = exp(log_decay_t) v_{t-1} + exp(log_gain_t) along axis 1, and the sums of log_decay."""
    xp = array_module(log_decay)
    total = xp.cumsum(log_decay, axis=1)  # A_t
    terms = xp.concatenate([log_start[:, None], log_gain - total], axis=1)
    return xp.exp(total + logcumsumexp(terms, axis=1)[:, 1:]), total


def log_space_adjoint(g: Any, total: Any) -> Any:
    """lambda_t = sum over i >= t of g_i exp(A_i - A_t): what comes back to v_t, positive and negative apart."""
    xp = array_module(g)

    def summed(part: Any) -> Any:
        terms = xp.flip(xp.log(part) + total, 1)
        return xp.exp(xp.flip(logcumsumexp(terms, axis=1), 1) - total)

    with np.errstate(divide="ignore"):  # log 0 = -inf: no contribution
        return summed(xp.maximum(g, 0)) - summed(xp.maximum(-g, 0))


@differentiable
def gated_paper(z: Array, c: Array, h0: Array):
    xp = array_module(z, c, h0)
    gate = xp.minimum(xp.maximum(z, EPS), 1 - EPS)
    with np.errstate(divide="ignore", invalid="ignore"):
        states, total = log_space_scan(xp.log1p(-gate), xp.log(gate) + xp.log(c), xp.log(h0))

    def pullback(g):
        g_states, g_last = g
        g_states = g_states.copy()
        g_states[:, -1] += g_last
        carried = log_space_adjoint(g_states, total)
        before = xp.concatenate([h0[:, None], states[:, :-1]], axis=1)
        d_z = carried * (c - before) * (z == gate)
        return d_z, carried * gate, carried[:, 0] * (1 - gate[:, 0])

    return (states, states[:, -1].copy()), pullback
