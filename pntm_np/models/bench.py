"""The two models of the paper's efficiency experiment: layers on vectors, plain composition, no norm, no residual."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from pntm_np.models.initial import initial_weight
from pntm_np.models.layers import Weights, part
from pntm_np.models.mingru import MinGRU
from pntm_np.models.ntm.layer import NTM
from pntm_np.models.options import DEFAULT, Options
from pntm_np.models.pntm import PNTM

WIDTH, CELLS, CELL = 128, 512, 16


@dataclass(frozen=True)
class BenchModel:
    """Layers by name, one after the other: x (B, T, d) -> (B, T, d)."""

    layers: tuple[tuple[str, Any], ...]
    width: int = WIDTH

    @property
    def forms(self) -> tuple[str, ...]:
        return next((layer.forms for _, layer in self.layers if layer.forms), ())

    def shapes(self) -> dict[str, tuple[int, ...]]:
        return {f"{n}.{k}": v for n, layer in self.layers for k, v in layer.shapes(self.width).items()}

    def parameter_count(self) -> int:
        return sum(math.prod(shape) for shape in self.shapes().values())

    def init(self, rng: np.random.Generator, dtype: Any = np.float32) -> Weights:
        return {name: initial_weight(rng, name, shape).astype(dtype) for name, shape in self.shapes().items()}

    def initial_state(self, batch: int, memory_size: int = CELLS, *, xp: Any = np, dtype: Any = np.float32) -> Any:
        return tuple(layer.start(xp, batch, self.width, memory_size, dtype) for _, layer in self.layers)

    def run(self, params: Weights, x: Any, state: Any, options: Options = DEFAULT) -> tuple[Any, Any]:
        return self._through(params, x, state, options, "sequence")

    def step(self, params: Weights, state: Any, x: Any, options: Options = DEFAULT) -> tuple[Any, Any]:
        y, state = self._through(params, x, state, options, "step")
        return state, y

    def _through(self, params: Weights, x: Any, state: Any, options: Options, way: str) -> tuple[Any, Any]:
        after = []
        for (name, layer), before in zip(self.layers, state, strict=True):
            x, now = getattr(layer, way)(part(params, f"{name}."), x, before, options)
            after.append(now)
        return x, tuple(after)


BENCH_MODELS = {
    "bench-pntm": BenchModel((("mingru", MinGRU(3)), ("pntm", PNTM(1, CELL)))),
    "bench-ntm": BenchModel((("ntm", NTM(1, CELL, WIDTH)),)),
}
