"""Running sums, products and log-sums along one axis, with gradients that never divide.

The gradients of cumprod and logcumsumexp are linear recurrences r_i = g_i + w_i r_{i+1}, run backwards in log2(length)
whole-array steps. CuPy has ``accumulate`` only for add and multiply, so logcumsumexp itself doubles as well: after
step k each element covers 2^k elements, up to itself.
"""

from __future__ import annotations

import math

import numpy as np

from autodiff import expect
from autodiff.backend import Array, array_module
from autodiff.tape import Pullback, differentiable


def _along(axis: int, start: int | None, stop: int | None) -> tuple[slice, ...]:
    """The key that selects start:stop on that axis."""
    return (slice(None),) * axis + (slice(start, stop),)


def _recur_backwards(g: Array, w: Array, axis: int) -> Array:
    """r_i = g_i + w_i r_{i+1} along ``axis``, with r beyond the end zero; the last w is not used."""
    r, w = g.copy(), w.copy()
    step, length = 1, g.shape[axis]
    while step < length:
        here, there = _along(axis, None, length - step), _along(axis, step, None)
        # the window of step elements from i is joined with the one from i + step, if that exists
        r[here] = r[here] + w[here] * r[there]
        w[here] = w[here] * w[there]
        step *= 2
    return r


@differentiable
def cumsum(x: Array, *, axis: int) -> tuple[Array, Pullback]:
    xp = array_module(x)
    axis = expect.one_axis(x, axis)
    return xp.cumsum(x, axis=axis), lambda g: xp.flip(xp.cumsum(xp.flip(g, axis), axis=axis), axis)


@differentiable
def cumprod(x: Array, *, axis: int) -> tuple[Array, Pullback]:
    """Running product; the gradient is exact for zeros, since it multiplies and never divides."""
    expect.real(x)
    xp = array_module(x)
    axis = expect.one_axis(x, axis)
    y = xp.cumprod(x, axis=axis)

    def pullback(g):
        # dx_j = y_{j-1} r_j with r_j = g_j + x_{j+1} r_{j+1}
        before, after = xp.ones_like(y), xp.ones_like(x)
        before[_along(axis, 1, None)] = y[_along(axis, None, -1)]
        after[_along(axis, None, -1)] = x[_along(axis, 1, None)]
        return before * _recur_backwards(g, after, axis)

    return y, pullback


@differentiable
def logcumsumexp(x: Array, *, axis: int) -> tuple[Array, Pullback]:
    """log of the running sum of exp(x), without overflow; -inf is an exact zero in the sum."""
    xp = array_module(x)
    axis = expect.one_axis(x, axis)
    if x.dtype.kind != "f":
        raise TypeError("expected a real floating-point array")
    y = x.copy()
    step, length = 1, x.shape[axis]
    while step < length:
        later, earlier = _along(axis, step, None), _along(axis, None, length - step)
        with np.errstate(invalid="ignore"):  # NumPy warns of NaN inputs as if it had made them here
            y[later] = xp.logaddexp(y[later], y[earlier])
        step *= 2

    def pullback(g):
        # dx_j = sum_{i >= j} g_i exp(x_j - y_i) = exp(x_j - y_j) r_j with r_j = g_j + exp(y_j - y_{j+1}) r_{j+1};
        # y never decreases, so all factors are in [0, 1]. Where y is -inf, so is x, and its share is 0.
        level = xp.where(y == -math.inf, 0.0, y)
        decay = xp.ones_like(y)
        here, there = _along(axis, None, -1), _along(axis, 1, None)
        decay[here] = xp.exp(y[here] - level[there])
        return xp.exp(x - level) * _recur_backwards(g, decay, axis)

    return y, pullback
