"""The innermost loops of the fused forms, compiled by Numba. Each runs along the cells, so that it vectorizes.

Arguments are whole arrays and indices, never views such as ``M[h, k]``, whose reference counting costs as much as the
loop. Constants have the dtype of the arrays, because ``1 - w`` with a literal 1 would be computed in double precision.
"""

from __future__ import annotations

from autodiff.kernel import blend, inlined, kernel, remains


# ---- the addresses of all heads ----
@kernel
def move_heads(a, s, out):
    """a_t[i] = left a[i+1] + stay a[i] + right a[i-1], cyclic."""
    for h in range(len(a)):
        move(a, h, s[h, 0], s[h, 1], s[h, 2], out)


@kernel
def move_heads_back(a, s, g, d_s, out):
    for h in range(len(a)):
        move_back(a, h, s, g, h, d_s, out)


@inlined
def move(a, h, left, stay, right, out):
    m = a.shape[1]
    out[h, 0] = left * a[h, 1 % m] + stay * a[h, 0] + right * a[h, m - 1]
    for i in range(1, m - 1):
        out[h, i] = left * a[h, i + 1] + stay * a[h, i] + right * a[h, i - 1]
    if m > 1:
        out[h, m - 1] = left * a[h, 0] + stay * a[h, m - 1] + right * a[h, m - 2]


@inlined
def move_back(a, h, s, g, k, d_s, out):
    """From g[k], the cotangent of a[h] moved by s[h]: that of a[h] is g[k] moved with left and right exchanged."""
    m = a.shape[1]
    left, stay, right = g[k, m - 1] * a[h, 0], g[k, m - 1] * a[h, m - 1], g[k, 0] * a[h, m - 1]
    for i in range(m - 1):  # ds[j] = sum_i g[i] a[i - j]
        left += g[k, i] * a[h, i + 1]
        stay += g[k, i] * a[h, i]
        right += g[k, i + 1] * a[h, i]
    d_s[h, 0], d_s[h, 1], d_s[h, 2] = left, stay, right
    move(g, k, s[h, 2], s[h, 1], s[h, 0], out)


# ---- the memory, stored as (W, n, m): a row has one number of every cell ----
@kernel
def write_and_read_heads(M, w, v, q, reads):
    """M = (1 - w) M + w v in place, exact for w = 0 and w = 1; then reads (R, W, n) = q M."""
    readers = len(q)
    for h in range(len(M)):
        for k in range(M.shape[1]):
            if readers >= 4:
                write_and_read_four(M, h, k, w, v[h, k], q, reads)
                r = 4
            else:
                write_and_read(M, h, k, w, v[h, k], q, reads)
                r = 1
            while r < readers:
                read(M, h, k, q, r, reads)
                r += 1


@inlined
def write_and_read_four(M, h, k, w, v, q, reads):
    """Write, and read for the first four read heads while each number is in a register."""
    r0 = M.dtype.type(0)
    r1, r2, r3 = r0, r0, r0
    for i in range(M.shape[2]):
        x = blend(w[h, i], M[h, k, i], v)
        M[h, k, i] = x
        r0 += q[0, i] * x
        r1 += q[1, i] * x
        r2 += q[2, i] * x
        r3 += q[3, i] * x
    reads[0, h, k], reads[1, h, k], reads[2, h, k], reads[3, h, k] = r0, r1, r2, r3


@inlined
def write_and_read(M, h, k, w, v, q, reads):
    found = M.dtype.type(0)
    for i in range(M.shape[2]):
        x = blend(w[h, i], M[h, k, i], v)
        M[h, k, i] = x
        found += q[0, i] * x
    reads[0, h, k] = found


@inlined
def read(M, h, k, q, r, reads):
    found = M.dtype.type(0)
    for i in range(M.shape[2]):
        found += q[r, i] * M[h, k, i]
    reads[r, h, k] = found


@kernel
def write_heads(M, j, w, v):
    """Compute M[j + 1], the memory after step j, from M[j]."""
    for h in range(M.shape[1]):
        for k in range(M.shape[2]):
            for i in range(M.shape[3]):
                M[j + 1, h, k, i] = blend(w[h, i], M[j, h, k, i], v[h, k])


@kernel
def reads_back(M, j, g, g_q):
    """Add to g_q, the cotangent of the read addresses, what comes from reading M[j]: the sum of g M over rows."""
    _, writers, width, _ = M.shape
    readers = len(g_q)
    whole_r, whole_k = readers - readers % 2, width - width % 4
    for h in range(writers):
        for r in range(0, whole_r, 2):
            for k in range(0, whole_k, 4):
                readers_back_2x4(M, j, h, k, g, r, g_q)
            for k in range(whole_k, width):
                reader_back(M, j, h, k, g, r, g_q)
                reader_back(M, j, h, k, g, r + 1, g_q)
        for r in range(whole_r, readers):
            for k in range(width):
                reader_back(M, j, h, k, g, r, g_q)


@kernel
def writes_back(carried, M, j, q, w, v, g, g_w, d_v):
    """carried, the cotangent of M[j + 1] without its reads, becomes that of M[j]; that of w is added to g_w."""
    writers, width, _ = carried.shape
    readers = len(q)
    for h in range(writers):
        for k in range(width):
            if readers >= 4:
                for r in range(4, readers):
                    memory_back(carried, h, k, g, r, q)
                d_v[h, k] = write_back_four(carried, M, j, h, k, w, v[h, k], g, q, g_w)
            else:
                for r in range(readers):
                    memory_back(carried, h, k, g, r, q)
                d_v[h, k] = write_back(carried, M, j, h, k, w, v[h, k], g_w)


@inlined
def readers_back_2x4(M, j, h, k, g, r, g_q):
    """Two read heads and four rows at a time, so that each number is used twice or four times once it is loaded."""
    a0, a1, a2, a3 = g[r, h, k], g[r, h, k + 1], g[r, h, k + 2], g[r, h, k + 3]
    b0, b1, b2, b3 = g[r + 1, h, k], g[r + 1, h, k + 1], g[r + 1, h, k + 2], g[r + 1, h, k + 3]
    for i in range(M.shape[3]):
        x0, x1, x2, x3 = M[j, h, k, i], M[j, h, k + 1, i], M[j, h, k + 2, i], M[j, h, k + 3, i]
        g_q[r, i] += a0 * x0 + a1 * x1 + a2 * x2 + a3 * x3
        g_q[r + 1, i] += b0 * x0 + b1 * x1 + b2 * x2 + b3 * x3


@inlined
def reader_back(M, j, h, k, g, r, g_q):
    for i in range(M.shape[3]):
        g_q[r, i] += g[r, h, k] * M[j, h, k, i]


@inlined
def memory_back(carried, h, k, g, r, q):
    for i in range(q.shape[1]):
        carried[h, k, i] += g[r, h, k] * q[r, i]


@inlined
def write_back_four(carried, M, j, h, k, w, v, g, q, g_w):
    """Go back through the first four read heads and the write; return the cotangent of v."""
    g0, g1, g2, g3 = g[0, h, k], g[1, h, k], g[2, h, k], g[3, h, k]
    g_v = carried.dtype.type(0)
    for i in range(q.shape[1]):
        c = carried[h, k, i] + g0 * q[0, i] + g1 * q[1, i] + g2 * q[2, i] + g3 * q[3, i]
        g_v += w[h, i] * c
        g_w[h, i] += c * (v - M[j, h, k, i])
        carried[h, k, i] = remains(w[h, i], c)
    return g_v


@inlined
def write_back(carried, M, j, h, k, w, v, g_w):
    g_v = carried.dtype.type(0)
    for i in range(w.shape[1]):
        c = carried[h, k, i]
        g_v += w[h, i] * c
        g_w[h, i] += c * (v - M[j, h, k, i])
        carried[h, k, i] = remains(w[h, i], c)
    return g_v
