"""The loop over time steps, compiled. The state stays in cache."""

from __future__ import annotations

import numpy as np

from autodiff import Array, Pair, Pullback, differentiable
from autodiff.kernel import blend, kernel, remains


@kernel
def forward(z, c, h0, states):
    batch, steps, size = z.shape
    for b in range(batch):
        for d in range(size):
            states[b, 0, d] = blend(z[b, 0, d], h0[b, d], c[b, 0, d])
        for t in range(1, steps):
            for d in range(size):
                states[b, t, d] = blend(z[b, t, d], states[b, t - 1, d], c[b, t, d])


@kernel
def backward(z, c, h0, states, g_states, back, d_z, d_c):
    """back (B, d), the cotangent of the last state, becomes that of h0."""
    batch, steps, size = z.shape
    for b in range(batch):
        for t in range(steps - 1, 0, -1):
            for d in range(size):
                g = back[b, d] + g_states[b, t, d]
                d_z[b, t, d] = g * (c[b, t, d] - states[b, t - 1, d])
                d_c[b, t, d] = g * z[b, t, d]
                back[b, d] = remains(z[b, t, d], g)
        for d in range(size):
            g = back[b, d] + g_states[b, 0, d]
            d_z[b, 0, d] = g * (c[b, 0, d] - h0[b, d])
            d_c[b, 0, d] = g * z[b, 0, d]
            back[b, d] = remains(z[b, 0, d], g)


@differentiable
def gated_fused(z: Array, c: Array, h0: Array) -> tuple[Pair, Pullback]:
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
