"""Noise on decisions in training: only those that are far from their alternatives survive it.

A shift or a gate that is nearly, but not quite, decided does its task on short inputs and leaks on long ones. Under
noise on its logits it does not do its task: what the machine learns is to be one-hot, open or closed. The other half of
a batch is left alone, for noise also has a mean effect, which a machine that met nothing else would count on.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.special import ndtri

import autodiff as ad
from autodiff import Value

# The normal distribution in 65,536 parts of equal probability. To look a number up by 16 random bits is four times as
# fast as to draw it, and what is lost is what lies beyond 4.3 deviations.
QUANTILES = ndtri((np.arange(1 << 16) + 0.5) / (1 << 16)).astype(np.float32)


class Noise:
    """Disturbs rows 1, 3, .. of the logits that it is given, one after the other: normal numbers, drawn on the host."""

    def __init__(self, deviation: float, rng: np.random.Generator, device: str) -> None:
        self.quantiles, self.rng, self.device = QUANTILES * np.float32(deviation), rng, device

    def __call__(self, logits: Value) -> Value:
        half = logits.shape[0] // 2, *logits.shape[1:]
        count = math.prod(half)
        bits = self.rng.bit_generator.random_raw(-(-count // 4)).view(np.uint16)[:count]  # four numbers of 64 bits
        noise = np.zeros(logits.shape, np.float32)
        noise[1::2] = self.quantiles[bits].reshape(half)
        return logits + ad.to_device(noise, self.device)
