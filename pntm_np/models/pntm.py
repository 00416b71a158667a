"""The P-NTM layer: heads that are moved by the input alone over a memory that they write and read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import autodiff as ad
from pntm_np.layers import Weights, linear, mean_entropy, positive
from pntm_np.models.options import Options
from pntm_np.scans import HeadState, head_scan, stabilise, start_state
from pntm_np.scans.conv_shift import sequential as conv_shift
from pntm_np.scans.memory import sequential as memory


@dataclass(frozen=True)
class PNTM:
    """A mixer of ``heads`` read and as many write heads over cells of ``cell`` numbers, a share for each write head."""

    heads: int = 4
    cell: int = 32
    forms = ("sequential", "paper", "chunked", "fused")
    measured = "shift_entropy"

    def __post_init__(self) -> None:
        if self.heads < 1 or self.cell < 1 or self.cell % self.heads:
            raise ValueError(f"heads = {self.heads} do not divide cell = {self.cell}; each writes an equal share of it")

    def shapes(self, width: int) -> dict[str, tuple[int, ...]]:
        h, n = self.heads, self.cell
        return {
            "W_r": (h, 3, width),
            "W_w": (h, 3, width),
            "W_u": (n, width),
            "W_m": (n, n),
            "W_o": (width, h * n),
        }

    def start(self, xp: Any, batch: int, width: int, memory_size: int, dtype: Any) -> HeadState:
        return start_state(xp, batch, self.heads, self.heads, memory_size, self.cell // self.heads, dtype)

    def controls(self, w: Weights, x: Any, options: Options) -> tuple[Any, Any, Any]:
        """s^r, s^w (..., H, 3) and v = g(u) (..., H, n / H), of x (..., d)."""

        def heads(y: Any, size: int) -> Any:
            return ad.reshape(y, shape=(*y.shape[:-1], self.heads, size))

        def shifts(W: Any) -> Any:
            flat = ad.reshape(W, shape=(3 * self.heads, W.shape[-1]))
            s = ad.softmax(heads(linear(x, flat), 3))
            options.measure("shift_entropy", lambda: mean_entropy(s))
            return stabilise(s, tau=options.tau) if options.tau else s

        v = heads(positive(linear(x, w["W_u"])), self.cell // self.heads)
        return shifts(w["W_r"]), shifts(w["W_w"]), v

    def output(self, w: Weights, reads: Any) -> Any:
        """Mix what every read head found, after reading: reads (..., R, W, n / H) -> (..., d)."""
        reads = ad.reshape(reads, shape=(*reads.shape[:-2], self.cell))  # W and n / H make a cell
        mixed = linear(reads, w["W_m"])  # W_m commutes with reading
        return linear(ad.reshape(mixed, shape=(*mixed.shape[:-2], self.heads * self.cell)), w["W_o"])

    def sequence(self, w: Weights, x: Any, state: HeadState, options: Options) -> tuple[Any, HeadState]:
        s_r, s_w, v = self.controls(w, x, options)
        reads, state = head_scan(s_r, s_w, v, state, form=options.form)
        return self.output(w, reads), state

    def step(self, w: Weights, x: Any, state: HeadState, options: Options) -> tuple[Any, HeadState]:
        s_r, s_w, v = self.controls(w, x, options)
        M = memory.write(state.memory, state.write_address, v)
        reads = memory.read(state.read_address, M)
        moved = conv_shift.step(state.read_address, s_r), conv_shift.step(state.write_address, s_w)
        return self.output(w, reads), HeadState(*moved, M)
