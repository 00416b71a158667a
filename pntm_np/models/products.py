"""Compiled products of a vector and a matrix, four rows at a time: loops run along a row, so that they vectorize.

A vector is a row of an array and is passed as the array and an index, because a view costs reference counting.
"""

from __future__ import annotations

from autodiff.kernel import kernel


@kernel
def product(c, h, x, y, count):
    """Vector times matrix on the first ``count`` columns: y[h] += c[h] x."""
    n = len(x)
    whole = n - n % 4
    for k in range(0, whole, 4):
        c0, c1, c2, c3 = c[h, k], c[h, k + 1], c[h, k + 2], c[h, k + 3]
        for i in range(count):
            y[h, i] += c0 * x[k, i] + c1 * x[k + 1, i] + c2 * x[k + 2, i] + c3 * x[k + 3, i]
    for k in range(whole, n):
        for i in range(count):
            y[h, i] += c[h, k] * x[k, i]


@kernel
def dot(x, h, y, k, count):
    total = x.dtype.type(0)
    for i in range(count):
        total += x[h, i] * y[k, i]
    return total


@kernel
def dots(x, h, y, out, count):
    """Matrix times vector on the first ``count`` columns: out[h] = y x[h]."""
    n = len(y)
    whole = n - n % 4
    for k in range(0, whole, 4):
        first = second = third = fourth = x.dtype.type(0)
        for i in range(count):
            first += x[h, i] * y[k, i]
            second += x[h, i] * y[k + 1, i]
            third += x[h, i] * y[k + 2, i]
            fourth += x[h, i] * y[k + 3, i]
        out[h, k], out[h, k + 1], out[h, k + 2], out[h, k + 3] = first, second, third, fourth
    for k in range(whole, n):
        out[h, k] = dot(x, h, y, k, count)
