"""Algorithm 2: a log-space scan for every cell, with the memory of all time steps in RAM: T x m x n numbers.

The paper's listing has decay and gain exchanged. We follow its update rule: decay 1 - w, gain w. Because of the clamp,
a cell that is not written for 65,536 time steps loses 6 % of its value.
"""

from __future__ import annotations

import numpy as np

from autodiff import Array, Pair, Pullback, array_module, differentiable
from pntm_np.scans.gated.chunked import carried_back
from pntm_np.scans.log_space import clamp, log_space_scan


@differentiable
def memory_paper(q: Array, w: Array, v: Array, M0: Array) -> tuple[Pair, Pullback]:
    xp = array_module(q, w, v, M0)
    gate = clamp(w)
    with np.errstate(divide="ignore", invalid="ignore"):  # log of an empty cell is -inf, of a negative number NaN
        gain = xp.log(gate)[..., None] + xp.log(v)[..., None, :]  # B, T, W, m, n
        decay = xp.broadcast_to(xp.log1p(-gate)[..., None], gain.shape)
        memories = log_space_scan(decay, gain, xp.log(M0))  # M_1 .. M_T
    reads = (q[:, :, None] @ memories).swapaxes(2, 3)  # B, T, R, W, n

    def pullback(g):
        g_reads, g_last = g
        g_reads = g_reads.swapaxes(2, 3)
        g_memories = q.swapaxes(2, 3)[:, :, None] @ g_reads
        decay = xp.broadcast_to((1 - gate)[..., None], g_memories.shape)
        carried = carried_back(decay, g_memories, g_last)
        before = xp.concatenate([M0[:, None], memories[:, :-1]], axis=1)
        d_q = xp.sum(g_reads @ memories.swapaxes(3, 4), axis=2)
        d_w = xp.sum(carried * (v[..., None, :] - before), axis=-1) * (w == gate)
        d_v = (gate[..., None, :] @ carried)[..., 0, :]
        return d_q, d_w, d_v, (1 - gate[:, 0])[..., None] * carried[:, 0]

    return (reads, memories[:, -1].astype(reads.dtype)), pullback
