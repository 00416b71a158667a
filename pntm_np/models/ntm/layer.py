"""The NTM layer in the paper's stable version: an LSTM controller, content and location addressing, erase and add.

In a time step, the controller sees the input and the previous reads, and its state h_t controls all heads. Content
addressing compares keys with the memory before the write; then the write heads write, and the read heads read the new
memory. Addressing and writing are ops with their own pullbacks, since they take most of the time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import autodiff as ad
from autodiff import Array, DType, Namespace, Pullback, Value, plain
from pntm_np.models.layers import Params, Weights, linear
from pntm_np.models.lstm.sequential import lstm_cell
from pntm_np.models.mixer import Load, Mixer
from pntm_np.models.ntm.bounds import LOG_FLOOR, NORM_FLOOR, STEEPEST
from pntm_np.models.options import DEFAULT, Options
from pntm_np.models.shift_softmax import shift_softmax
from pntm_np.scans.conv_shift.sequential import step as shift
from pntm_np.scans.conv_shift.sequential import step_back as shift_back
from pntm_np.scans.forms import check_form

START = 1e-6  # initial value of every number in the memory
SHARP = 1e6  # factor for the logits of shifts that makes their softmax one-hot, unless two are equal


class NTMState(NamedTuple):
    h: Value  # (B, c)
    c: Value  # (B, c)
    read_address: Value  # (B, H, m)
    write_address: Value  # (B, H, m)
    memory: Value  # (B, m, n)
    read: Value  # (B, H n): r_{t-1}


class Controls(NamedTuple):
    """The controls of all heads, with read heads first."""

    key: Value  # (B, 2 H, n)
    beta: Value  # (B, 2 H, 1): key strength
    gate: Value  # (B, 2 H, 1): content addressing (1) or the previous address (0)
    shift: Value  # (B, 2 H, 3)
    gamma: Value  # (B, 2 H, 1): sharpening
    add: Value  # (B, H, n)
    erase: Value  # (B, H, n)


def floored_norm(xp: Namespace, x: Value) -> tuple[Value, Value]:
    """max(|x|, floor) along the last axis, and its gradient: x / |x|, or 0 at the floor."""
    length = xp.sqrt(xp.sum(x * x, axis=-1))
    floored = xp.maximum(length, NORM_FLOOR)
    return floored, xp.where((length > NORM_FLOOR)[..., None], x / floored[..., None], 0.0)


@ad.differentiable
def address(key: Array, beta: Array, gate: Array, s: Array, gamma: Array, a: Array, M: Array) -> tuple[Array, Pullback]:
    """Addresses (B, H, m) of all heads from their controls, their previous addresses a and the memory M (B, m, n).

    key (B, H, n), s (B, H, 3), beta, gate and gamma (B, H, 1).
    """
    xp = ad.array_module(key, M)
    beta, gamma = xp.minimum(beta, STEEPEST), xp.minimum(gamma, STEEPEST)
    key_norm, key_slope = floored_norm(xp, key)
    cell_norm, cell_slope = floored_norm(xp, M)
    norms = key_norm[..., None] * cell_norm[:, None]
    similarity = key @ M.swapaxes(1, 2) / norms  # K(k, M_i)
    content, content_pullback = ad.vjp(ad.softmax, beta * similarity)  # a^c
    mixed = (1 - gate) * a + gate * content  # a^g
    moved = shift(mixed, s)  # a^s
    logs = xp.log(moved + LOG_FLOOR)
    sharp, sharp_pullback = ad.vjp(ad.softmax, gamma * logs)  # formulation (b)

    def pullback(g):
        (d_scaled,) = sharp_pullback(g)
        d_gamma = xp.where(gamma >= STEEPEST, 0, xp.sum(d_scaled * logs, axis=-1, keepdims=True))
        d_moved = gamma * d_scaled / (moved + LOG_FLOOR)
        d_mixed, d_s = shift_back(mixed, s, d_moved)
        d_gate = xp.sum(d_mixed * (content - a), axis=-1, keepdims=True)
        (d_logits,) = content_pullback(gate * d_mixed)
        d_beta = xp.where(beta >= STEEPEST, 0, xp.sum(d_logits * similarity, axis=-1, keepdims=True))
        d_similarity = beta * d_logits
        d_dot, d_norms = d_similarity / norms, -d_similarity * similarity / norms
        d_key_norm = xp.sum(d_norms * cell_norm[:, None], axis=-1)
        d_cell_norm = xp.sum(d_norms * key_norm[..., None], axis=1)
        d_key = d_dot @ M + d_key_norm[..., None] * key_slope
        d_M = d_dot.swapaxes(1, 2) @ key + d_cell_norm[..., None] * cell_slope
        return d_key, d_beta, d_gate, d_s, d_gamma, (1 - gate) * d_mixed, d_M

    return sharp, pullback


@ad.differentiable
def write(M: Array, a: Array, erase: Array, add: Array) -> tuple[Array, Pullback]:
    """M (B, m, n) after all heads have erased and then added: a (B, H, m), erase and add (B, H, n)."""
    xp = ad.array_module(M, a, erase, add)
    factors = 1 - a[..., None] * erase[:, :, None]  # B, H, m, n
    before = xp.ones_like(factors)  # the product over all earlier heads
    for h in range(1, a.shape[1]):
        before[:, h] = before[:, h - 1] * factors[:, h - 1]
    kept = before[:, -1] * factors[:, -1]

    def pullback(g):
        after, d_factors = g * M, xp.empty_like(factors)  # after: times the product over all later heads
        for h in reversed(range(a.shape[1])):
            d_factors[:, h] = before[:, h] * after
            after = after * factors[:, h]
        d_a = (g[:, None] @ add[..., None])[..., 0] - (d_factors @ erase[..., None])[..., 0]
        d_erase = -(a[..., None, :] @ d_factors)[..., 0, :]
        return kept * g, d_a, d_erase, a @ g

    return kept * M + a.swapaxes(1, 2) @ add, pullback


@dataclass(frozen=True)
class NTM(Mixer[NTMState]):
    """A mixer: ``heads`` read and as many write heads, ``cell`` numbers per cell, ``controller`` LSTM units."""

    heads: int = 4
    cell: int = 32
    controller: int = 104
    forms: ClassVar = ("sequential", "fused")
    takes_noise: ClassVar = True
    sharpens: ClassVar = True
    has_memory: ClassVar = True
    moves_first: ClassVar = True
    decoding_copies: ClassVar = 10.5

    def sizes(self) -> dict[str, int]:
        return {"heads": self.heads, "cell": self.cell}  # in every model the controller is as wide as its input

    def shapes(self, width: int) -> dict[str, tuple[int, ...]]:
        H, n, c = self.heads, self.cell, self.controller
        shapes: dict[str, tuple[int, ...]] = {
            "controller.W_x": (4 * c, width + H * n),
            "controller.W_h": (4 * c, c),
            "controller.b": (4 * c,),
        }
        addressing = {"k": H * n, "beta": H, "g": H, "s": 3 * H, "gamma": H}
        for side, controls in (("read", addressing), ("write", addressing | {"u": H * n, "d": H * n})):
            for name, rows in controls.items():
                shapes |= {f"{side}.W_{name}": (rows, c), f"{side}.b_{name}": (rows,)}
        return shapes | {"W_oh": (width, c), "W_or": (width, H * n), "b_o": (width,)}

    def start(self, xp: Namespace, batch: int, width: int, memory_size: int, dtype: DType) -> NTMState:
        first = xp.zeros((batch, self.heads, memory_size), dtype)
        first[..., 0] = 1
        rest = xp.zeros((batch, self.controller), dtype)
        memory = xp.full((batch, memory_size, self.cell), START, dtype)
        return NTMState(rest, rest, first, first, memory, xp.zeros((batch, self.heads * self.cell), dtype))

    def _prepared(self, w: Weights, width: int) -> tuple[Value, ...]:
        """Weights joined so that a time step has two matrix products: with [r ; h], and for all heads' controls."""
        recurrent = ad.concatenate(w["controller.W_x"][:, width:], w["controller.W_h"], axis=1)
        names = [f"{side}.{{}}_{name}" for name in ("k", "beta", "g", "s", "gamma") for side in ("read", "write")]
        names += ["write.{}_u", "write.{}_d"]
        return recurrent, *(ad.concatenate(*(w[n.format(kind)] for n in names), axis=0) for kind in "Wb")

    def controls(self, w: Weights, width: int, h: Value) -> Controls:
        """The heads' controls, given the controller's state h_t; ``width`` is the width of the layer's input."""
        _, W_heads, b_heads = self._prepared(w, width)
        return self._controls(W_heads, b_heads, h, DEFAULT)

    def _controls(
        self, W_heads: Value, b_heads: Value, h: Value, options: Options, noise: Value | float = 0.0
    ) -> Controls:
        H, n = self.heads, self.cell
        controls, place = linear(h, W_heads) + (b_heads + noise), 0

        def take(rows: int, size: int) -> Value:
            nonlocal place
            taken = controls[:, place : place + rows * size]
            place += rows * size
            return ad.reshape(taken, shape=(taken.shape[0], rows, size))

        key, beta, gate = ad.tanh(take(2 * H, n)), ad.softplus(take(2 * H, 1)), ad.sigmoid(take(2 * H, 1))
        s, gamma = options.blurred(shift_softmax(take(2 * H, 3))), ad.softplus(take(2 * H, 1)) + 1.0
        return Controls(key, beta, gate, s, gamma, ad.tanh(take(H, n)), ad.sigmoid(take(H, n)))

    def _advance(
        self, prepared: tuple, gates: Value, state: NTMState, options: Options, noise: Value | float = 0.0
    ) -> NTMState:
        """One time step, given W_x x_t + b. ``noise`` is added to the heads' controls before their activation."""
        recurrent, W_heads, b_heads = prepared
        H, n = self.heads, self.cell
        seen = ad.concatenate(state.read, state.h, axis=1)
        h, c = lstm_cell(gates + linear(seen, recurrent), state.c)
        key, beta, gate, s, gamma, add, erase = self._controls(W_heads, b_heads, h, options, noise)
        before = ad.concatenate(state.read_address, state.write_address, axis=1)
        addresses = address(key, beta, gate, s, gamma, before, state.memory)
        a_r, a_w = addresses[:, :H], addresses[:, H:]
        M = write(state.memory, a_w, erase, add)
        r = a_r @ M
        return NTMState(h, c, a_r, a_w, M, ad.reshape(r, shape=(r.shape[0], H * n)))

    def _inputs(self, w: Weights, x: Value) -> Value:
        return linear(x, w["controller.W_x"][:, : x.shape[-1]]) + w["controller.b"]

    def _disturbed(self, gates: Value, options: Options) -> tuple[Value, Array | None]:
        """The controller's gates with noise, and the noise for the logits of the heads' gates and shifts, or None."""
        if options.noise is None:
            return gates, None
        H, n, c = self.heads, self.cell, self.controller
        xp, (batch, steps, _) = ad.array_module(ad.stop_gradient(gates)), gates.shape
        i_f, candidate, o = gates[..., : 2 * c], gates[..., 2 * c : 3 * c], gates[..., 3 * c :]
        gates = ad.concatenate(options.disturbed(i_f), candidate, options.disturbed(o), axis=-1)
        noise = xp.zeros((batch, steps, 2 * H * (2 * n + 6)), gates.dtype)
        decisions = slice(2 * H * (n + 1), 2 * H * (n + 5))  # g and s, behind k and beta
        noise[..., decisions] = options.disturbed(noise[..., decisions])
        return gates, noise

    def _output(self, w: Weights, h: Value, r: Value) -> Value:
        return linear(h, w["W_oh"]) + linear(r, w["W_or"]) + w["b_o"]

    def sequence(self, w: Weights, x: Value, state: NTMState, options: Options) -> tuple[Value, NTMState]:
        prepared, gates = self._prepared(w, x.shape[-1]), self._inputs(w, x)
        gates, noise = self._disturbed(gates, options)
        if options.form == "fused":
            h, r, state = self._fused(gates, prepared, state, noise, options.blur)
            return self._output(w, h, r), state
        hs, rs = [], []
        for t in range(x.shape[1]):
            state = self._advance(prepared, gates[:, t], state, options, 0.0 if noise is None else noise[:, t])
            hs.append(state.h)
            rs.append(state.read)
        return self._output(w, ad.stack(*hs, axis=1), ad.stack(*rs, axis=1)), state

    def _fused(
        self, gates: Value, prepared: tuple, state: NTMState, noise: Array | None, blur: Array | None
    ) -> tuple[Value, Value, NTMState]:
        """All time steps in compiled passes, which keep intermediate states only if something is recorded."""
        check_form("NTM", "fused", gates, *prepared, *state)
        from pntm_np.models.ntm.fused import ntm_loop, ntm_scan_fused

        args = (gates, *prepared, *state)
        ours = {"noise": noise, "blur": blur}
        hs, rs, *after = ntm_loop(*args, keep=False, **ours)[0] if plain(args) else ntm_scan_fused(*args, **ours)
        return hs, rs, NTMState(*after)

    def step(self, w: Weights, x: Value, state: NTMState, options: Options) -> tuple[Value, NTMState]:
        y, after = self.sequence(w, x[:, None], state, options)
        if options.observer is not None:
            controls = self.controls(w, x.shape[-1], after.h)
            options.show("read address", lambda: after.read_address)
            options.show("write address", lambda: after.write_address)
            options.show("memory", lambda: after.memory)
            options.show("state LSTM h", lambda: after.h)
            options.show("state LSTM c", lambda: after.c)
            options.show("shifts", lambda: controls.shift)
            options.show("values", lambda: controls.add)
            options.show("erase", lambda: controls.erase)
            options.show("reads", lambda: ad.reshape(after.read, shape=(-1, self.heads, self.cell)))
        return y[:, 0], after

    def training_numbers(self, width: int, load: Load) -> float:
        H, n = self.heads, self.cell
        if load.form == "fused":
            return 29 * width + (2 * H + n) * load.cells
        return 20 * width + 3.5 * H * n * load.cells

    def traced_numbers(self, cells: int, steps: int) -> int:
        return cells * (self.cell + 2 * self.heads)

    def rounded(self, w: Params) -> Params:
        names = [f"{side}.{kind}_s" for side in ("read", "write") for kind in "Wb"]
        return {name: w[name] * SHARP for name in names}

    def without_reads(self, w: Params, head: int) -> Params:
        W_or, W_x = w["W_or"].copy(), w["controller.W_x"].copy()
        columns = slice(head * self.cell, (head + 1) * self.cell)
        W_or[:, columns] = 0
        W_x[:, len(W_or) :][:, columns] = 0  # the columns of W_x are [x_t ; r_{t-1}]
        return {"W_or": W_or, "controller.W_x": W_x}
