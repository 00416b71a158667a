"""The P-NTM layer: heads write and read a memory, and the input alone determines how they move."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import autodiff as ad
from autodiff import Array, DType, Namespace, Value, plain
from pntm_np.models.layers import Params, Weights, linear
from pntm_np.models.mixer import Load, Mixer
from pntm_np.models.options import Options
from pntm_np.models.positive import positive
from pntm_np.models.shift_softmax import shift_softmax
from pntm_np.scans import HeadState, head_scan, stabilise, start_state
from pntm_np.scans.conv_shift import sequential as conv_shift
from pntm_np.scans.forms import check_form
from pntm_np.scans.memory import sequential as memory


@dataclass(frozen=True)
class PNTM(Mixer[HeadState]):
    """A mixer with ``heads`` read and as many write heads, each of which owns a share of a cell's ``cell`` numbers."""

    heads: int = 4
    cell: int = 32
    forms: ClassVar = ("sequential", "paper", "chunked", "fused")
    thresholds: ClassVar = ("tau",)
    takes_noise: ClassVar = True
    has_memory: ClassVar = True

    def __post_init__(self) -> None:
        if self.heads < 1 or self.cell < 1 or self.cell % self.heads:
            raise ValueError(f"heads = {self.heads} do not divide cell = {self.cell}; each writes an equal share of it")

    def shapes(self, width: int) -> dict[str, tuple[int, ...]]:
        h, n = self.heads, self.cell
        return {"W_r": (h, 3, width), "W_w": (h, 3, width), "W_u": (n, width), "W_m": (n, n), "W_o": (width, h * n)}

    def start(self, xp: Namespace, batch: int, width: int, memory_size: int, dtype: DType) -> HeadState:
        return start_state(xp, batch, self.heads, self.heads, memory_size, self.cell // self.heads, dtype)

    def controls(self, w: Weights, x: Value, options: Options) -> tuple[Value, Value]:
        """s^r and s^w (..., 2 H, 3) and v = g(u) (..., H, n / H) from x (..., d), by one matrix product."""
        H, before = self.heads, x.shape[:-1]
        of_shifts = [ad.reshape(w[name], shape=(3 * H, x.shape[-1])) for name in ("W_r", "W_w")]
        y = linear(x, ad.concatenate(*of_shifts, w["W_u"], axis=0))
        s = shift_softmax(options.disturbed(ad.reshape(y[..., : 6 * H], shape=(*before, 2 * H, 3))))
        s = options.rounded(s, stabilise, "tau")
        v = ad.reshape(positive(y[..., 6 * H :]), shape=(*before, H, self.cell // H))
        return s, v

    def output(self, w: Weights, reads: Value) -> Value:
        """Reads (..., R, W, n / H) -> (..., d): W_m mixes what each read head found, then W_o joins the heads."""
        H, n, width = self.heads, self.cell, w["W_o"].shape[0]
        mixing = ad.reshape(w["W_o"], shape=(width * H, n)) @ w["W_m"]  # W_m commutes with reading: join it to W_o
        found = ad.reshape(reads, shape=(*reads.shape[:-3], H * n))
        return linear(found, ad.reshape(mixing, shape=(width, H * n)))

    def sequence(self, w: Weights, x: Value, state: HeadState, options: Options) -> tuple[Value, HeadState]:
        s, v = self.controls(w, x, options)
        reads, state = head_scan(s[..., : self.heads, :], s[..., self.heads :, :], v, state, form=options.form)
        return self.output(w, reads), state

    def step(self, w: Weights, x: Value, state: HeadState, options: Options) -> tuple[Value, HeadState]:
        s, v = self.controls(w, x, options)
        args = (s, v, *state)
        if options.form == "fused" and plain(args):
            check_form("P-NTM", "fused", s)
            from pntm_np.scans.heads.fused import heads_step

            reads, *moved = heads_step(*args)
        else:
            M = memory.write(state.memory, state.write_address, v)
            reads = memory.read(state.read_address, M)
            q = conv_shift.step(state.read_address, s[:, : self.heads])
            w_next = conv_shift.step(state.write_address, s[:, self.heads :])
            moved = [q, w_next, M]
        after = HeadState(*moved)
        options.show("read address", lambda: state.read_address)  # a step ends with the shift
        options.show("write address", lambda: state.write_address)
        options.show("memory", lambda: after.memory)
        options.show("shifts", lambda: s)
        options.show("values", lambda: v)
        options.show("reads", lambda: reads)
        return self.output(w, reads), after

    def training_numbers(self, width: int, load: Load) -> float:
        addresses = {"paper": 8 * self.cell, "fused": self.heads}.get(load.form, 4 * self.heads)
        return 14 * width + addresses * load.cells

    def traced_numbers(self, cells: int, steps: int) -> int:
        return cells * (self.cell + 2 * self.heads)

    def without_reads(self, w: Params, head: int) -> Params:
        W_o = w["W_o"].copy()
        W_o[:, head * self.cell : (head + 1) * self.cell] = 0
        return {"W_o": W_o}

    def read_mixing(self, w: Params, head: int) -> Array:
        return w["W_o"][:, head * self.cell : (head + 1) * self.cell] @ w["W_m"]
