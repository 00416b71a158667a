"""Initial weights. All random numbers are drawn on the host."""

from __future__ import annotations

import math

import numpy as np

from pntm_np.models.layers import Params

TRUNCATED = 0.87962566103423978  # standard deviation of a standard normal distribution truncated to +-2
STARTS = ("uniform", "flax")


def initial_weight(rng: np.random.Generator, name: str, shape: tuple[int, ...], start: str = "uniform") -> np.ndarray:
    """Norms start at scale 1 and bias 0, biases at 0, FIRE's c and L as in the paper. The paper does not give the rest:

    uniform: linear weights uniform in +-1/sqrt(fan_in), the embedding normal with variance 1.
    flax: the defaults of Flax, linear weights truncated normal with variance 1 / fan_in, the embedding normal with
    variance 1 / width.
    """
    last = name.rsplit(".", 1)[-1]
    if name == "embed.weight":
        return rng.standard_normal(shape) / (math.sqrt(shape[-1]) if start == "flax" else 1)
    if last == "scale" or last == "L":
        return np.ones(shape)
    if last == "c":
        return np.full(shape, 0.1)
    if last == "bias" or last == "b" or last.startswith("b_"):
        return np.zeros(shape)
    drawn = _truncated_normal(rng, shape) if start == "flax" else rng.uniform(-1, 1, shape)
    return drawn / math.sqrt(shape[-1])


def _truncated_normal(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Normal numbers within two standard deviations, scaled to variance 1."""
    drawn = rng.standard_normal(shape)
    while (beyond := np.abs(drawn) > 2).any():
        drawn[beyond] = rng.standard_normal(int(beyond.sum()))
    return drawn / TRUNCATED


def decide_heads(weights: Params, gain: float) -> Params:
    """Multiply the shift weights of the second half of every P-NTM layer's heads by ``gain``.

    Heads that start with equal shift probabilities blur over the whole memory within a few time steps and then get
    little gradient; heads that start nearly one-hot stay sharp but change slowly. So there are some of each.
    """
    return {name: _decided(w, gain) if name.endswith((".W_r", ".W_w")) else w for name, w in weights.items()}


def _decided(w: np.ndarray, gain: float) -> np.ndarray:
    heads = len(w)
    factors = np.where(np.arange(heads) < (heads + 1) // 2, 1, gain).astype(w.dtype)
    return w * factors[:, None, None]
