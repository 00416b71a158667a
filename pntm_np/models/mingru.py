"""minGRU: gates and candidates depend on the input alone, so that the states are one gated scan."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import autodiff as ad
from autodiff import DType, Namespace, Value
from pntm_np.models.layers import Weights, closed, linear
from pntm_np.models.mixer import Load, Mixer
from pntm_np.models.options import Options
from pntm_np.models.positive import positive
from pntm_np.scans import gated_scan
from pntm_np.scans.gated import sequential


@dataclass(frozen=True)
class MinGRU(Mixer[Value]):
    """A mixer: z = sigmoid(W_z x), c = g(W_h x), h_t = (1 - z_t) h_{t-1} + z_t c_t, y = W_out h."""

    expansion: int = 2
    forms: ClassVar = ("sequential", "paper", "chunked", "fused")
    thresholds: ClassVar = ("gate_tau",)
    takes_noise: ClassVar = True

    def shapes(self, width: int) -> dict[str, tuple[int, ...]]:
        wide = self.expansion * width
        return {"W_z": (wide, width), "W_h": (wide, width), "W_out": (width, wide)}

    def start(self, xp: Namespace, batch: int, width: int, memory_size: int, dtype: DType) -> Value:
        return xp.zeros((batch, self.expansion * width), dtype)

    def _controls(self, w: Weights, x: Value, options: Options) -> tuple[Value, Value]:
        z = ad.sigmoid(options.disturbed(linear(x, w["W_z"])))
        z = options.rounded(z, closed, "gate_tau")
        return z, positive(linear(x, w["W_h"]))

    def sequence(self, w: Weights, x: Value, state: Value, options: Options) -> tuple[Value, Value]:
        z, c = self._controls(w, x, options)
        h, state = gated_scan(z, c, state, form=options.form)
        return linear(h, w["W_out"]), state

    def step(self, w: Weights, x: Value, state: Value, options: Options) -> tuple[Value, Value]:
        z, c = self._controls(w, x, options)
        state = sequential.step(state, z, c)
        options.show("state minGRU", lambda: state)
        return linear(state, w["W_out"]), state

    def training_numbers(self, width: int, load: Load) -> float:
        return (10 + 5 * self.expansion) * width
