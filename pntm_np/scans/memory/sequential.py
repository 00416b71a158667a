"""The definition: a loop over time steps. The backward pass recomputes the memory from every 64th."""

from __future__ import annotations

from typing import Any

from autodiff import Array, Pair, Pullback, Same, array_module, differentiable

SEGMENT = 64  # steps between the memories that are kept for the backward pass


def write(M: Same, w: Same, v: Same) -> Same:
    """M_t (B, W, m, n) from M_{t-1}, the write addresses (B, W, m) and the values (B, W, n)."""
    return (1 - w)[..., None] * M + w[..., None] * v[..., None, :]


def read(q: Same, M: Same) -> Same:
    """The reads (B, R, W, n) of every read head q (B, R, m) from every write head's memory."""
    found: Any = q[:, None] @ M  # Any: a step is never recorded, so this is an array
    return found.swapaxes(1, 2)


@differentiable
def memory_sequential(q: Array, w: Array, v: Array, M0: Array) -> tuple[Pair, Pullback]:
    xp = array_module(q, w, v, M0)
    batch, length, readers, _ = q.shape
    writers, width = v.shape[2:]
    dtype = xp.result_type(q, w, v, M0)
    reads = xp.empty((batch, length, readers, writers, width), dtype)
    kept = []  # M before step 0, SEGMENT, 2 SEGMENT, ..
    M = M0.astype(dtype)
    for t in range(length):
        if t % SEGMENT == 0:
            kept.append(M)
        M = write(M, w[:, t], v[:, t])
        reads[:, t] = read(q[:, t], M)

    def pullback(g):
        g_reads, carried = g  # carried: the cotangent of M_t through later time steps
        d_q, d_w, d_v = (xp.empty(x.shape, dtype) for x in (q, w, v))
        for first in reversed(range(0, length, SEGMENT)):
            steps = range(first, min(first + SEGMENT, length))
            memories = [kept[first // SEGMENT]]  # before the segment, then after each of its time steps
            for t in steps:
                memories.append(write(memories[-1], w[:, t], v[:, t]))
            for t in reversed(steps):
                after, before = memories[t - first + 1], memories[t - first]
                g_t = g_reads[:, t].swapaxes(1, 2)  # B, W, R, n
                d_q[:, t] = xp.sum(g_t @ after.swapaxes(2, 3), axis=1)
                carried = carried + q[:, t].swapaxes(1, 2)[:, None] @ g_t
                d_v[:, t] = (w[:, t, :, None] @ carried)[:, :, 0]
                d_w[:, t] = xp.sum(carried * (v[:, t, :, None] - before), axis=-1)
                carried = (1 - w[:, t])[..., None] * carried
        return d_q, d_w, d_v, carried

    return (reads, M), pullback
