"""Exact, in few whole-array operations: all chunks are computed side by side and then joined.

In a chunk, V_t is the state that starts from 0, and D_t is the product of the decays 1 - z so far; so
h_t = D_t (state at the chunk's start) + V_t. All factors are in [0, 1], without logarithm or division: gates of 0 and 1
are exact. The states at the chunks' starts follow a recurrence of the same kind, over the chunks.

With the cube root of T time steps per chunk, there are two levels and about 8 times that root of array operations.
On a CPU the number of chunks is limited, so that an operation covers some ten thousand numbers: more take longer, and
with fewer, threads wait for each other at many small operations. A very wide state gets one chunk, which is the loop.
"""

from __future__ import annotations

from autodiff import Array, Pair, Pullback, array_module, differentiable
from autodiff.backend import on_host
from pntm_np.scans.gated.sequential import walk

STEP = 1 << 17  # numbers that one whole-array operation covers
SHORT = 8  # sequences up to this length are not cut into chunks


def chunk_size(length: int, start: Array) -> int:
    """Time steps in a chunk."""
    if length <= SHORT:
        return length
    size = round(length ** (1 / 3))
    if on_host(start):
        most = max(1, STEP // max(start.size, 1))  # chunks
        size = max(size, -(-length // most))
    return next((n for n in range(size, 2 * size) if length % n == 0), size)  # nothing to fill up, if that is possible


def linear_scan(decay: Array, gain: Array, start: Array, size: int) -> Array:
    """v_t = decay_t v_{t-1} + gain_t along axis 1, from ``start``, in chunks of ``size`` steps; uses up ``gain``."""
    xp = array_module(decay)
    batch, length, *trailing = decay.shape
    count = -(-length // size)
    padded = ((0, 0), (0, count * size - length)) + ((0, 0),) * len(trailing)
    if count * size != length:
        decay, gain = (xp.pad(x, padded) for x in (decay, gain))
    split = (batch, count, size, *trailing)
    decay = decay.reshape(split)
    values = gain.reshape(split).astype(xp.result_type(decay, gain, start), copy=False)
    if count == 1:
        values[:, 0, 0] += decay[:, 0, 0] * start
    for k in range(1, size):  # V_t of all chunks at once
        values[:, :, k] += decay[:, :, k] * values[:, :, k - 1]
    if count > 1:
        kept = xp.empty_like(decay)
        kept[:, :, 0] = decay[:, :, 0]
        for k in range(1, size):  # D_t
            xp.multiply(kept[:, :, k - 1], decay[:, :, k], out=kept[:, :, k])
        starts = xp.empty((batch, count, *trailing), values.dtype)
        starts[:, 0] = start
        ends, over = values[:, :-1, -1], kept[:, :-1, -1]
        starts[:, 1:] = linear_scan(over, ends.copy(), start, chunk_size(count - 1, start))
        values += kept * starts[:, :, None]
    return values.reshape(batch, count * size, *trailing)[:, :length]


def carried_back(decay: Array, g_states: Array, g_last: Array, size: int | None = None) -> Array:
    """The total cotangent of every state: carried_t = g_t + decay_{t+1} carried_{t+1}, the recurrence from the end."""
    xp = array_module(decay)
    from_the_end = xp.ones_like(decay)
    from_the_end[:, 1:] = xp.flip(decay[:, 1:], 1)
    size = size or chunk_size(decay.shape[1], g_last)
    return xp.flip(linear_scan(from_the_end, xp.flip(g_states, 1).copy(), g_last, size), 1)


@differentiable
def gated_chunked(z: Array, c: Array, h0: Array, *, chunk: int | None = None) -> tuple[Pair, Pullback]:
    xp = array_module(z, c, h0)
    size = chunk or chunk_size(z.shape[1], h0)
    if size >= z.shape[1]:
        return walk(z, c, h0)  # one chunk, so nothing to join
    states = linear_scan(1 - z, z * c, h0, size)

    def pullback(g):
        carried = carried_back(1 - z, g[0], g[1], size)
        before = xp.concatenate([h0[:, None], states[:, :-1]], axis=1)
        return carried * (c - before), carried * z, carried[:, 0] * (1 - z[:, 0])

    return (states, states[:, -1].copy()), pullback
