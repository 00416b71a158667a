"""The innermost loops of the fused forms, compiled by Numba. Each runs along the cells, so that it becomes vector code.

Sums may be reordered (``reassoc``), the same way every time; nothing is assumed about zeros, infinities or NaN.
Kernels are serial and release the interpreter's lock: threads call them side by side, one for each shard.
"""

from __future__ import annotations

from numba import njit

kernel = njit(nogil=True, cache=True, error_model="numpy", fastmath={"reassoc", "contract", "nsz"})


# one head's address
@kernel
def move(a, left, stay, right, out):
    """a_t[i] = left a[i+1] + stay a[i] + right a[i-1], cyclic."""
    m = len(a)
    out[0] = left * a[1 % m] + stay * a[0] + right * a[m - 1]
    for i in range(1, m - 1):
        out[i] = left * a[i + 1] + stay * a[i] + right * a[i - 1]
    if m > 1:
        out[m - 1] = left * a[0] + stay * a[m - 1] + right * a[m - 2]


@kernel
def move_heads(a, s, out):
    for h in range(len(a)):
        move(a[h], s[h, 0], s[h, 1], s[h, 2], out[h])


@kernel
def move_heads_back(a, s, g, d_s, out):
    """Back through a move of every head: a step back is a step with left and right exchanged."""
    m = a.shape[1]
    for h in range(len(a)):
        a_h, g_h = a[h], g[h]
        left, stay, right = g_h[m - 1] * a_h[0], g_h[m - 1] * a_h[m - 1], g_h[0] * a_h[m - 1]
        for i in range(m - 1):  # ds[j] = sum_i g[i] a[i - j]
            left += g_h[i] * a_h[i + 1]
            stay += g_h[i] * a_h[i]
            right += g_h[i + 1] * a_h[i]
        d_s[h, 0], d_s[h, 1], d_s[h, 2] = left, stay, right
        move(g_h, s[h, 2], s[h, 1], s[h, 0], out[h])


# one number of every cell: a row of the memory, which lies as (W, n, m)
@kernel
def write(row, w, v):
    """M = (1 - w) M + w v in place; exact for w = 0 and w = 1."""
    for i in range(len(row)):
        row[i] = (1 - w[i]) * row[i] + w[i] * v


@kernel
def write_beside(row, w, v, after):
    """The same into another row. With after = row the vector code would not be used."""
    for i in range(len(row)):
        after[i] = (1 - w[i]) * row[i] + w[i] * v


@kernel
def read(row, q):
    found = q[0] * row[0]
    for i in range(1, len(row)):
        found += q[i] * row[i]
    return found


@kernel
def read_four(row, q, first):
    """Four readers at once: each cell is loaded once."""
    q0, q1, q2, q3 = q[first], q[first + 1], q[first + 2], q[first + 3]
    x = row[0]
    r0, r1, r2, r3 = q0[0] * x, q1[0] * x, q2[0] * x, q3[0] * x
    for i in range(1, len(row)):
        x = row[i]
        r0 += q0[i] * x
        r1 += q1[i] * x
        r2 += q2[i] * x
        r3 += q3[i] * x
    return r0, r1, r2, r3


@kernel
def add_four(y, g0, x0, g1, x1, g2, x2, g3, x3):
    for i in range(len(y)):
        y[i] += g0 * x0[i] + g1 * x1[i] + g2 * x2[i] + g3 * x3[i]


@kernel
def add_rows(y, g, x):
    """y += sum_j g[j] x[j], four rows of x at a time."""
    count, j = len(g), 0
    while j + 4 <= count:
        add_four(y, g[j], x[j], g[j + 1], x[j + 1], g[j + 2], x[j + 2], g[j + 3], x[j + 3])
        j += 4
    while j < count:
        x_j = x[j]
        for i in range(len(y)):
            y[i] += g[j] * x_j[i]
        j += 1


@kernel
def write_back(carried, before, w, v, g_w):
    """Back through a write: the cotangent of v; g_w gains that of w; carried becomes that of the memory before."""
    g_v = w[0] * carried[0]
    for i in range(1, len(w)):
        g_v += w[i] * carried[i]
    for i in range(len(w)):
        g_w[i] += carried[i] * (v - before[i])
        carried[i] = (1 - w[i]) * carried[i]
    return g_v


# one step of all heads
@kernel
def write_heads(M, w, v):
    for h in range(len(M)):
        for k in range(M.shape[1]):
            write(M[h, k], w[h], v[h, k])


@kernel
def write_heads_beside(M, w, v, after):
    for h in range(len(M)):
        for k in range(M.shape[1]):
            write_beside(M[h, k], w[h], v[h, k], after[h, k])


@kernel
def read_heads(M, q, reads):
    """reads (R, W, n)"""
    readers = len(q)
    for h in range(len(M)):
        for k in range(M.shape[1]):
            row, r = M[h, k], 0
            while r + 4 <= readers:
                reads[r, h, k], reads[r + 1, h, k], reads[r + 2, h, k], reads[r + 3, h, k] = read_four(row, q, r)
                r += 4
            while r < readers:
                reads[r, h, k] = read(row, q[r])
                r += 1


@kernel
def heads_back(carried, before, after, q, w, v, g_reads, g_q, g_w, d_v):
    """Back through the reads, then through the writes; g_q and g_w gain what comes from here."""
    for h in range(len(before)):
        for r in range(len(q)):
            add_rows(g_q[r], g_reads[r, h], after[h])
        for k in range(before.shape[1]):
            add_rows(carried[h, k], g_reads[:, h, k], q)
            d_v[h, k] = write_back(carried[h, k], before[h, k], w[h], v[h, k], g_w[h])
