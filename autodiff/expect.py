"""Checks of ops' arguments: each function returns an argument in the form that the op uses, or raises an error."""

from __future__ import annotations

import numbers
import operator
from typing import SupportsIndex

from autodiff.backend import Array

Axis = int | tuple[int, ...] | None


def real(*arrays: Array) -> None:
    """Refuse complex arrays: the op's gradient holds for real ones only."""
    for x in arrays:
        if x.dtype.kind == "c":
            raise TypeError("expected a real array")


def axes(x: Array, axis: Axis) -> tuple[int, ...]:
    """The axes, counted from 0; all of them for None."""
    if axis is None:
        return tuple(range(x.ndim))
    given = axis if isinstance(axis, (tuple, list)) else (axis,)
    found = []
    for a in given:
        a = integer("axis", a)
        if not -x.ndim <= a < x.ndim:
            has = f"-{x.ndim} to {x.ndim - 1}" if x.ndim else "none: the array has no axes"
            raise ValueError(f"axis {a} is out of range; expected {has}")
        found.append(a % x.ndim)
    if len(set(found)) != len(found):
        raise ValueError(f"axis {axis} names an axis twice")
    return tuple(found)


def one_axis(x: Array, axis: int) -> int:
    if isinstance(axis, (tuple, list)) or axis is None:
        raise TypeError(f"axis is {axis!r}; expected one axis, an integer")
    return axes(x, axis)[0]


def integer(name: str, value: SupportsIndex) -> int:
    try:
        return operator.index(value)
    except TypeError:
        raise TypeError(f"{name} is {value!r}; expected an integer") from None


def number(name: str, value: object) -> float:
    """A plain Python number, because a NumPy float64 scalar would promote float32 arrays."""
    if not isinstance(value, numbers.Real):
        raise TypeError(f"{name} is {value!r}; expected a real number")
    return value if isinstance(value, int) else float(value)
