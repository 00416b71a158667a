"""Inputs for the three recurrences: soft, exact zeros and ones, one-hot, all equal, saturated."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

import autodiff as ad
from pntm_np.scans import conv_shift_scan, gated_scan, memory_scan

LENGTHS = (1, 2, 3, 5, 7, 8, 31, 32, 33, 63, 64, 65, 127, 300, 1000, 4096)
KINDS = ("soft", "firm", "one-hot", "equal", "saturated", "mixed")
SCANS = {"gated": gated_scan, "conv_shift": conv_shift_scan, "memory": memory_scan}
POSITIVE = {"gated": (1, 2), "memory": (2, 3), "conv_shift": ()}  # arguments that the paper form takes logarithms of


def distribution(rng: np.random.Generator, kind: str, shape: tuple[int, ...]) -> np.ndarray:
    """Rows along the last axis that sum to one."""
    n = shape[-1]
    onehot = np.eye(n)[rng.integers(0, n, shape[:-1])]
    soft = rng.dirichlet(np.ones(n), shape[:-1]).reshape(shape)
    if kind == "soft":
        return soft
    if kind == "firm":  # one entry above 0.6: no bin of a shift's spectrum comes near 0
        return 0.6 * onehot + 0.4 * soft
    if kind == "one-hot":
        return onehot
    if kind == "equal":
        return np.full(shape, 1 / n)
    if kind == "saturated":  # nearly one-hot, as a trained softmax gives
        return (1 - 1e-7) * onehot + 1e-7 * soft
    choice = rng.integers(0, 3, shape[:-1])[..., None]
    return np.where(choice == 0, soft, np.where(choice == 1, onehot, 0.5 * onehot + 0.5 * np.roll(onehot, 1, -1)))


def gate(rng: np.random.Generator, kind: str, shape: tuple[int, ...]) -> np.ndarray:
    soft = rng.uniform(0, 1, shape)
    return {
        "soft": soft,
        "firm": 0.2 + 0.6 * soft,
        "one-hot": rng.integers(0, 2, shape).astype(float),
        "equal": np.full(shape, 0.5),
        "saturated": 1 / (1 + np.exp(-40 * (soft - 0.5))),
        "mixed": np.where(rng.uniform(size=shape) < 0.5, soft, rng.integers(0, 2, shape)),
    }[kind]


@dataclass(frozen=True)
class Case:
    """What a case is drawn from; equal cases have equal inputs."""

    scan: str
    length: int
    kind: str
    seed: int
    batch: int = 2
    heads: int = 1  # trailing size of gated, heads of conv_shift, write heads of memory
    readers: int = 1
    cells: int = 5
    width: int = 2

    def inputs(self, dtype: Any = np.float64) -> list[np.ndarray]:
        rng = np.random.default_rng([self.seed, self.length, self.cells])
        b, t, h, m, n = self.batch, self.length, self.heads, self.cells, self.width
        positive = lambda *shape: rng.uniform(0.1, 2.0, shape)  # noqa: E731
        if self.scan == "gated":
            drawn = [gate(rng, self.kind, (b, t, h, n)), positive(b, t, h, n), positive(b, h, n)]
        elif self.scan == "conv_shift":
            drawn = [distribution(rng, self.kind, (b, t, h, 3)), distribution(rng, self.kind, (b, h, m))]
        else:
            q, w = (distribution(rng, self.kind, (b, t, heads, m)) for heads in (self.readers, h))
            drawn = [q, w, positive(b, t, h, n), positive(b, h, m, n)]
        # rounded to float32 first, so that both precisions are given the same numbers
        return [x.astype(np.float32).astype(dtype) for x in drawn]


def run(scan: str, form: str, inputs: list, cotangents: list | None = None, device: str = "cpu", **static) -> list:
    """Values, final state and the cotangent of every input, as NumPy arrays."""
    placed = [ad.to_device(x, device) for x in inputs]
    value, pullback = ad.vjp(lambda *a: SCANS[scan](*a, form=form, **static), *placed)
    if cotangents is None:
        cotangents = draw_cotangents(value, inputs[0].dtype)
    found = pullback(tuple(ad.to_device(g.astype(value[0].dtype), device) for g in cotangents))
    return [ad.to_host(x) for x in (*value, *found)]


def draw_cotangents(value: tuple, dtype: Any) -> list[np.ndarray]:
    rng = np.random.default_rng(99)
    return [rng.standard_normal(y.shape).astype(np.float32).astype(dtype) for y in value]


def terms(scan: str, inputs: list, cotangents: list) -> list[np.ndarray]:
    """What the cotangents of the inputs are made of: what they would be if no output's cotangent had a sign."""
    found = run(scan, "sequential", inputs, [np.abs(g) for g in cotangents])
    return [np.abs(x) for x in found[-len(inputs) :]]


def deviation(found: np.ndarray, expected: np.ndarray, scale: float = 0.0) -> float:
    """The largest deviation anywhere over the largest magnitude in the array, or ``scale``: one bad position shows."""
    assert found.shape == expected.shape
    if found.size == 0:
        return 0.0
    if not np.isfinite(found).all():
        return np.inf
    scale = max(np.abs(expected).max(), scale)
    return float(np.abs(found - expected).max() / (scale if scale > 0 else 1.0))
