"""One time step of all NTM heads of a sequence, and its backward pass, as compiled loops along the cells.

The memory is stored as (n, m): a row has one number of every cell. Heads 0 .. H-1 read, heads H .. 2H-1 write. ``raw``
holds the heads' controls before their activation, in the order k, beta, g, s, gamma, add, erase.
"""

from __future__ import annotations

import numpy as np

from autodiff import scalar
from autodiff.compiled import largest
from autodiff.kernel import blend, kernel
from pntm_np.models.ntm.bounds import LOG_FLOOR, NORM_FLOOR, STEEPEST
from pntm_np.models.products import dot, dots, product
from pntm_np.scans.inner import move, move_back


@kernel
def activate(raw, b, heads, n, key, scalars, s, add, erase):
    """Fill key (2H, n), scalars (2H, 3) with beta, gate and gamma, s (2H, 3), and add and erase (H, n)."""
    both, place = 2 * heads, 2 * heads * n
    one, steepest = key.dtype.type(1), key.dtype.type(STEEPEST)
    for h in range(both):
        for j in range(n):
            key[h, j] = scalar.tanh(raw[b, h * n + j])
        beta, gamma = scalar.softplus(raw[b, place + h]), one + scalar.softplus(raw[b, place + 5 * both + h])
        scalars[h, 0] = steepest if beta > steepest else beta
        scalars[h, 1] = scalar.sigmoid(raw[b, place + both + h])
        scalars[h, 2] = steepest if gamma > steepest else gamma
        at = place + 2 * both + 3 * h
        top = max(raw[b, at], raw[b, at + 1], raw[b, at + 2])
        for k in range(3):
            s[h, k] = scalar.exp(raw[b, at + k] - top)
        total = s[h, 0] + s[h, 1] + s[h, 2]
        for k in range(3):
            s[h, k] = s[h, k] / total
    place += 6 * both
    for h in range(heads):
        for j in range(n):
            add[h, j] = scalar.tanh(raw[b, place + h * n + j])
            erase[h, j] = scalar.sigmoid(raw[b, place + (heads + h) * n + j])


@kernel
def activate_back(raw, b, heads, n, key, scalars, s, add, erase, d_key, d_scalars, d_s, d_add, d_erase, d_raw):
    both, place = 2 * heads, 2 * heads * n
    one, zero, steepest = key.dtype.type(1), key.dtype.type(0), key.dtype.type(STEEPEST)
    for h in range(both):
        for j in range(n):
            d_raw[b, h * n + j] = d_key[h, j] * (one - key[h, j] * key[h, j])
        d_beta = zero if scalars[h, 0] >= steepest else d_scalars[h, 0]
        d_gamma = zero if scalars[h, 2] >= steepest else d_scalars[h, 2]
        d_raw[b, place + h] = d_beta * scalar.sigmoid(raw[b, place + h])
        d_raw[b, place + both + h] = d_scalars[h, 1] * scalars[h, 1] * (one - scalars[h, 1])
        d_raw[b, place + 5 * both + h] = d_gamma * scalar.sigmoid(raw[b, place + 5 * both + h])
        along = d_s[h, 0] * s[h, 0] + d_s[h, 1] * s[h, 1] + d_s[h, 2] * s[h, 2]
        for k in range(3):
            d_raw[b, place + 2 * both + 3 * h + k] = s[h, k] * (d_s[h, k] - along)
    place += 6 * both
    for h in range(heads):
        for j in range(n):
            d_raw[b, place + h * n + j] = d_add[h, j] * (one - add[h, j] * add[h, j])
            d_raw[b, place + (heads + h) * n + j] = d_erase[h, j] * erase[h, j] * (one - erase[h, j])


@kernel
def spread(s, share, blurred):
    """Spread a share of the shifts evenly over all three; with a share of 0, blurred equals s to the bit."""
    third, rest = share / s.dtype.type(3), s.dtype.type(1) - share
    for h in range(len(s)):
        for k in range(3):
            blurred[h, k] = rest * s[h, k] + third


@kernel
def softmax_row(x, h, rate, y):
    """y[h] = softmax(rate x[h]) for a rate >= 0."""
    m = x.shape[1]
    top = rate * largest(x, h, m)
    for i in range(m):
        y[h, i] = scalar.exp(rate * x[h, i] - top)
    total = x.dtype.type(0)
    for i in range(m):
        total += y[h, i]
    for i in range(m):
        y[h, i] = y[h, i] / total


@kernel
def transpose(x, y):
    """y = x.T"""
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            y[j, i] = x[i, j]


@kernel
def cell_norms(M, norms):
    """norms[0, i] = |M_i|, at least the floor."""
    n, m = M.shape
    floor = M.dtype.type(NORM_FLOOR)
    for i in range(m):
        norms[0, i] = M[0, i] * M[0, i]
    for j in range(1, n):
        for i in range(m):
            norms[0, i] += M[j, i] * M[j, i]
    for i in range(m):
        norms[0, i] = max(np.sqrt(norms[0, i]), floor)


@kernel
def key_norm(key, h):
    total = key.dtype.type(0)
    for j in range(key.shape[1]):
        total += key[h, j] * key[h, j]
    return np.sqrt(total)


@kernel
def address(M, a, key, scalars, s, norms, similarity, content, mixed, moved, logs, after):
    """Write all heads' addresses to after (2H, m), given the previous ones (a) and the memory; the rest is scratch."""
    floor, log_floor = M.dtype.type(NORM_FLOOR), M.dtype.type(LOG_FLOOR)
    both, m = a.shape
    cell_norms(M, norms)
    for h in range(both):
        length = max(key_norm(key, h), floor)
        beta, gate, gamma = scalars[h, 0], scalars[h, 1], scalars[h, 2]
        for i in range(m):
            similarity[h, i] = M.dtype.type(0)
        product(key, h, M, similarity, m)
        for i in range(m):
            similarity[h, i] = similarity[h, i] / (length * norms[0, i])  # K(k, M_i)
        softmax_row(similarity, h, beta, content)  # a^c
        for i in range(m):
            mixed[h, i] = blend(gate, a[h, i], content[h, i])  # a^g
        move(mixed, h, s[h, 0], s[h, 1], s[h, 2], moved)  # a^s
        for i in range(m):
            logs[h, i] = scalar.log(moved[h, i] + log_floor)
        softmax_row(logs, h, gamma, after)  # formulation (b)


@kernel
def address_back(
    M, a, key, scalars, s, norms, similarity, content, mixed, moved, logs, after, g, d_M, d_key, d_scalars, d_s,
    row, d_dot, key_t, g_norms,
):  # fmt: skip
    """g (2H, m), the cotangent of the addresses, becomes that of the previous ones; adds to d_M that of M."""
    both, m = a.shape
    n = len(M)
    one, zero = M.dtype.type(1), M.dtype.type(0)
    floor, log_floor = M.dtype.type(NORM_FLOOR), M.dtype.type(LOG_FLOOR)
    for i in range(m):
        g_norms[0, i] = zero
    for h in range(both):
        length = key_norm(key, h)
        floored = max(length, floor)
        beta, gate, gamma = scalars[h, 0], scalars[h, 1], scalars[h, 2]
        along = dot(g, h, after, h, m)
        d_gamma = zero
        for i in range(m):
            scaled = after[h, i] * (g[h, i] - along)
            d_gamma += scaled * logs[h, i]
            row[0, i] = gamma * scaled / (moved[h, i] + log_floor)  # d_moved
        move_back(mixed, h, s, row, 0, d_s, row[1:])  # d_mixed
        d_gate, along = zero, zero
        for i in range(m):
            d_gate += row[1, i] * (content[h, i] - a[h, i])
            along += gate * row[1, i] * content[h, i]
            g[h, i] = (one - gate) * row[1, i]
        d_beta, d_length = zero, zero
        for i in range(m):
            logit = content[h, i] * (gate * row[1, i] - along)
            d_beta += logit * similarity[h, i]
            d_dot[h, i] = beta * logit / (floored * norms[0, i])
            d_norms = -d_dot[h, i] * similarity[h, i]
            d_length += d_norms * norms[0, i]
            g_norms[0, i] += d_norms * floored
        d_scalars[h, 0], d_scalars[h, 1], d_scalars[h, 2] = d_beta, d_gate, d_gamma
        slope = d_length / length if length > floor else zero
        dots(d_dot, h, M, d_key, m)
        for j in range(n):
            d_key[h, j] += slope * key[h, j]
    for i in range(m):
        g_norms[0, i] = g_norms[0, i] / norms[0, i] if norms[0, i] > floor else zero
    transpose(key, key_t)
    for j in range(n):
        product(key_t, j, d_dot, d_M, m)
        for i in range(m):
            d_M[j, i] += g_norms[0, i] * M[j, i]


@kernel
def write_and_read(M, after, heads, erase, add, kept, gained, written, reads, b):
    """written = M after the write heads have erased and added; reads[b] gets what the read heads find in it."""
    n, m = M.shape
    one, zero = M.dtype.type(1), M.dtype.type(0)
    for j in range(n):
        for i in range(m):
            kept[0, i], gained[0, i] = one, zero
        for h in range(heads):
            e, x = erase[h, j], add[h, j]
            for i in range(m):
                kept[0, i] *= one - after[heads + h, i] * e
                gained[0, i] += after[heads + h, i] * x
        for i in range(m):
            written[j, i] = kept[0, i] * M[j, i] + gained[0, i]
    found = reads[b].reshape((heads, n))
    for h in range(heads):
        dots(after, h, written, found, m)


@kernel
def write_and_read_back(M, after, heads, erase, add, written, before, g_reads, reads_t, b, g_M, g, d_erase, d_add, row):
    """g_M, the cotangent of ``written``, becomes that of M through the write; adds the addresses' to g (2H, m)."""
    n, m = M.shape
    one = M.dtype.type(1)
    of_reads = g_reads[b].reshape((heads, n))
    for h in range(heads):
        product(of_reads, h, written, g, m)
    transpose(of_reads, reads_t)
    for j in range(n):
        product(reads_t, j, after[:heads], g_M, m)
    writing, g_writing = after[heads:], g[heads:]
    for h in range(heads):
        dots(writing, h, g_M, d_add, m)
        product(add, h, g_M, g_writing, m)
    for j in range(n):
        for i in range(m):
            before[0, i] = one
            row[0, i] = g_M[j, i] * M[j, i]  # times the factors of the later heads
        for h in range(1, heads):
            e = erase[h - 1, j]
            for i in range(m):
                before[h, i] = before[h - 1, i] * (one - after[heads + h - 1, i] * e)
        e = erase[heads - 1, j]
        for i in range(m):
            g_M[j, i] *= before[heads - 1, i] * (one - after[2 * heads - 1, i] * e)  # what was kept
        for h in range(heads - 1, -1, -1):
            e, total = erase[h, j], M.dtype.type(0)
            for i in range(m):
                d_factor = before[h, i] * row[0, i]
                total += after[heads + h, i] * d_factor
                g[heads + h, i] -= d_factor * e
                row[0, i] *= one - after[heads + h, i] * e
            d_erase[h, j] = -total


@kernel
def heads_forward(raw, heads, blur, a, M, before, after, reads):
    """a (slots, B, 2H, m) and M (slots, B, n, m): compute slot ``after`` from slot ``before``, and reads (B, H n). blur
    (B,) is the share of each row's shifts that is spread evenly."""
    _, batch, both, m = a.shape
    n = M.shape[2]
    dtype = M.dtype
    key, add, erase = np.empty((both, n), dtype), np.empty((heads, n), dtype), np.empty((heads, n), dtype)
    scalars, s, norms = np.empty((both, 3), dtype), np.empty((both, 3), dtype), np.empty((1, m), dtype)
    similarity, content, mixed = np.empty((both, m), dtype), np.empty((both, m), dtype), np.empty((both, m), dtype)
    moved, logs, blurred = np.empty((both, m), dtype), np.empty((both, m), dtype), np.empty_like(s)
    kept, gained = np.empty((1, m), dtype), np.empty((1, m), dtype)
    for b in range(batch):
        activate(raw, b, heads, n, key, scalars, s, add, erase)
        spread(s, blur[b], blurred)
        now, then = a[before, b], a[after, b]
        address(M[before, b], now, key, scalars, blurred, norms, similarity, content, mixed, moved, logs, then)
        write_and_read(M[before, b], then, heads, erase, add, kept, gained, M[after, b], reads, b)


@kernel
def heads_backward(raw, heads, blur, a, M, t, g_reads, g, g_M, d_raw):
    """g (B, 2H, m) and g_M (B, n, m), cotangents of the state after step t, become those of the state before it."""
    _, batch, both, m = a.shape
    n = M.shape[2]
    dtype = M.dtype
    key, add, erase = np.empty((both, n), dtype), np.empty((heads, n), dtype), np.empty((heads, n), dtype)
    d_key, d_add, d_erase = np.empty_like(key), np.empty_like(add), np.empty_like(erase)
    scalars, s, norms = np.empty((both, 3), dtype), np.empty((both, 3), dtype), np.empty((1, m), dtype)
    d_scalars, d_s, blurred, g_norms = np.empty_like(scalars), np.empty_like(s), np.empty_like(s), np.empty_like(norms)
    similarity, content, mixed = np.empty((both, m), dtype), np.empty((both, m), dtype), np.empty((both, m), dtype)
    moved, logs, again = np.empty((both, m), dtype), np.empty((both, m), dtype), np.empty((both, m), dtype)
    products, row, d_dot = np.empty((heads, m), dtype), np.empty((2, m), dtype), np.empty((both, m), dtype)
    key_t, reads_t = np.empty((n, both), dtype), np.empty((n, heads), dtype)
    for b in range(batch):
        M_b, a_b, after, written, g_b, g_M_b = M[t, b], a[t, b], a[t + 1, b], M[t + 1, b], g[b], g_M[b]
        activate(raw, b, heads, n, key, scalars, s, add, erase)
        spread(s, blur[b], blurred)
        address(M_b, a_b, key, scalars, blurred, norms, similarity, content, mixed, moved, logs, again)
        write_and_read_back(
            M_b, after, heads, erase, add, written, products, g_reads, reads_t, b, g_M_b, g_b, d_erase, d_add, row
        )
        address_back(
            M_b, a_b, key, scalars, blurred, norms, similarity, content, mixed, moved, logs, after, g_b, g_M_b,
            d_key, d_scalars, d_s, row, d_dot, key_t, g_norms,
        )  # fmt: skip
        for h in range(both):
            for k in range(3):
                d_s[h, k] *= M.dtype.type(1) - blur[b]
        activate_back(raw, b, heads, n, key, scalars, s, add, erase, d_key, d_scalars, d_s, d_add, d_erase, d_raw)
