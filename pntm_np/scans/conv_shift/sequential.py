"""The definition: a loop over time steps."""

from __future__ import annotations

from typing import Any

from autodiff import Array, Pair, Pullback, Same, array_module, differentiable


def step(a: Same, s: Same) -> Same:
    """a_t from a_{t-1} (..., m) and s_t (..., 3): left, stay, right."""
    left, stay, right = s[..., 0:1], s[..., 1:2], s[..., 2:3]
    moved: Any = a * stay  # Any: a step is never recorded, so this is an array
    moved[..., :-1] += a[..., 1:] * left  # offset -1: cell i gets what was at i + 1
    moved[..., -1:] += a[..., :1] * left
    moved[..., 1:] += a[..., :-1] * right  # offset +1: cell i gets what was at i - 1
    moved[..., :1] += a[..., -1:] * right
    return moved


def step_back(a: Array, s: Array, g: Array) -> tuple[Array, Array]:
    """The cotangents of a and s, given that of ``step(a, s)``."""
    xp = array_module(a, s, g)
    d_s = xp.stack([xp.sum(g * xp.roll(a, j, -1), axis=-1) for j in (-1, 0, 1)], axis=-1)  # sum_i g[i] a[i - j]
    return step(g, xp.flip(s, -1)), d_s  # the cotangent of a: g moved with left and right exchanged


@differentiable
def conv_shift_sequential(s: Array, a0: Array) -> tuple[Pair, Pullback]:
    xp = array_module(s, a0)
    length = s.shape[1]
    addresses = xp.empty((*s.shape[:-1], a0.shape[-1]), xp.result_type(s, a0))  # a_0 .. a_{T-1}
    a = a0.astype(addresses.dtype)
    for t in range(length):
        addresses[:, t] = a
        a = step(a, s[:, t])

    def pullback(g):
        g_addresses, carried = g  # carried: the cotangent of a_{t+1}
        d_s = xp.empty_like(s)
        for t in reversed(range(length)):
            moved, d_s[:, t] = step_back(addresses[:, t], s[:, t], carried)
            carried = moved + g_addresses[:, t]
        return d_s, carried

    return (addresses, a), pullback
