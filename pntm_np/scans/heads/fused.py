"""All heads of a layer in one compiled pass. Only the current addresses and memory exist, and they stay in cache.

For the backward pass, the state is kept every few time steps, and those between are recomputed.
"""

from __future__ import annotations

import numpy as np

from autodiff import Array, Arrays, Pullback, differentiable
from autodiff.kernel import kernel
from pntm_np.scans.inner import move_heads, move_heads_back, reads_back, write_and_read_heads, write_heads, writes_back
from pntm_np.scans.memory.fused import kept_every


@kernel
def forward(s_r, s_w, v, q, w, M, reads, kept_q, kept_w, kept_M, every):
    """q (B, R, m), w (B, W, m), M (B, W, n, m) become the final state. If ``every`` is 0, no state is kept."""
    q_now, q_next, w_now, w_next = np.empty_like(q[0]), np.empty_like(q[0]), np.empty_like(w[0]), np.empty_like(w[0])
    for b in range(len(v)):
        q_now[:], w_now[:] = q[b], w[b]
        for t in range(v.shape[1]):
            if every and t % every == 0:
                kept_q[b, t // every], kept_w[b, t // every], kept_M[b, t // every] = q_now, w_now, M[b]
            write_and_read_heads(M[b], w_now, v[b, t], q_now, reads[b, t])
            move_heads(q_now, s_r[b, t], q_next)
            move_heads(w_now, s_w[b, t], w_next)
            q_now, q_next, w_now, w_next = q_next, q_now, w_next, w_now
        q[b], w[b] = q_now, w_now


@kernel
def backward(s_r, s_w, v, kept_q, kept_w, kept_M, every, g_reads, g_q, g_w, carried, d_r, d_w, d_v):
    """g_q, g_w and carried, the cotangents of the final state, become those of the initial state."""
    steps = v.shape[1]
    q = np.empty((every + 1, *g_q.shape[1:]), g_q.dtype)
    w = np.empty((every + 1, *g_w.shape[1:]), g_q.dtype)
    M = np.empty((every + 1, *carried.shape[1:]), g_q.dtype)
    q_back, w_back = np.empty_like(g_q[0]), np.empty_like(g_w[0])
    for b in range(len(v)):
        for c in range((steps - 1) // every, -1, -1):
            first, last = c * every, min(c * every + every, steps)
            q[0], w[0], M[0] = kept_q[b, c], kept_w[b, c], kept_M[b, c]
            for t in range(first, last):
                j = t - first
                write_heads(M, j, w[j], v[b, t])
                move_heads(q[j], s_r[b, t], q[j + 1])
                move_heads(w[j], s_w[b, t], w[j + 1])
            for t in range(last - 1, first - 1, -1):
                j = t - first
                move_heads_back(q[j], s_r[b, t], g_q[b], d_r[b, t], q_back)
                move_heads_back(w[j], s_w[b, t], g_w[b], d_w[b, t], w_back)
                reads_back(M, j + 1, g_reads[b, t], q_back)
                writes_back(carried[b], M, j, q[j], w[j], v[b, t], g_reads[b, t], w_back, d_v[b, t])
                g_q[b], g_w[b] = q_back, w_back


@kernel
def step(s, v, q, w, M, q_next, w_next, M_next, reads):
    """One time step, from q, w, M to q_next, w_next, M_next, with s (B, R + W, 3)."""
    readers = q.shape[1]
    for b in range(len(v)):
        M_next[b] = M[b]
        write_and_read_heads(M_next[b], w[b], v[b], q[b], reads[b])
        move_heads(q[b], s[b, :readers], q_next[b])
        move_heads(w[b], s[b, readers:], w_next[b])


def heads_step(s: Array, v: Array, q: Array, w: Array, M: Array) -> tuple:
    """Reads (B, R, W, n) and the next state from all heads' shifts s (B, R + W, 3) and values v (B, W, n)."""
    dtype = np.result_type(s, v, q, w, M)
    q, w, M, s, v = (np.ascontiguousarray(x, dtype) for x in (q, w, M.swapaxes(2, 3), s, v))
    q_next, w_next, M_next = np.empty_like(q), np.empty_like(w), np.empty_like(M)
    reads = np.empty((len(v), q.shape[1], *v.shape[1:]), v.dtype)
    step(s, v, q, w, M, q_next, w_next, M_next, reads)
    return reads, q_next, w_next, M_next.swapaxes(2, 3)


def heads_run(s_r: Array, s_w: Array, v: Array, q0: Array, w0: Array, M0: Array, *, keep: bool = False) -> tuple:
    """Reads (B, T, R, W, n) and the final state, shaped as in ``head_scan``; then what the backward pass needs."""
    dtype = np.result_type(s_r, s_w, v, q0, w0, M0)
    s_r, s_w, v = (np.ascontiguousarray(x, dtype) for x in (s_r, s_w, v))
    q, w, M = (np.array(x, dtype, order="C") for x in (q0, w0, M0.swapaxes(2, 3)))
    batch, steps, readers, _ = s_r.shape
    reads = np.empty((batch, steps, readers, *v.shape[2:]), dtype)
    every = kept_every(M[:1]) if keep else 0
    kept = tuple(np.empty((batch, -(-steps // every) if keep else 0, *x.shape[1:]), dtype) for x in (q, w, M))
    if batch:
        forward(s_r, s_w, v, q, w, M, reads, *kept, every)
    return (reads, q, w, M.swapaxes(2, 3)), (s_r, s_w, v, *kept, every)


@differentiable
def heads_fused(s_r: Array, s_w: Array, v: Array, q0: Array, w0: Array, M0: Array) -> tuple[Arrays, Pullback]:
    """``heads_run`` as an op with a pullback."""
    values, kept = heads_run(s_r, s_w, v, q0, w0, M0, keep=True)
    dtype = values[0].dtype

    def pullback(g):
        g_reads = np.ascontiguousarray(g[0], dtype)
        g_q, g_w, carried = (np.array(x, dtype, order="C") for x in (g[1], g[2], g[3].swapaxes(2, 3)))
        d_r, d_w, d_v = (np.empty_like(x) for x in kept[:3])
        if len(g_reads):
            backward(*kept, g_reads, g_q, g_w, carried, d_r, d_w, d_v)
        return d_r, d_w, d_v, g_q, g_w, carried.swapaxes(2, 3)

    return values, pullback
