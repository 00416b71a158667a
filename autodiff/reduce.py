"""Reductions (sums, means, maxima) and the normalisations built on them."""

from __future__ import annotations

import math

import numpy as np

from autodiff import expect
from autodiff.backend import Array, Namespace, array_module, kernels
from autodiff.expect import Axis
from autodiff.tape import Pullback, differentiable


def _kept(x: Array, axes: tuple[int, ...]) -> tuple[int, ...]:
    """The shape of a reduction over ``axes`` with keepdims."""
    return tuple(1 if i in axes else n for i, n in enumerate(x.shape))


@differentiable
def sum(x: Array, *, axis: Axis = None, keepdims: bool = False) -> tuple[Array, Pullback]:
    xp = array_module(x)
    axes = expect.axes(x, axis)
    kept, shape = _kept(x, axes), x.shape  # not x: the gradient needs only its shape
    return xp.sum(x, axis=axes, keepdims=keepdims), lambda g: xp.broadcast_to(g.reshape(kept), shape)


@differentiable
def mean(x: Array, *, axis: Axis = None, keepdims: bool = False) -> tuple[Array, Pullback]:
    xp = array_module(x)
    axes = expect.axes(x, axis)
    kept, shape = _kept(x, axes), x.shape
    count = math.prod(shape[a] for a in axes)
    if count == 0:
        raise ValueError("the mean of no elements is undefined; expected at least one along the axis")
    value = xp.mean(x, axis=axes, keepdims=keepdims)
    return value, lambda g: xp.broadcast_to((g / count).reshape(kept), shape)


@differentiable
def max(x: Array, *, axis: Axis = None, keepdims: bool = False) -> tuple[Array, Pullback]:
    """The largest element; elements that tie share the cotangent equally."""
    expect.real(x)
    xp = array_module(x)
    axes = expect.axes(x, axis)
    if math.prod(x.shape[a] for a in axes) == 0:
        raise ValueError("the maximum of no elements is undefined; expected at least one along the axis")
    kept = _kept(x, axes)
    y = xp.max(x, axis=axes, keepdims=True)

    def pullback(g):
        largest = x == y
        share = g.reshape(kept) / xp.sum(largest, axis=axes, keepdims=True, dtype=y.dtype)
        return xp.where(largest, share, 0.0)

    return y if keepdims else _drop(y, axes), pullback


def _drop(y: Array, axes: tuple[int, ...]) -> Array:
    return y.reshape(tuple(n for i, n in enumerate(y.shape) if i not in axes))


def _finite_max(xp: Namespace, x: Array, axes: tuple[int, ...]) -> Array:
    """What to subtract before exp: the maximum, or 0 where it is infinite or there are no elements."""
    if math.prod(x.shape[a] for a in axes) == 0:
        return xp.zeros(_kept(x, axes), x.dtype)
    top = xp.max(x, axis=axes, keepdims=True)
    return xp.where(xp.isinf(top), 0.0, top)


@differentiable
def logsumexp(x: Array, *, axis: Axis = None, keepdims: bool = False) -> tuple[Array, Pullback]:
    """log of the sum of exp(x), without overflow; -inf with a zero gradient where all elements are -inf."""
    expect.real(x)
    xp = array_module(x)
    axes = expect.axes(x, axis)
    kept = _kept(x, axes)
    top = _finite_max(xp, x, axes)
    with np.errstate(divide="ignore", over="ignore"):  # log(0) = -inf is the right value here
        y = xp.log(xp.sum(xp.exp(x - top), axis=axes, keepdims=True)) + top

    def pullback(g):
        return g.reshape(kept) * xp.exp(x - xp.where(y == -math.inf, 0.0, y))

    return y if keepdims else _drop(y, axes), pullback


@differentiable
def softmax(x: Array, *, axis: int = -1) -> tuple[Array, Pullback]:
    expect.real(x)
    xp = array_module(x)
    axes = expect.axes(x, axis)
    if axes == (x.ndim - 1,) and x.size and (fast := kernels(x)):
        return fast.softmax(x)
    y = xp.exp(x - _finite_max(xp, x, axes))
    y /= xp.sum(y, axis=axes, keepdims=True)
    return y, lambda g: y * (g - xp.sum(g * y, axis=axes, keepdims=True))


@differentiable
def log_softmax(x: Array, *, axis: int = -1) -> tuple[Array, Pullback]:
    expect.real(x)
    xp = array_module(x)
    axes = expect.axes(x, axis)
    y = x - _finite_max(xp, x, axes)
    with np.errstate(divide="ignore"):  # the empty sum of an empty axis
        y -= xp.log(xp.sum(xp.exp(y), axis=axes, keepdims=True))
    return y, lambda g: g - xp.exp(y) * xp.sum(g, axis=axes, keepdims=True)
