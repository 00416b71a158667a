"""g(x), minGRU's and P-NTM's activation of what is written: positive, and unbounded above."""

from __future__ import annotations

import autodiff as ad
from autodiff import host
from autodiff.backend import Array, kernels
from pntm_np.models.positive_host import positive_host


@ad.differentiable
def positive(x: Array):
    """g(x) = x + 1/2 for x >= 0, sigmoid(x) below."""
    if kernels(x):
        from pntm_np.models import positive_fused as fast

        y = fast.positive(x)
        return y, lambda g: fast.positive_back(g, x, y)
    xp = ad.array_module(x)
    if host.is_single(x):
        y = positive_host(x)
        return y, lambda g: g * xp.where(x >= 0, x.dtype.type(1), y * (1 - y))
    below = ad.sigmoid(xp.minimum(x, 0))  # sigmoid(0) = 1/2 where x >= 0
    return below + xp.maximum(x, 0), lambda g: g * xp.where(x >= 0, 1.0, below * (1 - below))
