"""Kernels for float32 arrays on the CPU: one pass over the data for each of the ops that dominate a training step.

Arrays are flattened to (N,) for elementwise functions, and to (N, d) for functions along the last axis.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from autodiff import scalar
from autodiff.backend import Array, Arrays
from autodiff.host import DENSITY_AT_0
from autodiff.kernel import kernel, selecting_kernel

f32 = np.float32
INFINITY = f32(math.inf)
ZERO, HALF, ONE = f32(0), f32(0.5), f32(1)


def flat(x: Array) -> Array:
    return np.ascontiguousarray(x).reshape(-1)


def rows(x: Array) -> Array:
    return np.ascontiguousarray(x).reshape(-1, x.shape[-1])


def elementwise(loop: Callable) -> Callable:
    """Turn ``loop(*inputs, *outputs)`` over flat arrays into a function that allocates and returns its outputs."""

    def apply(*inputs: Array, outputs: int = 1) -> Array | Arrays:
        made = tuple(np.empty(inputs[0].shape, f32) for _ in range(outputs))
        loop(*(flat(x) for x in inputs), *(x.reshape(-1) for x in made))
        return made[0] if outputs == 1 else made

    return apply


@kernel
def _sigmoid(x, y):
    for i in range(len(x)):
        y[i] = scalar.sigmoid(x[i])


@kernel
def _sigmoid_back(g, y, d):
    for i in range(len(y)):
        d[i] = g[i] * (y[i] * (ONE - y[i]))


@kernel
def _tanh(x, y):
    for i in range(len(x)):
        y[i] = scalar.tanh(x[i])


@kernel
def _softplus(x, y):
    for i in range(len(x)):
        y[i] = scalar.softplus(x[i])


@kernel
def _gelu(x, y, slope):
    for i in range(len(x)):
        a = abs(x[i])
        a = f32(15) if a > f32(15) else a  # the density is 0 there
        e = scalar.exp(-HALF * (a * a))
        below = e * scalar.mills(a)  # Phi(-a)
        phi = ONE - below if x[i] > ZERO else below
        y[i] = x[i] * phi
        slope[i] = phi + x[i] * (DENSITY_AT_0 * e)


sigmoid, sigmoid_back = elementwise(_sigmoid), elementwise(_sigmoid_back)
tanh, softplus = elementwise(_tanh), elementwise(_softplus)
_gelu_both = elementwise(_gelu)


def gelu(x: Array) -> tuple[Array, Array]:
    """x Phi(x) and its slope, which share an exponential."""
    return _gelu_both(x, outputs=2)


# ---- along the last axis ----
@kernel
def _layer_norm(x, scale, bias, eps, y, mean, inverse):
    n, d = x.shape
    for r in range(n):
        total = ZERO
        for i in range(d):
            total += x[r, i]
        mu = total / f32(d)
        total = ZERO
        for i in range(d):
            total += (x[r, i] - mu) * (x[r, i] - mu)
        rate = ONE / np.sqrt(total / f32(d) + eps)
        for i in range(d):
            y[r, i] = (x[r, i] - mu) * rate * scale[i] + bias[i]
        mean[r], inverse[r] = mu, rate


@kernel
def _layer_norm_back(g, x, scale, mean, inverse, d_x, d_scale, d_bias):
    n, d = x.shape
    for r in range(n):
        mu, rate = mean[r], inverse[r]
        total, along = ZERO, ZERO
        for i in range(d):
            normal = (x[r, i] - mu) * rate
            total += g[r, i] * scale[i]
            along += g[r, i] * scale[i] * normal
        total, along = total / f32(d), along / f32(d)
        for i in range(d):
            normal = (x[r, i] - mu) * rate
            d_x[r, i] = (g[r, i] * scale[i] - total - normal * along) * rate
            d_scale[i] += g[r, i] * normal
            d_bias[i] += g[r, i]


def layer_norm(x: Array, scale: Array, bias: Array, eps: float) -> tuple[Array, Callable]:
    """The value, and the pullback to x, scale and bias."""
    x_rows = rows(x)
    scale = np.ascontiguousarray(scale)
    y, mean, inverse = np.empty_like(x_rows), np.empty(len(x_rows), f32), np.empty(len(x_rows), f32)
    _layer_norm(x_rows, scale, np.ascontiguousarray(bias), f32(eps), y, mean, inverse)

    def pullback(g):
        d_x, d_scale, d_bias = np.empty_like(x_rows), np.zeros_like(scale), np.zeros_like(scale)
        _layer_norm_back(rows(g), x_rows, scale, mean, inverse, d_x, d_scale, d_bias)
        return d_x.reshape(x.shape), d_scale, d_bias

    return y.reshape(x.shape), pullback


@selecting_kernel
def largest(x, r, count):
    """The largest of the first ``count`` numbers of row r; any of them if one is NaN, as NaN minus anything is NaN."""
    top = x[r, 0]
    for i in range(count):
        top = x[r, i] if x[r, i] > top else top
    return top


@kernel
def _softmax(x, y):
    n, d = x.shape
    for r in range(n):
        top = largest(x, r, d)
        top = top if abs(top) < INFINITY else ZERO  # NaN becomes 0 here and stays NaN in the sum
        total = ZERO
        for i in range(d):
            y[r, i] = scalar.exp(x[r, i] - top)
        for i in range(d):
            total += y[r, i]
        for i in range(d):
            y[r, i] = y[r, i] / total


@kernel
def _softmax_back(g, y, d_x):
    n, d = y.shape
    for r in range(n):
        along = ZERO
        for i in range(d):
            along += g[r, i] * y[r, i]
        for i in range(d):
            d_x[r, i] = y[r, i] * (g[r, i] - along)


def by_rows(forward: Callable, backward: Callable) -> Callable:
    """Turn ``forward(rows, y)`` and ``backward(g, y, d_rows)`` into a function from an array to value and pullback."""

    def softmax(x: Array) -> tuple[Array, Callable]:
        x_rows = rows(x)
        y = np.empty_like(x_rows)
        forward(x_rows, y)

        def pullback(g):
            d_x = np.empty_like(y)
            backward(rows(g), y, d_x)
            return d_x.reshape(x.shape)

        return y.reshape(x.shape), pullback

    return softmax


softmax = by_rows(_softmax, _softmax_back)
