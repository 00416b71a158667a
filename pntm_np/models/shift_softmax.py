"""The probabilities of a head's three shifts: left, stay and right."""

from __future__ import annotations

import autodiff as ad
from autodiff import Array, Pullback
from autodiff.backend import kernels


@ad.differentiable
def shift_softmax(x: Array) -> tuple[Array, Pullback]:
    """softmax over the last axis of x (..., 3)."""
    if x.size and kernels(x):
        from pntm_np.models.activations_fused import softmax_of_three

        return softmax_of_three(x)
    s, pullback = ad.vjp(ad.softmax, x)
    return s, lambda g: pullback(g)[0]
