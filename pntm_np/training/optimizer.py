"""Adam (Kingma and Ba, 2015) over one buffer, in place."""

from __future__ import annotations

from typing import Any, NamedTuple

from autodiff import array_module
from autodiff.backend import Array
from pntm_np.protocol import ADAM_EPSILON, BETA_1, BETA_2


class Moments(NamedTuple):
    m: Array  # running mean of the gradient
    v: Array  # running mean of its square


def adam(params: Array, gradient: Array, moments: Moments, step: int, lr: float, apply: Any) -> None:
    """One update; ``step`` counts from 1. Where ``apply`` (a 0-d array) is 0 nothing changes, whatever the gradient is.

    Whether the gradient is finite is known on the device first: to ask there spares a synchronisation.
    """
    xp = array_module(params)
    m, v = moments
    g = xp.where(apply > 0, gradient, 0)  # NaN times 0 is NaN
    m += (g - m) * (apply * (1 - BETA_1))
    g *= g
    v += (g - v) * (apply * (1 - BETA_2))
    direction = xp.sqrt(v * (1 / (1 - BETA_2**step)))
    direction += ADAM_EPSILON
    xp.divide(m, direction, out=direction)
    direction *= apply * (lr / (1 - BETA_1**step))
    params -= direction
