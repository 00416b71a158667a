"""One training step: the gradient of a batch, cut into shards, and the update."""

from __future__ import annotations

import itertools
from typing import Any, NamedTuple

import numpy as np

import autodiff as ad
from autodiff import backend
from autodiff.backend import Array
from pntm_np.layers import Weights
from pntm_np.models import Architecture, Options
from pntm_np.training.config import Config
from pntm_np.training.flat import join, views
from pntm_np.training.optimizer import Moments, adam
from pntm_np.workers import Workers
from tasks import Batch

SHARD, MOST_SHARDS = 16, 4  # rows of a shard at least; smaller ones cost more than further threads save
LARGEST = 1e18  # of a gradient: the square of a larger one has no place in float32


class Report(NamedTuple):
    loss: float  # mean cross-entropy of the answers' tokens
    gradient_norm: float  # infinity norm
    objective: float  # what is minimised: the loss, and sharpening


def shard_cuts(rows: int, device: str) -> list[int]:
    """Where a batch is cut. It depends on the batch and the device, so that bits do not depend on the threads."""
    count = max(1, min(rows // SHARD, MOST_SHARDS)) if device == "cpu" else 1
    return [rows * k // count for k in range(count + 1)]


def shards_of(batch: Batch, device: str) -> list[Batch]:
    cuts = shard_cuts(len(batch.tokens), device)
    return [Batch(*(part[a:b] for part in batch)) for a, b in itertools.pairwise(cuts)]


def objective(
    params: Weights,
    architecture: Architecture,
    config: Config,
    batch: Batch,
    total: int,
    share: float,
    step: int = 1,
    end: int = 0,
) -> tuple[Any, Any]:
    """This shard's part of the batch's mean: the loss over ``total`` tokens, measures by its ``share`` of the rows.

    Measures are means over all positions, those after the end of a short answer included.
    """
    weights = config.sharpening(step)
    measures: dict[str, list] = {name: [] for name in weights}
    options = Options(config.form, *config.thresholds(step, end), measures)
    logits = architecture.forward(params, batch.tokens, config.memory_size, options)
    loss = value = ad.softmax_cross_entropy(logits, batch.targets, batch.mask, total=total)
    for name, found in measures.items():
        for measure in found:
            value = value + measure * (weights[name] * share / len(found))
    return value, loss


class Learner:
    """Parameters and moments on their device, and the step that changes them."""

    def __init__(self, config: Config, params: Array, moments: Moments, workers: Workers) -> None:
        self.config, self.workers = config, workers
        self.architecture = config.architecture()
        self.shapes = self.architecture.shapes()
        self.xp = backend.load(config.backend).xp
        self.flat = ad.to_device(params, config.backend)
        self.moments = Moments(*(ad.to_device(x, config.backend) for x in moments))
        self.params = views(self.flat, self.shapes)
        self.gradient: Array | None = None

    def step(self, batch: Batch, number: int, end: int = 0) -> Report:
        """Update number ``number``, counted from 1; none if loss or gradient is not finite.

        ``end`` is the last one, if that is not the configuration's.
        """
        rows, total = len(batch.tokens), int(np.sum(batch.mask))
        with_gradient = ad.value_and_grad(objective, has_aux=True)

        def one(shard: Batch) -> tuple[Any, Any, Any]:
            moved = Batch(*(ad.to_device(part, self.config.backend) for part in shard))
            share = len(shard.tokens) / rows
            args = (self.architecture, self.config, moved, total, share, number, end)
            (value, loss), gradient = with_gradient(self.params, *args)
            return value, loss, join(gradient, self.shapes, self.xp)

        xp = self.xp
        parts = self.workers.map(one, shards_of(batch, self.config.backend))
        value, loss, gradient = next(parts)
        for part in parts:  # in their order, whichever is ready first
            value, loss = value + part[0], loss + part[1]
            gradient += part[2]
        finite = xp.isfinite(value) & xp.all(xp.absolute(gradient) < LARGEST)
        norm = xp.where(finite, xp.max(xp.absolute(gradient)), xp.nan)
        lr, apply = self.config.learning_rate(number, end), finite.astype(self.flat.dtype)
        with np.errstate(all="ignore"):  # what is not finite is not applied
            clipped = gradient * xp.minimum(self.config.clip / norm, 1) if self.config.clip else gradient
            adam(self.flat, clipped, self.moments, number, lr, apply)
        self.gradient = gradient
        return Report(*(float(x) for x in ad.to_host(xp.stack([loss, norm.astype(loss.dtype), value]))))

    def prepare(self) -> None:
        """Whatever a first step needs once: compiled kernels are loaded, or compiled and kept for next time."""
        tokens = np.zeros((1, 2), np.int64)
        moved = (ad.to_device(x, self.config.backend) for x in (tokens, tokens, tokens == 0))
        ad.value_and_grad(objective, has_aux=True)(self.params, self.architecture, self.config, Batch(*moved), 2, 1.0)

    def not_finite(self) -> str:
        """The last parameter whose gradient is not finite, or none: from there it spreads to those before it."""
        gradients = views(ad.to_host(self.gradient), self.shapes)
        return next((k for k, g in reversed(gradients.items()) if not np.all(np.abs(g) < LARGEST)), "")
