"""Softmax of rows of three, compiled."""

from __future__ import annotations

import numpy as np

from autodiff import scalar
from autodiff.backend import Array
from autodiff.compiled import INFINITY, ZERO, rows
from autodiff.kernel import kernel


@kernel
def _softmax_of_three(x, y):
    """Loops over all rows become vector code; loops over three numbers would not."""
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


def softmax_of_three(x: Array):
    """The value, and the pullback."""
    x_rows = rows(x)
    y = np.empty_like(x_rows)
    _softmax_of_three(x_rows, y)

    def pullback(g):
        d_x = np.empty_like(y)
        _softmax_of_three_back(rows(g), y, d_x)
        return d_x.reshape(x.shape)

    return y.reshape(x.shape), pullback
