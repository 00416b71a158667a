"""One training step: the gradient of a batch, computed in shards, and the update."""

from __future__ import annotations

import itertools
from typing import NamedTuple

import numpy as np

import autodiff as ad
from autodiff import Array, Pair, Value, backend
from pntm_np.models import Architecture, Options
from pntm_np.models.layers import Weights
from pntm_np.runtime.randomness import NOISE, ROUNDING, generator
from pntm_np.runtime.workers import Workers
from pntm_np.training.config import Config
from pntm_np.training.noise import Noise
from pntm_np.training.optimizer import Moments, adam, join, views
from pntm_np.training.rounding import row_thresholds
from pntm_np.training.schedule import Pace
from tasks import Batch

# Rows of a shard: at least 16, and 32 where that makes more than four of them. On two threads, with batches of 128,
# shards of 16 instead of 32 rows cost 5 to 8 % of a step of P-NTM, and 11 to 13 % of one of NTM.
FEW, MANY = 16, 32
LARGEST = 1e18  # bound on a gradient: the square of a larger one overflows float32


class Report(NamedTuple):
    loss: float  # mean cross-entropy of the answers' tokens
    gradient_norm: float  # infinity norm


def shard_cuts(rows: int, device: str) -> list[int]:
    """Where a batch is cut: it depends on batch and device only, so that bits do not depend on the threads."""
    count = max(1, min(rows // FEW, 4), rows // MANY) if device == "cpu" else 1
    return [rows * k // count for k in range(count + 1)]


def shards_of(batch: Batch, device: str) -> list[Batch]:
    cuts = shard_cuts(len(batch.tokens), device)
    return [Batch(*(part[a:b] for part in batch)) for a, b in itertools.pairwise(cuts)]


def loss(params: Weights, architecture: Architecture, batch: Batch, total: int, cells: int, options: Options) -> Value:
    """The shard's contribution to the batch's mean loss over ``total`` tokens."""
    logits = architecture.forward(params, batch.tokens, cells, options)
    return ad.softmax_cross_entropy(logits, batch.targets, batch.mask, total=total)


class Learner:
    """Parameters and moments on their device, and the training step that updates them."""

    def __init__(self, config: Config, params: Array, moments: Moments, workers: Workers) -> None:
        self.config, self.workers = config, workers
        self.architecture = config.architecture()
        self.shapes = self.architecture.shapes()
        self.xp = backend.load(config.backend).xp
        self.flat = ad.to_device(params, config.backend)
        self.moments = Moments(*(ad.to_device(x, config.backend) for x in moments))
        self.params = views(self.flat, self.shapes)
        self.gradient: Array | None = None

    def step(self, batch: Batch, number: int, pace: Pace, began: int = 0) -> Report:
        """Make update ``number``, counted from 1; the parameters stay as they are if loss or gradient is not finite.

        ``began`` is the number of the last step before the parameters were drawn.
        """
        config, xp, total = self.config, self.xp, int(np.sum(batch.mask))

        def one(numbered: tuple[int, Batch]) -> Pair:
            place, shard = numbered
            moved = Batch(*(ad.to_device(part, config.backend) for part in shard))
            noise = None
            if pace.noise:
                noise = Noise(pace.noise, generator(NOISE, config.seed, number, place), config.backend)
            blur = None
            if pace.blur:
                shares = np.zeros(len(shard.tokens), np.float32)
                shares[1::2] = pace.blur
                blur = ad.to_device(shares, config.backend)
            rounding = None
            if pace.rounding:
                rng = generator(ROUNDING, config.seed, number, place)
                rounding = row_thresholds(rng, len(shard.tokens), *pace.rounding, config.backend)
            options = Options(config.form, noise=noise, blur=blur, rounding=rounding)
            args = (self.architecture, moved, total, pace.cells, options)
            value, gradient = ad.value_and_grad(loss)(self.params, *args)
            return value, join(gradient, self.shapes, xp)

        parts = self.workers.map(one, enumerate(shards_of(batch, config.backend)))
        value, gradient = next(parts)
        for part in parts:  # in the order of the shards, whichever is ready first
            value = value + part[0]
            gradient += part[1]
        finite = xp.isfinite(value) & xp.all(xp.absolute(gradient) < LARGEST)
        norm = xp.where(finite, xp.max(xp.absolute(gradient)), xp.nan)
        with np.errstate(all="ignore"):  # an update that is not finite is not applied
            clipped = gradient * xp.minimum(config.clip / norm, 1) if config.clip else gradient
            adam(self.flat, clipped, self.moments, number - began, pace.lr, finite.astype(self.flat.dtype))
        self.gradient = gradient
        return Report(*(float(x) for x in ad.to_host(xp.stack([value, norm.astype(value.dtype)]))))

    def restart(self, params: np.ndarray) -> None:
        """Continue from other parameters with fresh moments."""
        self.flat[...] = ad.to_device(params, self.config.backend)
        for moment in self.moments:
            moment[...] = 0

    def prepare(self) -> None:
        """Load the compiled kernels, or compile and cache them, ahead of the first step."""
        tokens = np.zeros((1, 2), np.int64)
        moved = (ad.to_device(x, self.config.backend) for x in (tokens, tokens, tokens == 0))
        ad.value_and_grad(loss)(self.params, self.architecture, Batch(*moved), 2, 2, Options(self.config.form))

    def not_finite(self) -> str:
        """The last parameter whose gradient is not finite, or "": from there the damage spreads to those before it."""
        gradients = views(ad.to_host(self.gradient), self.shapes)
        return next((k for k, g in reversed(gradients.items()) if not np.all(np.abs(g) < LARGEST)), "")
