"""The log-space scan of the paper's forms (Algorithm 2, and minGRU's appendix): states as sums of logarithms.

With A_t = sum of log decay up to t:  v_t = exp(A_t + logcumsumexp(log v_0, log gain_t - A_t)).
Logarithms need values > 0, and gates are clamped to [EPS, 1 - EPS]: none is fully open or closed, and where the clamp
is active the gradient is 0. minGRU computes these logarithms from logits; here, as in Algorithm 2, they are those of
the gates. A_t grows with T, and after 65,536 time steps its rounding in float32 is an error of about 1 % of the state.
"""

from __future__ import annotations

from autodiff import Array, array_module, logcumsumexp

EPS = 1e-6  # of Algorithms 1 and 2; the paper gives none


def clamp(gate: Array) -> Array:
    xp = array_module(gate)
    return xp.minimum(xp.maximum(gate, EPS), 1 - EPS)


def log_space_scan(log_decay: Array, log_gain: Array, log_start: Array) -> Array:
    """States v_t = exp(log_decay_t) v_{t-1} + exp(log_gain_t) along axis 1."""
    xp = array_module(log_decay)
    total = xp.cumsum(log_decay, axis=1)  # A_t
    terms = xp.concatenate([log_start[:, None], log_gain - total], axis=1)
    return xp.exp(total + logcumsumexp(terms, axis=1)[:, 1:])
