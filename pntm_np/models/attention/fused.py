"""Causal attention in one compiled pass, which holds the scores of one position at a time and never T x T of them.

The forward pass keeps the logarithm of each position's normaliser; the backward pass recomputes the weights.
"""

from __future__ import annotations

import math

import numpy as np

import autodiff as ad
from autodiff import Array, Pullback, scalar
from autodiff.compiled import largest
from autodiff.kernel import kernel
from pntm_np.models.products import dots, product

LANES = 32  # positions are padded to a multiple of this, so that vectorized loops have no scalar remainder


@kernel
def turned(x, b, h, first, last, out):
    """Copy one head's vectors first .. last - 1 of (S, D) into columns of (D, S): vector code runs along positions.

    Columns that a position does not see yet are zero, so that nothing, not even a NaN, gets from them into a sum.
    """
    for s in range(first, last):
        for d in range(x.shape[3]):
            out[d, s] = x[b, h, s, d]


@kernel
def scores_of(query, keys, bias, h, i, count, padded, scores):
    """The scores of position i with the first ``count`` positions, and minus infinity in the padding."""
    for j in range(padded):
        scores[0, j] = query.dtype.type(0)
    product(query, 0, keys, scores, padded)
    if bias.shape[0]:
        for j in range(padded):
            scores[0, j] += bias[h, i, j]
    for j in range(count, padded):
        scores[0, j] = query.dtype.type(-math.inf)


@kernel
def forward(q, k, v, bias, scale, out, normaliser):
    """q (B, H, T, D), k and v (B, H, S, D), bias (H, T, S with padding) or empty; queries are the last T positions."""
    batch, heads, length, size = q.shape
    seen = k.shape[2]
    past, room = seen - length, (seen + LANES - 1) // LANES * LANES
    keys, values, scores = (
        np.empty((size, room), q.dtype),
        np.empty((size, room), q.dtype),
        np.empty((1, room), q.dtype),
    )
    query, found = np.empty((1, size), q.dtype), np.empty((1, size), q.dtype)
    zero = q.dtype.type(0)
    for b in range(batch):
        for h in range(heads):
            keys[:], values[:] = zero, zero
            turned(k, b, h, 0, past, keys)
            turned(v, b, h, 0, past, values)
            for i in range(length):
                count = past + i + 1
                turned(k, b, h, count - 1, count, keys)
                turned(v, b, h, count - 1, count, values)
                padded = (count + LANES - 1) // LANES * LANES
                for d in range(size):
                    query[0, d] = q[b, h, i, d] * scale
                scores_of(query, keys, bias, h, i, count, padded, scores)
                top = largest(scores, 0, padded)
                total = zero
                for j in range(padded):
                    scores[0, j] = scalar.exp(scores[0, j] - top)
                for j in range(padded):
                    total += scores[0, j]
                normaliser[b, h, i] = top + scalar.log(total)
                dots(scores, 0, values, found, padded)
                for d in range(size):
                    out[b, h, i, d] = found[0, d] / total


@kernel
def backward(q, k, v, bias, scale, out, normaliser, g, d_q, d_k, d_v, d_bias):
    """Adds to d_bias and overwrites d_q, d_k and d_v."""
    batch, heads, length, size = q.shape
    seen = k.shape[2]
    past, room = seen - length, (seen + LANES - 1) // LANES * LANES
    keys, values = np.empty((size, room), q.dtype), np.empty((size, room), q.dtype)
    d_keys, d_values = np.empty((size, room), q.dtype), np.empty((size, room), q.dtype)
    weights, d_scores = np.empty((1, room), q.dtype), np.empty((1, room), q.dtype)
    query, g_i, d_query = np.empty((1, size), q.dtype), np.empty((1, size), q.dtype), np.empty((1, size), q.dtype)
    zero = q.dtype.type(0)
    for b in range(batch):
        for h in range(heads):
            keys[:], values[:], d_keys[:], d_values[:] = zero, zero, zero, zero
            turned(k, b, h, 0, past, keys)
            turned(v, b, h, 0, past, values)
            for i in range(length):
                count = past + i + 1
                turned(k, b, h, count - 1, count, keys)
                turned(v, b, h, count - 1, count, values)
                padded = (count + LANES - 1) // LANES * LANES
                along = zero  # summed in a loop without stores: else the distance of arrays decides on the order
                for d in range(size):
                    query[0, d], g_i[0, d] = q[b, h, i, d] * scale, g[b, h, i, d]
                for d in range(size):
                    along += g[b, h, i, d] * out[b, h, i, d]
                scores_of(query, keys, bias, h, i, count, padded, weights)
                shift = normaliser[b, h, i]
                for j in range(padded):
                    weights[0, j] = scalar.exp(weights[0, j] - shift)
                    d_scores[0, j] = -along
                product(g_i, 0, values, d_scores, padded)
                for j in range(padded):
                    d_scores[0, j] *= weights[0, j]
                dots(d_scores, 0, keys, d_query, padded)
                for d in range(size):
                    d_q[b, h, i, d] = d_query[0, d] * scale
                    x, y = g_i[0, d], query[0, d]
                    for j in range(padded):
                        d_values[d, j] += x * weights[0, j]
                        d_keys[d, j] += y * d_scores[0, j]
                if d_bias.shape[0]:
                    for j in range(padded):
                        d_bias[h, i, j] += d_scores[0, j]
            for s in range(seen):
                for d in range(size):
                    d_k[b, h, s, d], d_v[b, h, s, d] = d_keys[d, s], d_values[d, s]


@kernel
def turn_pairs(x, cos, sin, sign, out):
    """RoPE: x (B, H, T, D), cos and sin (T, D / 2)."""
    batch, heads, length, size = x.shape
    half = size // 2
    for b in range(batch):
        for h in range(heads):
            for t in range(length):
                for d in range(half):
                    c, s = cos[t, d], sign * sin[t, d]
                    left, right = x[b, h, t, d], x[b, h, t, half + d]
                    out[b, h, t, d] = left * c - right * s
                    out[b, h, t, half + d] = left * s + right * c


@ad.differentiable
def attention_fused(q: Array, k: Array, v: Array, bias: Array) -> tuple[Array, Pullback]:
    """softmax(q k / sqrt(D) + bias) v over the past; ``bias`` (H, T, S), or 0 for none."""
    dtype = np.result_type(q, k, v)
    plain = getattr(bias, "ndim", 0) == 0
    q, k, v = (np.ascontiguousarray(x, dtype) for x in (q, k, v))
    seen = k.shape[2]
    bias = np.empty((0, 0, 0), dtype) if plain else np.pad(bias.astype(dtype), ((0, 0), (0, 0), (0, -seen % LANES)))
    scale, out = dtype.type(1 / math.sqrt(q.shape[-1])), np.empty_like(q)
    normaliser = np.empty(q.shape[:-1], dtype)
    forward(q, k, v, bias, scale, out, normaliser)

    def pullback(g):
        d_q, d_k, d_v, d_bias = np.empty_like(q), np.empty_like(k), np.empty_like(v), np.zeros_like(bias)
        backward(q, k, v, bias, scale, out, normaliser, np.ascontiguousarray(g, dtype), d_q, d_k, d_v, d_bias)
        return d_q, d_k, d_v, None if plain else d_bias[..., :seen]

    return out, pullback
