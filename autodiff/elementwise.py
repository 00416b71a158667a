"""Arithmetic and elementwise functions, with broadcasting, each beside its gradient.

Where a slope does not exist (abs at 0, maximum and minimum at a tie), it is the mean of the slopes on both sides; clip
has slope 1 at its bounds.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from autodiff import expect, host
from autodiff.backend import Array, DType, array_module, kernels, special_module
from autodiff.tape import Pullback, differentiable


@differentiable
def add(x: Array, y: Array) -> tuple[Array, Pullback]:
    return x + y, lambda g: (g, g)


@differentiable
def subtract(x: Array, y: Array) -> tuple[Array, Pullback]:
    return x - y, lambda g: (g, lambda: -g)


@differentiable
def multiply(x: Array, y: Array) -> tuple[Array, Pullback]:
    return x * y, lambda g: (lambda: g * y.conjugate(), lambda: g * x.conjugate())


@differentiable
def divide(x: Array, y: Array) -> tuple[Array, Pullback]:
    z = x / y
    return z, lambda g: (lambda: g / y.conjugate(), lambda: -g * (z / y).conjugate())


@differentiable
def negative(x: Array) -> tuple[Array, Pullback]:
    return -x, lambda g: -g


@differentiable
def power(x: Array, *, exponent: float) -> tuple[Array, Pullback]:
    """x ** exponent for a constant real exponent."""
    exponent = expect.number("exponent", exponent)  # for an array, exp(exponent * log(x))
    if exponent == 0:
        return x**0, lambda g: None
    return x**exponent, lambda g: g * (exponent * x ** (exponent - 1)).conjugate()


@differentiable
def exp(x: Array) -> tuple[Array, Pullback]:
    y = array_module(x).exp(x)
    return y, lambda g: g * y.conjugate()


@differentiable
def log(x: Array) -> tuple[Array, Pullback]:
    return array_module(x).log(x), lambda g: g / x.conjugate()


@differentiable
def log1p(x: Array) -> tuple[Array, Pullback]:
    """log(1 + x), accurate near x = 0."""
    expect.real(x)
    return array_module(x).log1p(x), lambda g: g / (1 + x)


@differentiable
def sqrt(x: Array) -> tuple[Array, Pullback]:
    y = array_module(x).sqrt(x)
    return y, lambda g: g * 0.5 / y.conjugate()


@differentiable
def tanh(x: Array) -> tuple[Array, Pullback]:
    expect.real(x)
    fast = kernels(x)
    y = fast.tanh(x) if fast else array_module(x).tanh(x)
    return y, lambda g: g * (1 - y * y)


@differentiable
def sigmoid(x: Array) -> tuple[Array, Pullback]:
    """1 / (1 + exp(-x)), without overflow."""
    expect.real(x)
    if fast := kernels(x):
        y = fast.sigmoid(x)
        return y, lambda g: fast.sigmoid_back(g, y)
    y = host.expit(x) if host.is_single(x) else special_module(x).expit(x)
    return y, lambda g: g * (y * (1 - y))


@differentiable
def softplus(x: Array) -> tuple[Array, Pullback]:
    """log(1 + exp(x)), without overflow."""
    expect.real(x)
    if fast := kernels(x):
        return fast.softplus(x), lambda g: g * fast.sigmoid(x)
    xp = array_module(x)
    y = xp.maximum(x, 0) + xp.log1p(xp.exp(-abs(x)))
    return y, lambda g: g * special_module(x).expit(x)


@differentiable
def gelu(x: Array) -> tuple[Array, Pullback]:
    """x Phi(x) with the exact normal distribution function Phi, not its tanh approximation."""
    expect.real(x)
    if fast := kernels(x) or (host if host.is_single(x) else None):
        y, slope = fast.gelu(x)
        return y, lambda g: g * slope
    phi = special_module(x).ndtr(x)

    def pullback(g):
        density = array_module(x).exp(x * x * -0.5)
        density *= 1 / math.sqrt(2 * math.pi)
        return g * (phi + x * density)

    return x * phi, pullback


@differentiable
def maximum(x: Array, y: Array) -> tuple[Array, Pullback]:
    return array_module(x, y).maximum(x, y), lambda g: _to_the_chosen(g, x > y, x == y)


@differentiable
def minimum(x: Array, y: Array) -> tuple[Array, Pullback]:
    return array_module(x, y).minimum(x, y), lambda g: _to_the_chosen(g, x < y, x == y)


def _to_the_chosen(g: Array, first: Array, tie: Array) -> tuple[Callable, Callable]:
    """Pass the cotangent to the argument that was chosen, or half of it to each at a tie."""
    where = array_module(g).where
    shared = where(tie, 0.5 * g, 0.0)
    return lambda: where(first, g, shared), lambda: where(first | tie, shared, g)


@differentiable
def where(condition: Array, x: Array, y: Array) -> tuple[Array, Pullback]:
    """x where the condition holds, y elsewhere; the condition is a constant boolean array."""
    xp = array_module(condition, x, y)
    if condition.dtype.kind != "b":
        raise TypeError("expected a boolean array as condition")
    return xp.where(condition, x, y), lambda g: (
        None,
        lambda: xp.where(condition, g, 0.0),
        lambda: xp.where(condition, 0.0, g),
    )


@differentiable
def clip(x: Array, *, low: float | None = None, high: float | None = None) -> tuple[Array, Pullback]:
    """x limited to [low, high]; None leaves that side open. At a bound the slope is 1."""
    expect.real(x)
    xp = array_module(x)
    low, high = (None if b is None else expect.number(n, b) for n, b in (("low", low), ("high", high)))
    if low is None and high is None:
        raise ValueError("expected low, high or both")
    if low is not None and high is not None and not low <= high:
        raise ValueError("expected low <= high")
    y = x
    if low is not None:
        y = xp.maximum(y, low)
    if high is not None:
        y = xp.minimum(y, high)
    return y, lambda g: xp.where(x == y, g, 0.0)


@differentiable
def absolute(x: Array) -> tuple[Array, Pullback]:
    """|x| of a real or complex array; the slope at 0 is 0."""
    xp = array_module(x)
    y = abs(x)
    if x.dtype.kind == "c":
        return y, lambda g: g * (x / xp.where(y == 0, 1.0, y))
    return y, lambda g: g * xp.sign(x)


@differentiable
def real(z: Array) -> tuple[Array, Pullback]:
    """The real part of a complex array."""
    _expect_complex(z)
    return z.real.copy(), lambda g: g


@differentiable
def imag(z: Array) -> tuple[Array, Pullback]:
    """The imaginary part of a complex array."""
    _expect_complex(z)
    return z.imag.copy(), lambda g: _from_parts(array_module(g).zeros_like(g), g)


@differentiable
def make_complex(x: Array, y: Array) -> tuple[Array, Pullback]:
    """x + iy of two real arrays."""
    if any(part.dtype.kind != "f" for part in (x, y)):
        raise TypeError("expected two real floating-point arrays")
    return _from_parts(x, y), lambda g: (g.real, g.imag)


def _from_parts(x: Array, y: Array) -> Array:
    """x + iy part by part: the product 1j * y would be NaN for an infinite y."""
    xp = array_module(x, y)
    x, y = xp.broadcast_arrays(x, y)
    z = xp.empty(x.shape, xp.result_type(x.dtype, y.dtype, xp.complex64))
    z.real, z.imag = x, y
    return z


def _expect_complex(z: Array) -> None:
    if z.dtype.kind != "c":
        raise TypeError("expected a complex array")


@differentiable
def astype(x: Array, *, dtype: DType) -> tuple[Array, Pullback]:
    """x in another floating-point or complex dtype; its cotangent has the original dtype."""
    return x.astype(dtype), lambda g: g
