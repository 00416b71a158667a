"""All parameters in one buffer, so that the optimizer and the sum over shards are a few passes over one array."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from autodiff.backend import Array
from pntm_np.models.layers import Weights

Shapes = dict[str, tuple[int, ...]]


def views(flat: Array, shapes: Shapes) -> Weights:
    """The parameters by name, as windows on the buffer."""
    found, start = {}, 0
    for name, shape in shapes.items():
        size = math.prod(shape)
        found[name] = flat[start : start + size].reshape(shape)
        start += size
    return found


def join(params: Weights, shapes: Shapes, xp: Any = np) -> Array:
    """One buffer with the parameters in their order."""
    return xp.concatenate([params[name].ravel() for name in shapes])
