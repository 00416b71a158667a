"""What ops ask of their arguments: each function returns one as the op can use it, or says what it expected."""

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
    """The axes meant, counted from 0; all of them for None."""
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
    """A plain number: one of NumPy's would turn float32 into float64."""
    if not isinstance(value, numbers.Real):
        raise TypeError(f"{name} is {value!r}; expected a real number")
    return value if isinstance(value, int) else float(value)
