"""The loop over time steps, compiled."""

from __future__ import annotations

import numpy as np

from autodiff import Array, Pair, Pullback, differentiable
from autodiff.kernel import kernel
from pntm_np.scans.inner import move_heads, move_heads_back


@kernel
def forward(s, a, addresses):
    """Fill addresses (B, T, H, m) from the shifts s (B, T, H, 3); a (B, H, m) becomes the final address."""
    for b in range(len(s)):
        addresses[b, 0] = a[b]
        for t in range(1, s.shape[1]):
            move_heads(addresses[b, t - 1], s[b, t - 1], addresses[b, t])
        move_heads(addresses[b, -1], s[b, -1], a[b])


@kernel
def backward(s, addresses, g_addresses, carried, d_s):
    moved = np.empty_like(carried[0])
    for b in range(len(s)):
        for t in range(s.shape[1] - 1, -1, -1):
            move_heads_back(addresses[b, t], s[b, t], carried[b], d_s[b, t], moved)
            carried[b] = moved + g_addresses[b, t]


@differentiable
def conv_shift_fused(s: Array, a0: Array) -> tuple[Pair, Pullback]:
    dtype, start = np.result_type(s, a0), a0.shape
    heads = int(np.prod(start[1:-1]))
    shifts = np.ascontiguousarray(s, dtype).reshape(*s.shape[:2], heads, 3)
    a = np.array(a0, dtype, order="C").reshape(start[0], heads, start[-1])
    addresses = np.empty((*shifts.shape[:3], start[-1]), dtype)
    if a.size:
        forward(shifts, a, addresses)

    def pullback(g):
        g_addresses = np.ascontiguousarray(g[0], dtype).reshape(addresses.shape)
        carried = np.array(g[1], dtype, order="C").reshape(a.shape)
        d_s = np.zeros_like(shifts)
        if a.size:
            backward(shifts, addresses, g_addresses, carried, d_s)
        return d_s.reshape(s.shape), carried.reshape(start)

    return (addresses.reshape(*s.shape[:-1], start[-1]), a.reshape(start)), pullback
