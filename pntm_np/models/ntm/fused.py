"""The NTM's loop with compiled time steps, each of two matrix products and two passes, forward and backward."""

from __future__ import annotations

import numpy as np

import autodiff as ad
from autodiff import Array, Arrays, Pullback
from pntm_np.models.lstm.fused import before_each, cell_backward, cell_forward, transposed
from pntm_np.models.ntm.kernels import heads_backward, heads_forward


def ntm_loop(
    *inputs: Array, keep: bool, noise: Array | None = None, blur: Array | None = None
) -> tuple[Arrays, Arrays]:
    """The values of ``ntm_scan_fused``, and what the backward pass needs. gates (B, T, 4 c) is W_x x_t + b.

    Without ``keep``, only the current state is held.
    """
    gates, recurrent, W_heads, b_heads, h0, c0, a_r0, a_w0, M0, r0 = inputs
    dtype = np.result_type(*inputs)
    gates, recurrent, W_heads = (np.ascontiguousarray(x, dtype) for x in (gates, recurrent, W_heads))
    (batch, steps, _), size, heads = gates.shape, h0.shape[-1], a_r0.shape[1]
    kept = steps if keep else 1
    hs, rs = np.empty((batch, steps, size), dtype), np.empty((batch, steps, r0.shape[-1]), dtype)
    cells, saved = np.empty((kept + 1, batch, size), dtype), np.empty((kept, batch, 5 * size), dtype)
    a = np.empty((kept + 1, batch, 2 * heads, a_r0.shape[-1]), dtype)
    M = np.empty((kept + 1, batch, M0.shape[2], M0.shape[1]), dtype)
    raw = np.empty((kept, batch, len(W_heads)), dtype)
    seen = np.concatenate([r0, h0], axis=1).astype(dtype)  # [r ; h]
    sums = np.empty((batch, 4 * size), dtype)
    width, reads = r0.shape[-1], np.empty((batch, r0.shape[-1]), dtype)
    blur = np.zeros(batch, dtype) if blur is None else np.ascontiguousarray(blur, dtype)
    recurrent_t, heads_t = transposed(recurrent), transposed(W_heads)
    cells[0], a[0, :, :heads], a[0, :, heads:], M[0] = c0, a_r0, a_w0, M0.swapaxes(1, 2)
    for t in range(steps):
        before, after, slot = t % (kept + 1), (t + 1) % (kept + 1), t % kept
        np.matmul(seen, recurrent_t, out=sums)
        cell_forward(gates, t, sums, cells, before, after, saved, slot, hs)
        np.matmul(hs[:, t], heads_t, out=raw[slot])
        raw[slot] += b_heads
        if noise is not None:
            raw[slot] += noise[:, t]
        heads_forward(raw[slot], heads, blur, a, M, before, after, reads)
        rs[:, t] = seen[:, :width] = reads
        seen[:, width:] = hs[:, t]
    last = steps % (kept + 1)
    addresses, memory = (a[last, :, :heads], a[last, :, heads:]), M[last].swapaxes(1, 2)
    state = (hs[:, -1].copy(), cells[last], *addresses, memory, rs[:, -1].copy())
    return (hs, rs, *state), (gates, recurrent, W_heads, cells, saved, a, M, raw, blur)


@ad.differentiable
def ntm_scan_fused(
    gates: Array, recurrent: Array, W_heads: Array, b_heads: Array,
    h0: Array, c0: Array, a_r0: Array, a_w0: Array, M0: Array, r0: Array,
    *, noise: Array | None = None, blur: Array | None = None,
) -> tuple[Arrays, Pullback]:  # fmt: skip
    """h_t (B, T, c), r_t (B, T, H n), then the final h, c, read and write addresses, memory and r.

    ``noise`` (B, T, rows of W_heads) is added to the heads' controls before their activation; ``blur`` (B,) is the
    share of each row's shifts that is spread evenly over all three.
    """
    given = gates, recurrent, W_heads, b_heads, h0, c0, a_r0, a_w0, M0, r0
    values, kept = ntm_loop(*given, keep=True, noise=noise, blur=blur)
    gates, recurrent, W_heads, cells, saved, a, M, raw, blur = kept
    hs, rs, dtype, heads, width = values[0], values[1], values[0].dtype, a_r0.shape[1], r0.shape[-1]

    def pullback(g):
        g_hs, g_rs = np.ascontiguousarray(g[0], dtype), g[1]
        d_h, d_c = (np.array(x, dtype, order="C") for x in g[2:4])
        g_a = np.concatenate([g[4], g[5]], axis=1).astype(dtype)
        g_M = np.array(g[6].swapaxes(1, 2), dtype, order="C")
        g_r = np.array(g[7], dtype, order="C")
        d_gates, d_raw = np.empty_like(gates), np.empty_like(raw)
        d_seen = np.empty((len(d_h), recurrent.shape[1]), dtype)
        for t in reversed(range(gates.shape[1])):
            g_r += g_rs[:, t]
            heads_backward(raw[t], heads, blur, a, M, t, g_r, g_a, g_M, d_raw[t])
            d_h += d_raw[t] @ W_heads
            cell_backward(d_h, g_hs, t, d_c, cells, saved, d_gates)
            np.matmul(d_gates[:, t], recurrent, out=d_seen)
            g_r[:], d_h[:] = d_seen[:, :width], d_seen[:, width:]
        seen = np.concatenate([before_each(r0, rs), before_each(h0, hs)], axis=1)
        d_recurrent = d_gates.reshape(len(seen), -1).T @ seen
        of_heads = d_raw.reshape(-1, d_raw.shape[-1])  # steps first
        d_W = of_heads.T @ hs.swapaxes(0, 1).reshape(len(of_heads), -1)
        d_M = g_M.swapaxes(1, 2)
        return d_gates, d_recurrent, d_W, of_heads.sum(0), d_h, d_c, g_a[:, :heads], g_a[:, heads:], d_M, g_r

    return values, pullback
