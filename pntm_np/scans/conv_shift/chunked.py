"""Exact, by matrix products: the shifts of a chunk are composed into kernels, then applied at once.

After c of a chunk's C time steps, the address is the chunk's initial address convolved with the composition of c
shifts, a kernel K_c of 2 C + 1 taps; kernels are composed for all chunks at once. With V[j, i] = a[i + j - C], the
initial address as each tap sees it, the addresses of a chunk are one product K V, whose last row starts the next chunk.
Taps that meet at the same cell add up, so few cells need no special case. No logarithm, no epsilon, no division.
"""

from __future__ import annotations

from autodiff import Array, DType, Namespace, Pair, Pullback, array_module, differentiable

CHUNK = 8  # longer chunks compute more taps that are hardly used; shorter chunks make more and smaller operations


def compose(xp: Namespace, s: Array) -> Array:
    """Kernels K_0 .. K_C of every chunk: s (G, N, C, 3) -> (G, N, C + 1, 2 C + 1).

    Tap j of K_c weighs a[i + j - C]: a step left brings in the next cell, a step right the one before.
    """
    groups, chunks, size, _ = s.shape
    kernels = xp.zeros((groups, chunks, size + 1, 2 * size + 1), s.dtype)
    kernels[:, :, 0, size] = 1
    for c in range(size):
        before, after = kernels[:, :, c], kernels[:, :, c + 1]
        left, stay, right = s[:, :, c, 0:1], s[:, :, c, 1:2], s[:, :, c, 2:3]
        after += before * stay
        after[..., 1:] += before[..., :-1] * left
        after[..., :-1] += before[..., 1:] * right
    return kernels


def compose_pullback(xp: Namespace, s: Array, kernels: Array, g: Array) -> Array:
    """The cotangent of s, given g, that of the kernels, which is overwritten."""
    d_s = xp.empty_like(s)
    for c in reversed(range(s.shape[2])):
        before, d_after, d_before = kernels[:, :, c], g[:, :, c + 1], g[:, :, c]
        left, stay, right = s[:, :, c, 0:1], s[:, :, c, 1:2], s[:, :, c, 2:3]
        d_s[:, :, c, 0] = xp.sum(before[..., :-1] * d_after[..., 1:], axis=-1)
        d_s[:, :, c, 1] = xp.sum(before * d_after, axis=-1)
        d_s[:, :, c, 2] = xp.sum(before[..., 1:] * d_after[..., :-1], axis=-1)
        d_before += d_after * stay
        d_before[..., :-1] += d_after[..., 1:] * left
        d_before[..., 1:] += d_after[..., :-1] * right
    return d_s


class Taps:
    """The matrix V of an initial address (G, m), in buffers that all chunks share."""

    def __init__(self, xp: Namespace, groups: int, cells: int, size: int, dtype: DType) -> None:
        self.xp, self.cells, self.size = xp, cells, size
        self.ring = xp.arange(-size, cells + size) % cells  # the ring of cells, continued by ``size`` on each side
        self.around = xp.empty((groups, cells + 2 * size), dtype)
        self.window = xp.lib.stride_tricks.sliding_window_view(self.around, cells, axis=-1)
        self.matrix = xp.empty((groups, 2 * size + 1, cells), dtype)

    def of(self, a: Array) -> Array:
        """V (G, 2 C + 1, m)."""
        self.around[...] = self.xp.take(a, self.ring, axis=1)
        self.matrix[...] = self.window
        return self.matrix

    def fold(self, g: Array) -> Array:
        """The cotangent of the address, given that of V: a sum over all places where a cell appears."""
        xp, cells = self.xp, self.cells
        laid = xp.zeros((g.shape[0], cells + 2 * self.size), g.dtype)
        for j in range(2 * self.size + 1):
            laid[:, j : j + cells] += g[:, j]
        ring = laid[:, :cells].copy()
        for first in range(cells, laid.shape[1], cells):  # cells beyond one turn of the ring are added
            piece = laid[:, first : first + cells]
            ring[:, : piece.shape[1]] += piece
        return xp.roll(ring, -self.size, -1)


@differentiable
def conv_shift_chunked(s: Array, a0: Array, *, chunk: int = CHUNK) -> tuple[Pair, Pullback]:
    xp = array_module(s, a0)
    batch, length, *heads, _ = s.shape
    cells, dtype = a0.shape[-1], xp.result_type(s, a0)
    chunks = -(-length // chunk)
    size = -(-length // chunks)  # equal chunks need hardly any padding
    groups = a0.size // cells

    def by_chunk(x: Array) -> Array:
        """(B, T, H, k) -> (G, N, C, k), the last chunk padded with zeros."""
        x = x.reshape(batch, length, groups // max(batch, 1), x.shape[-1]).swapaxes(1, 2)
        x = x.reshape(groups, length, x.shape[-1])
        if chunks * size != length:
            x = xp.pad(x, ((0, 0), (0, chunks * size - length), (0, 0)))
        return x.reshape(groups, chunks, size, x.shape[-1])

    def by_time(x: Array) -> Array:
        """(G, T or more, k) -> (B, T, H, k)."""
        x = x[:, :length]
        x = x.reshape(batch, groups // max(batch, 1), length, x.shape[-1]).swapaxes(1, 2)
        return x.reshape(batch, length, *heads, x.shape[-1])

    shifts = by_chunk(s.astype(dtype))
    if chunks * size != length:
        shifts[:, -1, length % size :, 1] = 1  # what fills up the last chunk stays
    kernels = compose(xp, shifts)
    taps = Taps(xp, groups, cells, size, dtype)
    addresses = xp.empty((groups, chunks * size + 1, cells), dtype)
    addresses[:, 0] = a0.reshape(groups, cells)
    for t in range(0, chunks * size, size):
        xp.matmul(kernels[:, t // size, 1:], taps.of(addresses[:, t]), out=addresses[:, t + 1 : t + size + 1])
    last = addresses[:, -1].copy()
    starts = addresses[:, :-1:size].copy()  # the backward pass recomputes the other addresses

    def pullback(g):
        g_addresses, g_last = g
        g_rows = by_chunk(g_addresses)
        carried = g_last.reshape(groups, cells)
        kernels = compose(xp, shifts)
        d_kernels = xp.empty_like(kernels)
        taps = Taps(xp, groups, cells, size, dtype)
        for k in reversed(range(chunks)):
            d_rows = xp.concatenate([g_rows[:, k], carried[:, None]], axis=1)
            d_kernels[:, k] = d_rows @ taps.of(starts[:, k]).swapaxes(1, 2)
            carried = taps.fold(kernels[:, k].swapaxes(1, 2) @ d_rows)
        d_shifts = compose_pullback(xp, shifts, kernels, d_kernels).reshape(groups, chunks * size, 3)
        return by_time(d_shifts), carried.reshape(a0.shape)

    return (by_time(addresses), last.reshape(a0.shape)), pullback
