"""What the models share: linear maps, norms, the feed-forward sublayer, and how gates are rounded."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

import autodiff as ad
from autodiff import Array, Pullback, Value, host

V = TypeVar("V")
Params = dict[str, Array]  # by their names, as plain arrays
Weights = Mapping[str, Value]  # the same as a layer takes them, which may be recorded


def part(weights: Mapping[str, V], prefix: str) -> dict[str, V]:
    """The parameters whose names begin with ``prefix``, without it."""
    start = len(prefix)
    return {name[start:]: w for name, w in weights.items() if name.startswith(prefix)}


def linear(x: Value, W: Value) -> Value:
    """W x for every vector of x: W (out, in), x (..., in) -> (..., out)."""
    if isinstance(W, ad.Tensor):
        return x @ ad.transpose(W)
    return host.few_times(x, W) if host.is_few(x) else ad.matmul(x, W.T)


def norm(weights: Weights, name: str, x: Value) -> Value:
    return ad.layer_norm(x, weights[f"{name}.scale"], weights[f"{name}.bias"])


def feed_forward(weights: Weights, x: Value) -> Value:
    return linear(ad.gelu(linear(x, weights["ffn.W_in"])), weights["ffn.W_out"])


def block_shapes(width: int) -> dict[str, tuple[int, ...]]:
    """Everything of a residual block but its mixer."""
    return {
        "norm1.scale": (width,),
        "norm1.bias": (width,),
        "norm2.scale": (width,),
        "norm2.bias": (width,),
        "ffn.W_in": (4 * width, width),
        "ffn.W_out": (width, 4 * width),
    }


def closed(z: Value, *, tau: float | Array) -> Value:
    """Gates below tau exactly 0, above 1 - tau exactly 1: at inference what is kept does not fade."""
    value = ad.stop_gradient(z)
    return ad.where(value < tau, 0.0, ad.where(value > 1 - tau, 1.0, z))


@ad.differentiable
def straight_through(x: Array, *, rounding: Callable[..., Value], tau: Array) -> tuple[Array, Pullback]:
    """Rows 0, 2, .. of x (rows, ...) rounded, each by its own threshold, the others as they are; the gradient passes
    unchanged. Rounding makes a jump, whose true gradient is 0 on both sides and would not tell which of them to take.
    """
    y = x.copy()
    y[::2] = rounding(x[::2], tau=tau.reshape(-1, *[1] * (x.ndim - 1)))
    return y, lambda g: g
