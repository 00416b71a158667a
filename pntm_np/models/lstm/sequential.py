"""One LSTM layer, with its gates in the order i, f, g, o. The loop over time steps is one op with its own pullback."""

from __future__ import annotations

import autodiff as ad
from autodiff import Array, Arrays, Pair, Pullback


def cell(gates: Array, c: Array) -> tuple[Array, Array, Arrays, Array]:
    """h_t, c_t, and what the backward pass needs: the activations (i, f, g, o) and tanh c_t."""
    size = c.shape[-1]
    i, f, o = (ad.sigmoid(gates[:, k * size : (k + 1) * size]) for k in (0, 1, 3))
    g = ad.tanh(gates[:, 2 * size : 3 * size])
    c = f * c + i * g
    squashed = ad.tanh(c)
    return o * squashed, c, (i, f, g, o), squashed


def cell_pullback(d_h: Array, d_c: Array, before: Array, activations: Arrays, squashed: Array) -> Pair:
    """The cotangents of the gates and of c_{t-1}."""
    xp = ad.array_module(d_h)
    i, f, g, o = activations
    d_c = d_c + d_h * o * (1 - squashed * squashed)
    d_gates = [d_c * g * i * (1 - i), d_c * before * f * (1 - f), d_c * i * (1 - g * g), d_h * squashed * o * (1 - o)]
    return xp.concatenate(d_gates, axis=-1), d_c * f


@ad.differentiable
def lstm_cell(gates: Array, c: Array) -> tuple[Pair, Pullback]:
    """One step: gates (B, 4 h) before their activation and c_{t-1} (B, h) -> h_t, c_t."""
    h, c_new, activations, squashed = cell(gates, c)
    return (h, c_new), lambda g: cell_pullback(g[0], g[1], c, activations, squashed)


@ad.differentiable
def lstm_scan(x: Array, W_h: Array, h0: Array, c0: Array) -> tuple[Arrays, Pullback]:
    """All steps: x (B, T, 4 h) is W_x x_t + b; returns h_1 .. h_T (B, T, h), h_T and c_T."""
    xp = ad.array_module(x, W_h, h0, c0)
    states = xp.empty((*x.shape[:2], h0.shape[-1]), xp.result_type(x, W_h, h0, c0))
    h, c, saved = h0, c0, []
    for t in range(x.shape[1]):
        before = c
        h, c, activations, squashed = cell(x[:, t] + h @ W_h.T, c)
        saved.append((before, activations, squashed))
        states[:, t] = h

    def pullback(g):
        g_states, d_h, d_c = g
        d_x = xp.empty(x.shape, states.dtype)
        for t in reversed(range(x.shape[1])):
            d_gates, d_c = cell_pullback(d_h + g_states[:, t], d_c, *saved.pop())
            d_x[:, t] = d_gates
            d_h = d_gates @ W_h
        before = xp.concatenate([h0[:, None], states[:, :-1]], axis=1)
        rows = before.reshape(-1, before.shape[-1])
        return d_x, d_x.reshape(-1, d_x.shape[-1]).T @ rows, d_h, d_c

    return (states, h, c), pullback
