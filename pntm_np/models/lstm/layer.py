"""One LSTM layer as a mixer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from autodiff import DType, Namespace, Value
from pntm_np.models.layers import Weights, linear
from pntm_np.models.lstm.sequential import lstm_cell, lstm_scan
from pntm_np.models.mixer import Load, Mixer
from pntm_np.models.options import Options
from pntm_np.scans.forms import check_form

State = tuple[Value, Value]  # h and c


@dataclass(frozen=True)
class LSTM(Mixer[State]):
    forms: ClassVar = ("sequential", "fused")
    prepares: ClassVar = ("W_x",)

    def shapes(self, width: int) -> dict[str, tuple[int, ...]]:
        return {"W_x": (4 * width, width), "W_h": (4 * width, width), "b": (4 * width,)}

    def start(self, xp: Namespace, batch: int, width: int, memory_size: int, dtype: DType) -> State:
        rest = xp.zeros((batch, width), dtype)
        return rest, rest

    def prepare(self, w: Weights, x: Value) -> Value:
        """W_x x_t + b, (..., 4 h)."""
        return linear(x, w["W_x"]) + w["b"]

    def sequence(self, w: Weights, x: Value, state: State, options: Options) -> tuple[Value, State]:
        scan = lstm_scan
        if options.form == "fused":
            check_form("LSTM", "fused", x, *state)
            from pntm_np.models.lstm.fused import lstm_scan_fused as scan
        states, h, c = scan(x, w["W_h"], *state)
        return states, (h, c)

    def step(self, w: Weights, x: Value, state: State, options: Options) -> tuple[Value, State]:
        h, c = lstm_cell(x + linear(state[0], w["W_h"]), state[1])
        options.show("state LSTM h", lambda: h)
        options.show("state LSTM c", lambda: c)
        return h, (h, c)

    def training_numbers(self, width: int, load: Load) -> float:
        return 10 * width
