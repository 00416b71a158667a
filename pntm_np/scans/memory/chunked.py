"""Exact, by matrix products: gated linear attention with halving inside a chunk, and never T x m x n numbers.

Time is cut into chunks of C steps, between which only the memory M is carried. With the decay d = 1 - w, step t reads
from every earlier write s of its chunk
    q_t . (w_s d_{s+1} .. d_t) v_s,
and from its own write (q_t . w_t) v_t. In a block of 2 b steps, all pairs of s in the left half and t in the right half
are one product of (q_t P_t) and (w_s Q_s), where P_t is the product of d from the middle to t, including d_t, and Q_s
the product of d from s to the middle, excluding d_s. All factors are in [0, 1], so zeros and ones are exact and nothing
overflows; nothing divides. Blocks are halved down to single steps, and the P and Q of two halves are multiplied to get
those of the block. Step t also reads (q_t . product of d from the chunk's start to t) M, and M becomes
(product of d over the chunk) M + sum_s (w_s . product of d after s) v_s.

The backward pass recomputes a chunk from the memory before it, which it recomputes from the last one that was kept.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from autodiff import Array, Namespace, Pair, Pullback, array_module, differentiable
from autodiff.backend import on_host

CHUNK = 16  # time steps, for one read and one write head; with more heads, half as many are faster
RUN = 4  # time steps in a run, whose pairs are computed one distance at a time
KEPT = 16  # chunks between the memories that are kept for the backward pass
BLOCK = 1 << 20  # numbers in the largest temporary: a larger batch is processed in blocks


class Level(NamedTuple):
    """Products of decays (B, W, C, m) within runs of b steps, which are halves of blocks of 2 b."""

    b: int
    prefix: Array  # from the start of a step's run to the step, inclusive
    suffix: Array  # from after a step to the end of its run


# In einsum: b batch, w write head, r read head, m cell, n number, c step of a chunk, x block, s step of a block's half.
def halves(x: Array, b: int) -> tuple[Array, Array]:
    """Left and right halves of the blocks of 2 b steps: (..., C, m) with C on axis -2 -> two (..., N, b, m)."""
    x = x.reshape(*x.shape[:-2], -1, 2, b, x.shape[-1])
    return x[..., 0, :, :], x[..., 1, :, :]


def query_halves(q: Array, b: int) -> Array:
    """The queries in right halves, with an axis for write heads: (B, C, R, m) -> (B, 1, N, b, R, m)."""
    batch, _, readers, cells = q.shape
    return q.reshape(batch, -1, 2, b, readers, cells)[:, None, :, 1]


def merged(level: Level) -> Level:
    """The products of blocks twice as long."""
    prefix, suffix = level.prefix.copy(), level.suffix.copy()
    left, right = halves(prefix, level.b)
    left_suffix, _ = halves(suffix, level.b)
    left_suffix *= right[..., -1:, :]  # before it is multiplied: the product over the right half
    right *= left[..., -1:, :]
    return Level(2 * level.b, prefix, suffix)


def merged_pullback(xp: Namespace, level: Level, d_prefix: Array, d_suffix: Array) -> None:
    """Turn the cotangents of merged(level) into those of level, in place."""
    b = level.b
    left, right = halves(level.prefix, b)
    left_suffix, _ = halves(level.suffix, b)
    d_left, d_right = halves(d_prefix, b)
    d_left_suffix, _ = halves(d_suffix, b)
    d_over_left = xp.einsum("...sm,...sm->...m", d_right, right)
    d_over_right = xp.einsum("...sm,...sm->...m", d_left_suffix, left_suffix)
    d_right *= left[..., -1:, :]
    d_left_suffix *= right[..., -1:, :]
    d_left[..., -1, :] += d_over_left
    d_right[..., -1, :] += d_over_right


def levels_of(xp: Namespace, decay: Array) -> list[Level]:
    """All levels, from single steps to the whole chunk."""
    found = [Level(1, decay, xp.ones_like(decay))]
    while found[-1].b < decay.shape[-2]:
        found.append(merged(found[-1]))
    return found


class Chunk(NamedTuple):
    """One chunk of a block of the batch: q (B, C, R, m), w (B, W, C, m), v (B, W, C, n)."""

    q: Array
    w: Array
    v: Array


def power_of_two(n: int) -> int:
    """The smallest power of two that is at least n, as halving needs it."""
    return 1 << (n - 1).bit_length()


def rows(x: Array) -> Array:
    """(..., b, R, k) -> (..., b R, k): steps and read heads become rows of one matrix."""
    return x.reshape(*x.shape[:-3], -1, x.shape[-1])


def transposed(x: Array) -> Array:
    return x.swapaxes(-1, -2)


def forward(xp: Namespace, chunk: Chunk, M: Array) -> tuple[Array, Array]:
    """The reads (B, W, C, R, n) of a chunk, and the memory after it."""
    q, w, v = chunk
    found = levels_of(xp, 1 - w)
    whole = found.pop()
    reads = rows(q[:, None] * whole.prefix[..., None, :]) @ M
    reads = reads.reshape(*w.shape[:3], q.shape[2], v.shape[-1])
    reads += own_scores(q, w)[..., None] * v[..., None, :]
    for level in found:
        _, _, scores = level_scores(level, q, w)
        left_values, _ = halves(v, level.b)
        target = reads.reshape(*v.shape[:2], -1, 2, level.b, *reads.shape[3:])[:, :, :, 1]
        target += (scores @ left_values).reshape(target.shape)
    return reads, next_memory(chunk, whole, M)


def forward_in_runs(xp: Namespace, q: Array, w: Array, v: Array, M: Array) -> tuple[Array, Array]:
    """``forward`` for several chunks at once: q (B, N, C, R, m), w (B, W, N, C, m), v (B, W, N, C, n).

    It needs fewer and larger operations. Within runs of a few steps, pairs are computed one distance at a time: what
    decay has left of a write after 0, 1, 2, .. further steps meets the queries of that step. Longer blocks are halved
    as above, but (q_t P_t) and (w_s Q_s) are updated in place from level to level.
    """
    batch, writers, chunks, size, cells = w.shape
    readers, width, b = q.shape[3], v.shape[-1], min(RUN, size)
    runs = (batch, writers, chunks * size // b, b)
    q, w, v = q.reshape(batch, 1, -1, b, readers, cells), w.reshape(*runs, cells), v.reshape(*runs, width)
    decay = 1 - w
    prefix, keys = xp.empty_like(w), xp.empty_like(w)
    prefix[..., 0, :] = decay[..., 0, :]
    for c in range(1, b):
        xp.multiply(prefix[..., c - 1, :], decay[..., c, :], out=prefix[..., c, :])
    reads = xp.zeros((*runs, readers, width), w.dtype)
    for distance in range(b):
        if distance == 0:
            left = w
        elif distance == 1:
            left = w[..., :-1, :] * decay[..., 1:, :]
        else:
            left = left[..., :-1, :]
            left *= decay[..., distance:, :]
        keys[..., b - 1 - distance, :] = left[..., -1, :]
        scores = xp.einsum("bwxsrm,bwxsm->bwxsr", q[:, :, :, distance:], left)
        reads[..., distance:, :, :] += scores[..., None] * v[..., : b - distance, None, :]
    queries = q * prefix[..., None, :]
    over = prefix[..., -1, :]  # the product of decays over a run
    while b < size:
        parts = (batch, writers, -1, 2, b)
        left_keys = keys.reshape(*parts, cells)[:, :, :, 0]
        right_queries = queries.reshape(*parts, readers, cells)[:, :, :, 1]
        target = reads.reshape(*parts, readers, width)[:, :, :, 1]
        found = (rows(right_queries) @ transposed(left_keys)) @ v.reshape(*parts, width)[:, :, :, 0]
        target += found.reshape(target.shape)
        over_left, over_right = over[:, :, 0::2], over[:, :, 1::2]
        right_queries *= over_left[..., None, None, :]
        left_keys *= over_right[..., None, :]
        over, b = over_left * over_right, 2 * b
    by_chunk = (batch, writers, chunks, size)
    queries, keys = queries.reshape(*by_chunk[:3], size * readers, cells), keys.reshape(*by_chunk, cells)
    v, reads = v.reshape(*by_chunk, width), reads.reshape(*by_chunk, readers, width)
    memories = xp.empty((chunks + 1, batch, writers, cells, width), w.dtype)  # before each chunk, and after the last
    xp.matmul(transposed(keys), v, out=memories[1:].transpose(1, 2, 0, 3, 4))  # what each chunk writes
    memories[0] = M
    for x in range(chunks):
        memories[x + 1] += over[:, :, x, :, None] * memories[x]
    reads += (queries @ memories[:-1].transpose(1, 2, 0, 3, 4)).reshape(reads.shape)
    return reads, memories[-1].copy()


def next_memory(chunk: Chunk, whole: Level, M: Array) -> Array:
    return whole.prefix[..., -1, :, None] * M + transposed(chunk.w * whole.suffix) @ chunk.v


def own_scores(q: Array, w: Array) -> Array:
    """q_t . w_t for every pair of heads, (B, W, C, R)."""
    return (q[:, None] @ w[..., None])[..., 0]


def level_scores(level: Level, q: Array, w: Array) -> tuple[Array, Array, Array]:
    """(q_t P_t), (w_s Q_s), and their products (B, W, N, b R, b)."""
    _, right = halves(level.prefix, level.b)
    left_w, _ = halves(w, level.b)
    left_suffix, _ = halves(level.suffix, level.b)
    queries = rows(query_halves(q, level.b) * right[..., None, :])
    keys = left_w * left_suffix
    return queries, keys, queries @ transposed(keys)


def backward(xp: Namespace, chunk: Chunk, M: Array, g: Array, g_M: Array) -> tuple[Array, Array, Array, Array]:
    """Cotangents of q, w, v and the memory before the chunk, given those of its reads and the memory after it."""
    q, w, v = chunk
    found = levels_of(xp, 1 - w)
    whole = found.pop()

    # the reads from the memory before the chunk
    scaled = rows(q[:, None] * whole.prefix[..., None, :])
    d_scaled = (rows(g) @ transposed(M)).reshape(*g.shape[:-1], M.shape[-2])  # B, W, C, R, m
    # contiguous, since their halves are written to through views below
    d_q = xp.ascontiguousarray(xp.einsum("bwcrm,bwcm->bcrm", d_scaled, whole.prefix))
    d_prefix = xp.ascontiguousarray(xp.einsum("bwcrm,bcrm->bwcm", d_scaled, q))
    d_M = transposed(scaled) @ rows(g)

    # the memory after the chunk
    d_prefix[..., -1, :] += xp.einsum("bwmn,bwmn->bwm", g_M, M)
    d_M += whole.prefix[..., -1, :, None] * g_M
    d_kept = v @ transposed(g_M)  # the cotangent of w times its suffix
    d_w, d_suffix = d_kept * whole.suffix, d_kept * w
    d_v = (w * whole.suffix) @ g_M

    # each step's own write
    d_own = (g @ v[..., None])[..., 0]  # B, W, C, R
    d_v += (own_scores(q, w)[..., None, :] @ g)[..., 0, :]
    d_q += xp.einsum("bwcr,bwcm->bcrm", d_own, w)
    d_w += (d_own[..., None, :] @ q[:, None])[..., 0, :]

    for level in reversed(found):
        merged_pullback(xp, level, d_prefix, d_suffix)
        queries, keys, scores = level_scores(level, q, w)
        _, right = halves(level.prefix, level.b)
        left_w, _ = halves(w, level.b)
        left_suffix, _ = halves(level.suffix, level.b)
        left_values, _ = halves(v, level.b)
        g_right = rows(g.reshape(*v.shape[:2], -1, 2, level.b, *g.shape[3:])[:, :, :, 1])  # B, W, N, b R, n
        d_scores = g_right @ transposed(left_values)
        halves(d_v, level.b)[0][...] += transposed(scores) @ g_right
        d_keys = transposed(d_scores) @ queries
        halves(d_w, level.b)[0][...] += d_keys * left_suffix
        halves(d_suffix, level.b)[0][...] += d_keys * left_w
        d_queries = (d_scores @ keys).reshape(*right.shape[:-1], q.shape[2], right.shape[-1])  # B, W, N, b, R, m
        target = query_halves(d_q, level.b)[:, 0]
        target += xp.einsum("bwxsrm,bwxsm->bxsrm", d_queries, right)
        halves(d_prefix, level.b)[1][...] += xp.einsum("bwxsrm,bxsrm->bwxsm", d_queries, query_halves(q, level.b)[:, 0])
    d_w -= d_prefix  # d = 1 - w
    return d_q, d_w, d_v, d_M


@differentiable
def memory_chunked(q: Array, w: Array, v: Array, M0: Array, *, chunk: int | None = None) -> tuple[Pair, Pullback]:
    xp = array_module(q, w, v, M0)
    batch, length, readers, cells = q.shape
    writers, width = v.shape[2:]
    dtype = xp.result_type(q, w, v, M0)
    chunk = chunk or (CHUNK if readers * writers == 1 else CHUNK // 2)
    size = power_of_two(min(chunk, length))
    starts = range(0, length, size)
    reads = xp.empty((batch, length, readers, writers, width), dtype)
    start = M0.astype(dtype)
    last = xp.empty_like(start)

    at_once = not on_host(q) or readers * writers == 1

    def blocks() -> Iterator[slice]:
        """Slices of the batch whose temporaries fit in the cache; on a device, the whole batch."""
        most = writers * readers * size * cells * (KEPT if at_once else 1)
        count = max(1, BLOCK // most) if on_host(q) else max(batch, 1)
        return (slice(b, b + count) for b in range(0, batch, count))

    def load(block: slice, t: int, count: int | None = None) -> Chunk:
        """The chunk that starts at step t (the last one: a shorter power of two) or ``count`` equal chunks, with heads
        before time, padded with steps that change nothing."""
        end = t + (count * size if count else power_of_two(min(size, length - t)))
        parts = [x[block, t:end].astype(dtype, copy=False) for x in (q, w, v)]
        if end > length:
            parts = [xp.pad(x, ((0, 0), (0, end - length), (0, 0), (0, 0))) for x in parts]
        parts = [parts[0], *(x.swapaxes(1, 2) for x in parts[1:])]
        return Chunk(*(xp.ascontiguousarray(x) for x in parts))

    kept = {}  # the memory before every KEPT-th chunk, for each block of the batch
    for block in blocks():
        M = start[block]
        for number, t in enumerate(starts):
            if number % KEPT == 0:
                kept[block.start, t] = M
                if at_once:
                    count = min(KEPT, len(starts) - number)
                    q_x, w_x, v_x = load(block, t, count)
                    q_x = q_x.reshape(len(M), count, size, readers, cells)
                    w_x, v_x = (x.reshape(len(M), writers, count, size, -1) for x in (w_x, v_x))
                    found, M = forward_in_runs(xp, q_x, w_x, v_x, M)
                    found = found.reshape(len(M), writers, count * size, readers, width)
                    reads[block, t : t + count * size] = found[:, :, : length - t].transpose(0, 2, 3, 1, 4)
            if not at_once:
                found, M = forward(xp, load(block, t), M)
                reads[block, t : t + size] = found[:, :, : length - t].transpose(0, 2, 3, 1, 4)
        last[block] = M

    def pullback(g):
        g_reads, g_last = g
        d_q, d_w, d_v = (xp.empty(x.shape, dtype) for x in (q, w, v))
        d_M0 = xp.empty_like(last)
        for block in blocks():
            carried = g_last[block]
            for first in reversed(range(0, len(starts), KEPT)):
                run = starts[first : first + KEPT]
                memories = [kept[block.start, run[0]]]
                for t in run[:-1]:
                    part = load(block, t)
                    memories.append(next_memory(part, levels_of(xp, 1 - part.w)[-1], memories[-1]))
                for t, M in zip(reversed(run), reversed(memories), strict=True):
                    part, stop = load(block, t), min(t + size, length)
                    g_part = xp.zeros((*part.v.shape[:3], readers, width), dtype)  # B, W, C, R, n
                    g_part[:, :, : stop - t] = g_reads[block, t:stop].transpose(0, 3, 1, 2, 4)
                    found = backward(xp, part, M, g_part, carried)
                    d_q[block, t:stop] = found[0][:, : stop - t]
                    d_w[block, t:stop] = found[1].swapaxes(1, 2)[:, : stop - t]
                    d_v[block, t:stop] = found[2].swapaxes(1, 2)[:, : stop - t]
                    carried = found[3]
            d_M0[block] = carried
        return d_q, d_w, d_v, d_M0

    return (reads, last), pullback
