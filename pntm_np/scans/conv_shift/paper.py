"""Algorithm 1: in the frequency domain a shift is a product, and many shifts are a sum of logarithms.

psi_t = log~ FFT(k_t), a_t = clamp(IFFT(exp(psi_0 + .. + psi_t))), where k_0 is the initial address and log~ is the
approximate logarithm log(x + EPS x / |x|), with log EPS at 0. In polar form x = r e^(i theta) it is
log(r + EPS) + i theta, from which its gradient follows. The sums are in double precision: the phase of a head that
keeps moving one way grows without bound, and single precision loses it after a few thousand time steps.
"""

from __future__ import annotations

import math

from autodiff import Array, Namespace, Pair, Pullback, array_module, differentiable, irfft, rfft, vjp
from pntm_np.scans.log_space import EPS

ZERO = 1e-12  # a smaller modulus is a zero with rounding error: it has no phase, and the phase no gradient


def log_polar(f: Array) -> tuple[Array, Pullback]:
    """log~ of a spectrum, and its pullback."""
    xp = array_module(f)
    r = abs(f)
    zero = r < ZERO
    unit = xp.where(zero, 1.0, f / xp.where(zero, 1.0, r))  # e^(i theta)
    y = xp.log(xp.where(zero, 0.0, r) + EPS) + xp.log(unit)  # the second is i theta

    def pullback(g: Array) -> Array:
        d_r, d_theta = g.real / (r + EPS), g.imag / xp.where(zero, 1.0, r)
        return xp.where(zero, 0.0, unit * (d_r + 1j * d_theta))

    return y, pullback


def offset_spectra(xp: Namespace, cells: int) -> Array:
    """The spectra (3, m // 2 + 1) of the offsets (-1, 0, +1): FFT(k_t) is s_t times this."""
    omega = 2 * math.pi / cells * xp.arange(cells // 2 + 1)
    offsets = xp.arange(-1, 2)[:, None]
    return xp.exp(-1j * omega * offsets)


@differentiable
def conv_shift_paper(s: Array, a0: Array) -> tuple[Pair, Pullback]:
    xp = array_module(s, a0)
    cells, dtype = a0.shape[-1], xp.result_type(s, a0)
    basis = offset_spectra(xp, cells)
    start, start_pullback = vjp(rfft, a0.astype(xp.float64))
    spectra = xp.concatenate([start[:, None], s.astype(xp.float64) @ basis], axis=1)  # k_0, k_1 .. k_T
    psi, log_pullback = log_polar(spectra)
    products = xp.exp(xp.cumsum(psi, axis=1))
    raw, irfft_pullback = vjp(lambda z: irfft(z, n=cells), products)
    clamped = xp.minimum(xp.maximum(raw, 0), 1)

    def pullback(g):
        g_addresses, g_last = g
        g_all = xp.concatenate([g_addresses, g_last[:, None]], axis=1).astype(xp.float64) * (raw == clamped)
        d_products = irfft_pullback(g_all)[0] * products.conj()
        d_psi = xp.flip(xp.cumsum(xp.flip(d_products, 1), axis=1), 1)
        d_spectra = log_pullback(d_psi)
        d_s = (d_spectra[:, 1:] @ basis.conj().T).real
        return d_s, start_pullback(d_spectra[:, 0])[0]

    addresses = clamped.astype(dtype)
    return (addresses[:, :-1].copy(), addresses[:, -1].copy()), pullback
