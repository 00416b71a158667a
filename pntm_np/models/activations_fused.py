"""The models' own activations, compiled: g(x), and the softmax of a head's shifts."""

from __future__ import annotations

from autodiff import scalar
from autodiff.compiled import HALF, INFINITY, ONE, ZERO, by_rows, elementwise
from autodiff.kernel import kernel


@kernel
def _positive(x, y):
    for i in range(len(x)):
        y[i] = x[i] + HALF if x[i] >= ZERO else scalar.sigmoid(x[i])


@kernel
def _positive_back(g, x, y, d):
    for i in range(len(y)):
        d[i] = g[i] if x[i] >= ZERO else g[i] * (y[i] * (ONE - y[i]))


positive, positive_back = elementwise(_positive), elementwise(_positive_back)


@kernel
def _softmax_of_three(x, y):
    """Loops over all rows vectorize; loops over three numbers would not."""
    for r in range(len(x)):
        a, b, c = x[r, 0], x[r, 1], x[r, 2]
        top = b if b > a else a
        top = c if c > top else top
        top = top if abs(top) < INFINITY else ZERO
        y[r, 0], y[r, 1], y[r, 2] = a - top, b - top, c - top
    every = y.reshape(-1)
    for i in range(len(every)):
        every[i] = scalar.exp(every[i])
    for r in range(len(x)):
        a, b, c = y[r, 0], y[r, 1], y[r, 2]
        total = a + b + c
        y[r, 0], y[r, 1], y[r, 2] = a / total, b / total, c / total


@kernel
def _softmax_of_three_back(g, y, d_x):
    for r in range(len(y)):
        a, b, c = y[r, 0], y[r, 1], y[r, 2]
        along = g[r, 0] * a + g[r, 1] * b + g[r, 2] * c
        d_x[r, 0], d_x[r, 1], d_x[r, 2] = a * (g[r, 0] - along), b * (g[r, 1] - along), c * (g[r, 2] - along)


softmax_of_three = by_rows(_softmax_of_three, _softmax_of_three_back)
