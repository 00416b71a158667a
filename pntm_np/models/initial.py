"""Where training starts. All randomness is drawn on the host."""

from __future__ import annotations

import math

import numpy as np


def initial_weight(rng: np.random.Generator, name: str, shape: tuple[int, ...]) -> np.ndarray:
    """Linear weights uniform in +-1/sqrt(fan_in), embedding N(0, 1), norms 1 and 0, biases 0, FIRE's c and L."""
    last = name.rsplit(".", 1)[-1]
    if name == "embed.weight":
        return rng.standard_normal(shape)
    if last == "scale" or last == "L":
        return np.ones(shape)
    if last == "c":
        return np.full(shape, 0.1)
    if last == "bias" or last == "b" or last.startswith("b_"):
        return np.zeros(shape)
    return rng.uniform(-1, 1, shape) / math.sqrt(shape[-1])
