"""Rearrangements of elements: every gradient puts them back where they came from."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from autodiff import expect
from autodiff.backend import Array, array_module
from autodiff.tape import Part, Pullback, differentiable, explain


@differentiable
def reshape(x: Array, *, shape: tuple[int, ...]) -> tuple[Array, Pullback]:
    before = x.shape
    return x.reshape(shape), lambda g: g.reshape(before)


@differentiable
def transpose(x: Array, *, axes: tuple[int, ...] | None = None) -> tuple[Array, Pullback]:
    """Axes in the given order, or reversed by default."""
    axes = tuple(range(x.ndim))[::-1] if axes is None else expect.axes(x, axes)
    if len(axes) != x.ndim:
        raise ValueError(f"expected {x.ndim} axes")
    back = tuple(axes.index(i) for i in range(x.ndim))
    return x.transpose(axes), lambda g: g.transpose(back)


@differentiable
def swapaxes(x: Array, *, first: int, second: int) -> tuple[Array, Pullback]:
    first, second = expect.one_axis(x, first), expect.one_axis(x, second)
    return x.swapaxes(first, second), lambda g: g.swapaxes(first, second)


@differentiable
def broadcast_to(x: Array, *, shape: tuple[int, ...]) -> tuple[Array, Pullback]:
    return array_module(x).broadcast_to(x, shape), lambda g: g


@differentiable
def concatenate(*arrays: Array, axis: int = 0) -> tuple[Array, Pullback]:
    """Arrays joined along an existing axis."""
    if not arrays:
        raise ValueError("expected at least one array")
    first = arrays[0]
    at = expect.one_axis(first, axis)
    for x in arrays:
        if x.ndim != first.ndim or x.shape[:at] + x.shape[at + 1 :] != first.shape[:at] + first.shape[at + 1 :]:
            raise ValueError(f"expected shapes that agree on all axes but axis {axis}")
    lengths = [x.shape[at] for x in arrays]

    def pullback(g):
        parts, start = [], 0
        for length in lengths:
            parts.append(g[(slice(None),) * at + (slice(start, start + length),)])
            start += length
        return tuple(parts)

    return array_module(*arrays).concatenate(arrays, axis=at), pullback


@differentiable
def stack(*arrays: Array, axis: int = 0) -> tuple[Array, Pullback]:
    """Arrays of one shape joined along a new axis."""
    if not arrays or any(x.shape != arrays[0].shape for x in arrays):
        raise ValueError("expected one or more arrays of the same shape")
    xp = array_module(*arrays)
    y = xp.stack(arrays, axis=axis)
    at = expect.one_axis(y, axis)
    count = len(arrays)  # not the arrays: the gradient does not need them
    return y, lambda g: tuple(g[(slice(None),) * at + (k,)] for k in range(count))


def split(x: Array, *, sections: int, axis: int = 0) -> list[Array]:
    """``x`` cut into equal parts along an axis: the inverse of concatenate."""
    try:
        at, sections = expect.one_axis(x, axis), expect.integer("sections", sections)
        if sections < 1 or x.shape[at] % sections:
            raise ValueError(f"axis {axis} cannot be cut into {sections} equal parts")
    except (AttributeError, TypeError, ValueError) as error:
        raise explain("split", [x], {"sections": sections, "axis": axis}, error) from None
    size = x.shape[at] // sections
    return [index(x, key=(slice(None),) * at + (slice(k * size, (k + 1) * size),)) for k in range(sections)]


@differentiable
def pad(x: Array, *, widths: tuple[tuple[int, int], ...], value: float = 0.0) -> tuple[Array, Pullback]:
    """x with ``(before, after)`` elements of ``value`` added on each axis."""
    if not isinstance(widths, (tuple, list)) or len(widths) != x.ndim:
        raise ValueError(f"expected widths as {x.ndim} pairs (before, after)")
    if any(len(w) != 2 or min(w) < 0 for w in widths):
        raise ValueError("expected every width to be a pair (before, after), not negative")
    inside = tuple(slice(before, before + n) for (before, _), n in zip(widths, x.shape, strict=True))
    y = array_module(x).pad(x, widths, mode="constant", constant_values=value)
    return y, lambda g: g[inside]


@differentiable
def flip(x: Array, *, axis: int) -> tuple[Array, Pullback]:
    axis = expect.one_axis(x, axis)
    xp = array_module(x)
    return xp.flip(x, axis), lambda g: xp.flip(g, axis)


@differentiable
def roll(x: Array, *, shift: int, axis: int) -> tuple[Array, Pullback]:
    """x moved cyclically: what was at i is now at i + shift."""
    axis, shift = expect.one_axis(x, axis), expect.integer("shift", shift)
    xp = array_module(x)
    return xp.roll(x, shift, axis), lambda g: xp.roll(g, -shift, axis)


@differentiable
def index(x: Array, *, key: Any) -> tuple[Array, Pullback]:
    """``x[key]`` for slices, integers, ... and None; for an array of indices use ``take``."""
    for k in key if isinstance(key, tuple) else (key,):
        if not (k is None or k is ... or isinstance(k, (int, np.integer, slice))) or isinstance(k, bool):
            raise TypeError(f"{type(k).__name__} in the key; expected slices and integers (for arrays use take)")
    return x[key], lambda g: Part(key, g)


@differentiable
def take(x: Array, indices: Array, *, axis: int = 0) -> tuple[Array, Pullback]:
    """Rows of x (slices along ``axis``) selected by an array of integers; a row may be taken many times.

    The gradient sums over equal indices by a matrix product with their one-hot rows. Its order of summation is fixed,
    so the bits are always the same, which atomic additions would not guarantee. An infinite cotangent of one row
    becomes NaN in the others. An index beyond the end is an IndexError with NumPy; CuPy wraps it, since checking would
    synchronise.
    """
    xp = array_module(x, indices)
    at = expect.one_axis(x, axis)
    if indices.dtype.kind not in "iu":
        raise TypeError("expected integers as indices")
    length, shape = x.shape[at], x.shape

    def pullback(g):
        rows = math.prod(shape[:at])
        columns = math.prod(shape[at + 1 :])
        picks = indices.reshape(-1).astype(xp.int64)  # in a small dtype, % would overflow
        onehot = (xp.arange(length)[:, None] == picks % length).astype(g.dtype)  # length, picks
        g = g.reshape(rows, picks.size, columns)
        return (onehot @ g).reshape(shape), None

    return xp.take(x, indices, axis=at), pullback
