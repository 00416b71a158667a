"""The loop, compiled: one pass over time, the state in cache."""

from __future__ import annotations

import numpy as np

from autodiff import differentiable
from autodiff.backend import Array
from pntm_np.scans.inner import kernel


@kernel
def forward(z, c, h0, states):
    batch, steps, size = z.shape
    for b in range(batch):
        for d in range(size):
            states[b, 0, d] = (1 - z[b, 0, d]) * h0[b, d] + z[b, 0, d] * c[b, 0, d]
        for t in range(1, steps):
            h, z_t, c_t, out = states[b, t - 1], z[b, t], c[b, t], states[b, t]
            for d in range(size):
                out[d] = (1 - z_t[d]) * h[d] + z_t[d] * c_t[d]


@kernel
def backward(z, c, h0, states, g_states, carried, d_z, d_c):
    batch, steps, size = z.shape
    for b in range(batch):
        back = carried[b]
        for t in range(steps - 1, -1, -1):
            before = states[b, t - 1] if t else h0[b]
            z_t, c_t, g_t, d_z_t, d_c_t = z[b, t], c[b, t], g_states[b, t], d_z[b, t], d_c[b, t]
            for d in range(size):
                g = back[d] + g_t[d]
                d_z_t[d] = g * (c_t[d] - before[d])
                d_c_t[d] = g * z_t[d]
                back[d] = g * (1 - z_t[d])


@differentiable
def gated_fused(z: Array, c: Array, h0: Array):
    shape, dtype = z.shape, np.result_type(z, c, h0)
    rows = (shape[0], shape[1], -1) if z.size else (*shape[:2], 0)
    z, c = (np.ascontiguousarray(x, dtype).reshape(rows) for x in (z, c))
    h0 = np.ascontiguousarray(h0, dtype).reshape(shape[0], z.shape[2])
    states = np.empty_like(z)
    forward(z, c, h0, states)

    def pullback(g):
        g_states = np.ascontiguousarray(g[0], dtype).reshape(z.shape)
        carried = np.array(g[1], dtype, order="C").reshape(h0.shape)
        d_z, d_c = np.empty_like(z), np.empty_like(c)
        backward(z, c, h0, states, g_states, carried, d_z, d_c)
        return d_z.reshape(shape), d_c.reshape(shape), carried.reshape(shape[:1] + shape[2:])

    return (states.reshape(shape), states[:, -1].reshape(shape[:1] + shape[2:]).copy()), pullback
