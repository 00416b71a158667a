"""The LSTM's loop with a compiled cell: between two matrix products, a time step is one pass over its gates."""

from __future__ import annotations

import numpy as np

import autodiff as ad
from autodiff import Array, Arrays, Pullback, scalar
from autodiff.kernel import kernel


@kernel
def cell_forward(x, t, recurrent, cells, before, after, saved, slot, states):
    """Write h_t to states[:, t], c_t to cells[after], and i, f, g, o and tanh c_t to saved[slot] for the backward pass.

    x (B, T, 4 h) and recurrent (B, 4 h) are the two parts of the gates before their activation.
    """
    size = states.shape[2]
    for b in range(len(x)):
        for d in range(size):
            saved[slot, b, d] = scalar.sigmoid(x[b, t, d] + recurrent[b, d])
        for d in range(size):
            saved[slot, b, size + d] = scalar.sigmoid(x[b, t, size + d] + recurrent[b, size + d])
        for d in range(2 * size, 3 * size):
            saved[slot, b, d] = scalar.tanh(x[b, t, d] + recurrent[b, d])
        for d in range(3 * size, 4 * size):
            saved[slot, b, d] = scalar.sigmoid(x[b, t, d] + recurrent[b, d])
        for d in range(size):
            i, f, g = saved[slot, b, d], saved[slot, b, size + d], saved[slot, b, 2 * size + d]
            c = f * cells[before, b, d] + i * g
            squashed = scalar.tanh(c)
            cells[after, b, d] = c
            saved[slot, b, 4 * size + d] = squashed
            states[b, t, d] = saved[slot, b, 3 * size + d] * squashed


@kernel
def cell_backward(d_h, g_states, t, d_c, cells, saved, d_x):
    """h_t has the cotangent d_h + g_states[:, t]. That of the gates goes to d_x[:, t]; d_c becomes that of c_{t-1}."""
    size = d_h.shape[1]
    one = d_h.dtype.type(1)
    for b in range(len(d_h)):
        for d in range(size):
            i, f, g = saved[t, b, d], saved[t, b, size + d], saved[t, b, 2 * size + d]
            o, squashed = saved[t, b, 3 * size + d], saved[t, b, 4 * size + d]
            h = d_h[b, d] + g_states[b, t, d]
            c = d_c[b, d] + h * o * (one - squashed * squashed)
            d_x[b, t, d] = c * g * i * (one - i)
            d_x[b, t, size + d] = c * cells[t, b, d] * f * (one - f)
            d_x[b, t, 2 * size + d] = c * i * (one - g * g)
            d_x[b, t, 3 * size + d] = h * squashed * o * (one - o)
            d_c[b, d] = c * f


def transposed(W: Array) -> Array:
    """W.T in C order: with the few rows of a shard, a product with the view W.T takes far longer."""
    return np.ascontiguousarray(W.T)


def before_each(h0: Array, states: Array) -> Array:
    """The state before each time step, (B T, h)."""
    return np.concatenate([h0[:, None], states[:, :-1]], axis=1).reshape(-1, h0.shape[-1])


@ad.differentiable
def lstm_scan_fused(x: Array, W_h: Array, h0: Array, c0: Array) -> tuple[Arrays, Pullback]:
    """``lstm_scan``, compiled."""
    dtype = np.result_type(x, W_h, h0, c0)
    x, W_h, h0 = (np.ascontiguousarray(y, dtype) for y in (x, W_h, h0))
    (batch, steps, _), size = x.shape, h0.shape[-1]
    states, cells = np.empty((batch, steps, size), dtype), np.empty((steps + 1, batch, size), dtype)
    saved, recurrent = np.empty((steps, batch, 5 * size), dtype), np.empty((batch, 4 * size), dtype)
    W_t = transposed(W_h)
    h, cells[0] = h0, c0
    for t in range(steps):
        np.matmul(h, W_t, out=recurrent)
        cell_forward(x, t, recurrent, cells, t, t + 1, saved, t, states)
        h = states[:, t]

    def pullback(g):
        g_states = np.ascontiguousarray(g[0], dtype)
        d_h, d_c = (np.array(y, dtype, order="C") for y in g[1:])
        d_x = np.empty_like(x)
        for t in reversed(range(steps)):
            cell_backward(d_h, g_states, t, d_c, cells, saved, d_x)
            np.matmul(d_x[:, t], W_h, out=d_h)
        return d_x, d_x.reshape(-1, 4 * size).T @ before_each(h0, states), d_h, d_c

    return (states, h.copy(), cells[steps].copy()), pullback
