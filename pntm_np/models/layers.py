"""What the models share: linear maps, norms, the feed-forward sublayer, and the rounding of gates."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

import autodiff as ad
from autodiff import Array, Pullback, Value, host

V = TypeVar("V")
Params = dict[str, Array]  # plain arrays by name
Weights = Mapping[str, Value]  # the parameters as a layer sees them: in training they are Tensors


def part(weights: Mapping[str, V], prefix: str) -> dict[str, V]:
    """The parameters whose names begin with ``prefix``; it is removed from the names."""
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
    """The parameters of a residual block without those of its mixer."""
    norms = {f"norm{i}.{name}": (width,) for i in (1, 2) for name in ("scale", "bias")}
    return norms | {"ffn.W_in": (4 * width, width), "ffn.W_out": (width, 4 * width)}


def closed(z: Value, *, tau: float | Array) -> Value:
    """Snap gates below tau to 0 and gates above 1 - tau to 1: at inference, a state that is kept does not fade."""
    value = ad.stop_gradient(z)
    return ad.where(value < tau, 0.0, ad.where(value > 1 - tau, 1.0, z))


@ad.differentiable
def straight_through(x: Array, *, rounding: Callable[..., Value], tau: Array) -> tuple[Array, Pullback]:
    """Round rows 0, 2, .. of x (rows, ...), each by its own threshold, and leave the others as they are.

    The gradient passes unchanged: rounding itself has slope 0 on both sides of a jump, which teaches nothing.
    """
    y = x.copy()
    y[::2] = rounding(x[::2], tau=tau.reshape(-1, *[1] * (x.ndim - 1)))
    return y, lambda g: g
