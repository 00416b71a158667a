"""Noise on the logits of shifts and gates in training: only clear decisions survive it.

A shift or a gate that is nearly, but not quite, decided works on short inputs and leaks on long ones. Under noise on
its logits it fails, so the model learns one-hot shifts and gates that are open or closed. Half of a batch has no noise,
because noise also has a mean effect, which a model that saw nothing else would rely on.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.special import ndtri

import autodiff as ad
from autodiff import Value

# The normal distribution in 65,536 parts of equal probability. Looking a number up by 16 random bits is four times as
# fast as drawing it, and loses only the tails beyond 4.3 standard deviations.
QUANTILES = ndtri((np.arange(1 << 16) + 0.5) / (1 << 16)).astype(np.float32)


class Noise:
    """Adds normal noise, drawn on the host, to rows 1, 3, .. of the logits of each call."""

    def __init__(self, deviation: float, rng: np.random.Generator, device: str) -> None:
        self.quantiles, self.rng, self.device = QUANTILES * np.float32(deviation), rng, device

    def __call__(self, logits: Value) -> Value:
        half = logits.shape[0] // 2, *logits.shape[1:]
        count = math.prod(half)
        bits = self.rng.bit_generator.random_raw(-(-count // 4)).view(np.uint16)[:count]  # four numbers of 64 bits
        noise = np.zeros(logits.shape, np.float32)
        noise[1::2] = self.quantiles[bits].reshape(half)
        return logits + ad.to_device(noise, self.device)
