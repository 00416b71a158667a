"""The loop over time steps, compiled. The memory stays in cache; it is kept every few steps for the backward pass."""

from __future__ import annotations

import numpy as np

from autodiff import Array, Pair, Pullback, differentiable
from autodiff.kernel import kernel
from pntm_np.scans.inner import reads_back, write_and_read_heads, write_heads, writes_back

CACHE = 1 << 18  # bytes of memory states that the backward pass recomputes at a time


def kept_every(memory: Array) -> int:
    """Time steps between the states that are kept for the backward pass, given the memory of one sequence."""
    return max(4, min(64, CACHE // max(1, memory.nbytes)))


@kernel
def forward(q, w, v, M, reads, kept, every):
    """M (B, W, n, m) becomes the final memory."""
    for b in range(len(q)):
        for t in range(q.shape[1]):
            if t % every == 0:
                kept[b, t // every] = M[b]
            write_and_read_heads(M[b], w[b, t], v[b, t], q[b, t], reads[b, t])


@kernel
def backward(q, w, v, kept, every, g_reads, carried, d_q, d_w, d_v):
    steps = q.shape[1]
    M = np.empty((every + 1, *carried.shape[1:]), carried.dtype)
    for b in range(len(q)):
        for c in range((steps - 1) // every, -1, -1):
            first, last = c * every, min(c * every + every, steps)
            M[0] = kept[b, c]
            for t in range(first, last):
                write_heads(M, t - first, w[b, t], v[b, t])
            for t in range(last - 1, first - 1, -1):
                reads_back(M, t - first + 1, g_reads[b, t], d_q[b, t])
                writes_back(carried[b], M, t - first, q[b, t], w[b, t], v[b, t], g_reads[b, t], d_w[b, t], d_v[b, t])


@differentiable
def memory_fused(q: Array, w: Array, v: Array, M0: Array) -> tuple[Pair, Pullback]:
    dtype = np.result_type(q, w, v, M0)
    q, w, v = (np.ascontiguousarray(x, dtype) for x in (q, w, v))
    M = np.array(M0.swapaxes(2, 3), dtype, order="C")
    batch, steps, readers, _ = q.shape
    reads = np.empty((batch, steps, readers, *v.shape[2:]), dtype)
    every = kept_every(M[:1])
    kept = np.empty((batch, -(-steps // every), *M.shape[1:]), dtype)
    forward(q, w, v, M, reads, kept, every)

    def pullback(g):
        g_reads = np.ascontiguousarray(g[0], dtype)
        carried = np.array(g[1].swapaxes(2, 3), dtype, order="C")
        d_q, d_w, d_v = np.zeros_like(q), np.zeros_like(w), np.empty_like(v)
        backward(q, w, v, kept, every, g_reads, carried, d_q, d_w, d_v)
        return d_q, d_w, d_v, carried.swapaxes(2, 3)

    return (reads, M.swapaxes(2, 3)), pullback
