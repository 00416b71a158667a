"""Exact and in 2 sqrt(T) whole-array steps: all chunks walk at once, then the chunks are joined.

Inside a chunk that starts from 0 the state is V_t and what it keeps of its start is D_t, the product of the
1 - z so far; so h_t = D_t (state at the chunk's start) + V_t. Products of numbers in [0, 1], no logarithm, no
division: exact for gates of exactly 0 and 1.
"""

from __future__ import annotations

import math
from typing import Any

from autodiff import array_module, differentiable
from autodiff.backend import Array


def linear_scan(decay: Any, gain: Any, start: Any, chunk: int | None) -> Any:
    """v_t = decay_t v_{t-1} + gain_t along axis 1, from ``start``."""
    xp = array_module(decay)
    batch, length = decay.shape[:2]
    size = chunk or math.isqrt(max(length - 1, 0)) + 1
    count = -(-length // size)
    padded = ((0, 0), (0, count * size - length)) + ((0, 0),) * (decay.ndim - 2)
    if count * size != length:
        decay, gain = (xp.pad(x, padded) for x in (decay, gain))
    split = (batch, count, size, *decay.shape[2:])
    kept, values = decay.reshape(split).copy(), gain.reshape(split).copy()
    for k in range(1, size):  # D_t and V_t of all chunks at once
        values[:, :, k] += kept[:, :, k] * values[:, :, k - 1]
        kept[:, :, k] *= kept[:, :, k - 1]
    for j in range(count):  # the chunks one after the other; start is the state before chunk j
        kept[:, j] *= start[:, None]
        values[:, j] += kept[:, j]
        start = values[:, j, -1]
    return values.reshape(batch, count * size, *decay.shape[2:])[:, :length]


@differentiable
def gated_chunked(z: Array, c: Array, h0: Array, *, chunk: int | None = None):
    xp = array_module(z, c, h0)
    states = linear_scan(1 - z, z * c, h0, chunk)

    def pullback(g):
        # the same recurrence from the end: carried_t = g_t + (1 - z_{t+1}) carried_{t+1}
        g_states, g_last = g
        keep = xp.ones_like(states)
        keep[:, 1:] = xp.flip(1 - z[:, 1:], 1)
        carried = xp.flip(linear_scan(keep, xp.flip(g_states, 1), g_last, chunk), 1)
        before = xp.concatenate([h0[:, None], states[:, :-1]], axis=1)
        return carried * (c - before), carried * z, carried[:, 0] * (1 - z[:, 0])

    return (states, states[:, -1].copy()), pullback
