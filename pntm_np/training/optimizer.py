"""Adam (Kingma and Ba, 2015) on all parameters in one buffer, so that an update is a few passes over it."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from autodiff import Array, Namespace, array_module
from pntm_np.models.layers import Params
from pntm_np.protocol import ADAM_EPSILON, BETA_1, BETA_2

Shapes = dict[str, tuple[int, ...]]


def views(flat: Array, shapes: Shapes) -> Params:
    found, start = {}, 0
    for name, shape in shapes.items():
        size = math.prod(shape)
        found[name] = flat[start : start + size].reshape(shape)
        start += size
    return found


def join(params: Params, shapes: Shapes, xp: Namespace = np) -> Array:
    return xp.concatenate([params[name].ravel() for name in shapes])


class Moments(NamedTuple):
    m: Array  # running mean of the gradient
    v: Array  # running mean of its square


def adam(params: Array, gradient: Array, moments: Moments, step: int, lr: float, apply: Array) -> None:
    """Make one update; ``step`` counts from 1. If ``apply`` (a 0-d array) is 0, nothing changes for any gradient.

    ``apply`` stays on the device, where the gradient was tested: reading it on the host would cost a synchronisation.
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
