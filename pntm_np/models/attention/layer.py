"""Causal self-attention with one of four positional encodings, and a cache for decoding."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import autodiff as ad
from autodiff import Array, DType, Namespace, Pullback, Value, host
from autodiff.backend import kernels
from pntm_np.models.layers import Weights, linear
from pntm_np.models.mixer import Load, Mixer
from pntm_np.models.options import Options
from pntm_np.scans.forms import check_form

POSITIONS = ("nope", "rope", "alibi", "fire")
THETA = 10_000.0
FIRE_HIDDEN, FIRE_LENGTH, FIRE_EPS = 32, 512.0, 1e-6


class Cache(NamedTuple):
    """Keys and values of all positions so far, (B, H, t, width / H)."""

    keys: Value
    values: Value


@dataclass(frozen=True)
class Attention(Mixer[Cache]):
    """A mixer with ``heads`` heads, each of which is softmax(q k / sqrt(width / heads) + bias) v over the past."""

    heads: int = 8
    positions: str = "nope"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.positions not in POSITIONS:
            raise ValueError(f"positions is {self.positions!r}; expected one of {', '.join(POSITIONS)}")

    def shapes(self, width: int) -> dict[str, tuple[int, ...]]:
        if width % self.heads or (self.positions == "rope" and width // self.heads % 2):
            raise ValueError(
                f"heads = {self.heads} do not fit width = {width}; expected a divisor and, for RoPE, an even quotient"
            )
        shapes: dict[str, tuple[int, ...]] = {name: (width, width) for name in ("W_q", "W_k", "W_v", "W_o")}
        if self.positions == "fire":
            h = FIRE_HIDDEN
            shapes |= {"c": (), "L": (), "W_1": (h, 1), "b_1": (h,), "W_2": (self.heads, h), "b_2": (self.heads,)}
        return shapes

    def start(self, xp: Namespace, batch: int, width: int, memory_size: int, dtype: DType) -> Cache:
        empty = xp.zeros((batch, self.heads, 0, width // self.heads), dtype)
        return Cache(empty, empty)

    def sequence(self, w: Weights, x: Value, state: Cache, options: Options) -> tuple[Value, Cache]:
        batch, length, width = x.shape
        past, size = state.keys.shape[2], width // self.heads

        def split(y: Value) -> Value:
            return ad.swapaxes(ad.reshape(y, shape=(batch, length, self.heads, size)), first=1, second=2)

        q, k, v = (split(linear(x, w[name])) for name in ("W_q", "W_k", "W_v"))
        if self.positions == "rope":
            q, k = (rotate(y, past) for y in (q, k))
        keys, values = (ad.concatenate(old, new, axis=2) for old, new in ((state.keys, k), (state.values, v)))
        found = self.attend(q, keys, values, self.bias(w, q, past), options)
        y = ad.reshape(ad.swapaxes(found, first=1, second=2), shape=(batch, length, width))
        return linear(y, w["W_o"]), Cache(keys, values)

    def attend(self, q: Value, keys: Value, values: Value, bias: Value | float, options: Options) -> Value:
        """softmax(q k / sqrt(size) + bias) v, where each position sees itself and those before it."""
        options.show("attention", lambda: self.weights(q, keys, bias))
        if options.form == "fused":
            check_form("attention", "fused", q, keys)
            from pntm_np.models.attention.fused import attention_fused

            return attention_fused(q, keys, values, bias)
        return self.weights(q, keys, bias) @ values

    def weights(self, q: Value, keys: Value, bias: Value | float) -> Value:
        """The attention weights (B, H, T, past + T)."""
        scores = (q @ ad.swapaxes(keys, first=2, second=3)) * (1 / math.sqrt(q.shape[-1])) + bias
        xp, (length, seen) = ad.array_module(ad.stop_gradient(scores)), scores.shape[2:]
        causal = xp.arange(seen) <= xp.arange(seen - length, seen)[:, None]
        return ad.softmax(ad.where(xp.broadcast_to(causal, scores.shape), scores, -math.inf))

    def step(self, w: Weights, x: Value, state: Cache, options: Options) -> tuple[Value, Cache]:
        y, state = self.sequence(w, x[:, None], state, options)
        return y[:, 0], state

    def growth(self, width: int) -> int:
        return 2 * width

    def products(self, width: int, length: int) -> int:
        return length * width  # queries with keys, and weights with values, of half the positions on average

    def training_numbers(self, width: int, load: Load) -> float:
        by_pairs = load.device != "cpu" or load.steps > FIRE_LENGTH
        bias = {"fire": 70 if by_pairs else self.heads, "alibi": self.heads}.get(self.positions, 0)
        rest = 15 * width if load.form == "fused" else 20 * width + 2.7 * self.heads * load.steps
        return rest + bias * load.steps / load.rows

    def traced_numbers(self, cells: int, steps: int) -> int:
        return steps * self.heads

    def bias(self, w: Weights, q: Value, past: int) -> Value | float:
        """What is added to the scores of queries i and keys j: a number or an array (heads, T, past + T)."""
        plain, length = ad.stop_gradient(q), q.shape[2]
        xp, dtype = ad.array_module(plain), plain.dtype
        i = xp.arange(past, past + length, dtype=dtype)[:, None]
        distance = xp.maximum(i - xp.arange(past + length, dtype=dtype), 0)  # i - j; the future is masked anyway
        if self.positions == "alibi":
            slope = 2.0 ** (-8.0 / self.heads * xp.arange(1, self.heads + 1, dtype=dtype))
            return -slope[:, None, None] * distance
        if self.positions == "fire":
            limit = ad.absolute(w["L"]) * FIRE_LENGTH
            if host.is_single(plain) and past + length <= float(ad.stop_gradient(limit)):
                # max(i, limit) is the limit for every i: there are only past + T different biases
                return by_distance(ad.transpose(fire(w, xp.arange(past + length, dtype=dtype), limit)), length=length)
            return ad.transpose(fire(w, distance, ad.maximum(i, limit)), axes=(2, 0, 1))
        return 0.0


def fire(w: Weights, distance: Value, reach: Value) -> Value:
    """FIRE's f(log(|c| distance + 1) / (log(|c| reach + 1) + eps)), with the heads on a new last axis."""
    c = ad.absolute(w["c"])
    ratio = ad.log(c * distance + 1.0) / (ad.log(c * reach + 1.0) + FIRE_EPS)
    hidden = ad.maximum(ad.reshape(ratio, shape=(*ratio.shape, 1)) * w["W_1"][:, 0] + w["b_1"], 0.0)
    return linear(hidden, w["W_2"]) + w["b_2"]


@ad.differentiable
def by_distance(x: Array, *, length: int) -> tuple[Array, Pullback]:
    """x (heads, S) -> (heads, length, S): for each of the last positions i, x[i - j] at j <= i and 0 beyond."""
    xp, (heads, seen) = ad.array_module(x), x.shape
    lasts = range(seen - length, seen)
    y = xp.zeros((heads, length, seen), x.dtype)
    for t, i in enumerate(lasts):
        y[:, t, : i + 1] = x[:, i::-1]

    def pullback(g):
        d = xp.zeros(x.shape, x.dtype)
        for t, i in enumerate(lasts):
            d[:, : i + 1] += g[:, t, i::-1]
        return d

    return y, pullback


def rotate(x: Value, past: int) -> Value:
    """RoPE: rotate each pair (i, i + width / 2) of x (B, H, T, width) by the angle position * THETA^(-2 i / width)."""
    plain, (length, width) = ad.stop_gradient(x), x.shape[2:]
    xp, half = ad.array_module(plain), width // 2
    rate = THETA ** (-2.0 / width * xp.arange(half, dtype=xp.float64))
    angle = xp.arange(past, past + length, dtype=xp.float64)[:, None] * rate
    return turn(x, xp.cos(angle).astype(plain.dtype), xp.sin(angle).astype(plain.dtype))


@ad.differentiable
def turn(x: Array, cos: Array, sin: Array) -> tuple[Array, Pullback]:
    """Rotate every pair by a constant angle; the backward pass rotates by its negative."""
    xp, half = ad.array_module(x), x.shape[-1] // 2

    def turned(x: Array, sign: float) -> Array:
        y = xp.empty(x.shape, x.dtype)
        if kernels(x):
            from pntm_np.models.attention.fused import turn_pairs

            turn_pairs(xp.ascontiguousarray(x), cos, sin, x.dtype.type(sign), y)
            return y
        left, right = x[..., :half], x[..., half:]
        y[..., :half], y[..., half:] = left * cos - right * (sign * sin), left * (sign * sin) + right * cos
        return y

    return turned(x, 1.0), lambda g: (turned(g, -1.0), None, None)
