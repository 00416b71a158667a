"""g(x), the activation of minGRU's candidates and of the values that P-NTM writes: positive and unbounded above."""

from __future__ import annotations

import autodiff as ad
from autodiff import Array, Pullback, host
from autodiff.backend import kernels


@ad.differentiable
def positive(x: Array) -> tuple[Array, Pullback]:
    """g(x) = x + 1/2 for x >= 0, sigmoid(x) below."""
    if kernels(x):
        from pntm_np.models import activations_fused as fast

        y = fast.positive(x)
        return y, lambda g: fast.positive_back(g, x, y)
    xp = ad.array_module(x)
    if host.is_single(x):
        y = positive_host(x)
        return y, lambda g: g * xp.where(x >= 0, x.dtype.type(1), y * (1 - y))
    below = ad.sigmoid(xp.minimum(x, 0))  # sigmoid(0) = 1/2 where x >= 0
    return below + xp.maximum(x, 0), lambda g: g * xp.where(x >= 0, 1.0, below * (1 - below))


def positive_host(x: Array) -> Array:
    """sigmoid(min(x, 0)) + max(x, 0) in float32, without SciPy's expit, which is not vectorized."""
    xp, (flat, y, blocks) = ad.array_module(x), host.in_blocks(x)
    for part in blocks:
        z = y[part]
        e = xp.minimum(flat[part], xp.float32(0))
        xp.exp(e, out=e)
        xp.add(e, xp.float32(1), out=z)
        xp.divide(e, z, out=z)
        z += xp.maximum(flat[part], xp.float32(0), out=e)
    return y.reshape(x.shape)
