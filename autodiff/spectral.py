"""Real Fourier transforms. A cotangent is dL/dRe + i dL/dIm, so the pullback of a transform is its adjoint.

The half spectrum of a real signal represents the whole spectrum: every bin stands for two, except the first and, if the
length is even, the last. The adjoints weight the bins accordingly.
"""

from __future__ import annotations

from autodiff import expect
from autodiff.backend import Array, Namespace, array_module, on_host
from autodiff.tape import Pullback, differentiable


def _multiplicity(xp: Namespace, n: int, at: int, like: Array) -> Array:
    """How many bins of the whole spectrum each bin of the half spectrum stands for, along axis ``at``."""
    k = xp.arange(n // 2 + 1)
    count = xp.where((k == 0) | (2 * k == n), 1, 2).astype(like.real.dtype)
    return count.reshape(tuple(-1 if i == at else 1 for i in range(like.ndim)))


def _hermitian(z: Array, n: int, at: int) -> Array:
    """Remove, in place, imaginary parts that no real signal has, since not every GPU transform ignores them."""
    bins = [0, n // 2] if n % 2 == 0 else [0]
    for k in bins:
        z.imag[(slice(None),) * at + (k,)] = 0
    return z


@differentiable
def rfft(x: Array, *, axis: int = -1) -> tuple[Array, Pullback]:
    """The bins 0 .. n//2 of the discrete Fourier transform of a real array."""
    xp = array_module(x)
    at = expect.one_axis(x, axis)
    n = x.shape[at]
    if n == 0 or x.dtype.kind == "c":
        raise ValueError("expected a real array with at least one element along the axis")
    y = xp.fft.rfft(x, axis=at)

    def pullback(g):
        return xp.fft.irfft(_hermitian(n * g / _multiplicity(xp, n, at, g), n, at), n=n, axis=at)

    return y, pullback


@differentiable
def irfft(z: Array, *, n: int, axis: int = -1) -> tuple[Array, Pullback]:
    """The real signal of length n with the given bins 0 .. n//2. The imaginary parts of bin 0 and, if n is even, of the
    last bin have no influence."""
    xp = array_module(z)
    at = expect.one_axis(z, axis)
    n = expect.integer("n", n)
    if n < 1 or z.shape[at] != n // 2 + 1:
        raise ValueError(f"a signal of length n = {n} has {n // 2 + 1} bins; axis {axis} has {z.shape[at]}")
    y = xp.fft.irfft(z if on_host(z) else _hermitian(z.copy(), n, at), n=n, axis=at)

    def pullback(g):
        spectrum = xp.fft.rfft(g, axis=at)
        return spectrum * _multiplicity(xp, n, at, spectrum) / n

    return y, pullback
