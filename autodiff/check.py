"""Check gradients: compare an op's pullback with central differences in float64.

For small functions, the whole Jacobian is compared. Large ones are compared along random directions of +1 and -1, in
which a single wrong entry cannot hide behind a factor near 0. The real and imaginary parts of complex inputs and
outputs are treated as separate numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from autodiff import backend
from autodiff.backend import Namespace
from autodiff.gradient import vjp
from autodiff.tape import stop_gradient

STEP = 1e-3  # of the five-point stencil: truncation ~ STEP^4, rounding ~ 1e-16 / STEP, both near 1e-12
FULL_JACOBIAN = 600  # entries, counting real and imaginary parts, up to which all of them are compared
DIRECTIONS = 4


class GradientMismatch(AssertionError):
    """The pullback and the differences disagree; the message says for which input and by how much."""


def check_gradients(
    function: Callable[..., Any],
    *args: Any,
    tolerance: float = 1e-6,
    step: float = STEP,
    rng: np.random.Generator | None = None,
) -> float:
    """Compare the pullback of ``function`` with differences at ``args``; return the largest relative error.

    ``args`` are float64 or complex128 arrays, on any device; integer and boolean arrays, numbers and None
    are held constant. The function returns one array or a tuple of them and must be smooth within ``2 * step`` of
    ``args``. The relative error of an output is the largest deviation of its slopes, minus what rounding in that output
    can explain (a few 1e-13 of it), over its largest slope. An error above ``tolerance`` raises ``GradientMismatch``.
    """
    rng = np.random.default_rng(0) if rng is None else rng
    xp = backend.array_module(*args)
    hosts = [backend.to_host(a) if hasattr(a, "shape") else a for a in args]
    tracked = [i for i, a in enumerate(hosts) if isinstance(a, np.ndarray) and a.dtype.kind in "fc"]
    for i in tracked:
        if hosts[i].dtype not in (np.float64, np.complex128):
            raise TypeError(f"input {i} is {hosts[i].dtype}; gradients are checked in float64 or complex128")

    def evaluate(vectors: dict[int, np.ndarray]) -> np.ndarray:
        """The function's outputs as one real vector, with tracked inputs replaced by ``vectors``."""
        inputs = [_place(xp, h, vectors.get(i), args[i]) for i, h in enumerate(hosts)]
        return _to_vector(function(*inputs))

    def pull(cotangent: np.ndarray) -> dict[int, np.ndarray]:
        value, pullback = vjp(function, *args)
        if not np.array_equal(_to_vector(value), base, equal_nan=True):
            raise GradientMismatch("the recorded value differs from the value on plain arrays")
        found = pullback(_from_vector(xp, cotangent, value))
        return {i: _to_vector(found[i]) for i in tracked}

    base = evaluate({})
    points = {i: _to_vector(hosts[i]) for i in tracked}
    worst = 0.0
    for i in tracked:
        worst = max(worst, _check_input(i, points[i], base, evaluate, pull, tolerance, step, rng))
    return worst


def _check_input(
    i: int,
    point: np.ndarray,
    base: np.ndarray,
    evaluate: Callable,
    pull: Callable,
    tolerance: float,
    step: float,
    rng: np.random.Generator,
) -> float:
    if point.size * base.size <= FULL_JACOBIAN:
        along, weights = np.eye(point.size), np.eye(base.size)
    else:
        along = rng.choice([-1.0, 1.0], (DIRECTIONS, point.size))
        weights = rng.standard_normal((DIRECTIONS, base.size))
    if along.size == 0 or weights.size == 0:
        return 0.0

    def difference(direction: np.ndarray) -> np.ndarray:
        """Five-point central difference of the outputs along a direction, exact up to step^4."""
        f = [evaluate({i: point + k * step * direction}) for k in (-2, -1, 1, 2)]
        return (f[0] - 8 * f[1] + 8 * f[2] - f[3]) / (12 * step)

    numeric = np.stack([difference(d) for d in along]) @ weights.T  # direction, weight
    analytic = along @ np.stack([pull(w)[i] for w in weights]).T
    rounding = 4 * np.finfo(float).eps / step * (np.abs(base) @ np.abs(weights).T)  # of each output
    scale = np.maximum(np.maximum(np.abs(numeric), np.abs(analytic)).max(axis=0), np.finfo(float).tiny)
    error = np.maximum(np.abs(analytic - numeric) - rounding, 0) / scale
    error[~np.isfinite(error)] = np.inf
    worst = np.unravel_index(np.argmax(error), error.shape)
    if error[worst] > tolerance:
        raise GradientMismatch(
            f"input {i}, direction {worst[0]}, output {worst[1]}: the pullback gives {analytic[worst]:.12g}, "
            f"differences give {numeric[worst]:.12g}; relative error {error[worst]:.3g}, allowed {tolerance:.3g}"
        )
    return float(error[worst])


# ---- arrays as real vectors: real parts, then imaginary parts -------------------------------------


def _to_vector(value: Any) -> np.ndarray:
    parts = []
    for y in value if isinstance(value, tuple) else (value,):
        y = backend.to_host(stop_gradient(y))
        parts += [y.real.ravel(), y.imag.ravel()] if y.dtype.kind == "c" else [y.ravel()]
    return np.concatenate(parts).astype(np.float64)


def _like(host: np.ndarray, vector: np.ndarray) -> np.ndarray:
    if host.dtype.kind == "c":
        half = vector.size // 2
        vector = vector[:half] + 1j * vector[half:]
    return vector.reshape(host.shape).astype(host.dtype)


def _place(xp: Namespace, host: Any, vector: np.ndarray | None, original: Any) -> Any:
    """The original input, or an array like it with the elements of ``vector``."""
    return original if vector is None else xp.asarray(_like(host, vector))


def _from_vector(xp: Namespace, vector: np.ndarray, value: Any) -> Any:
    """Turn one real vector into cotangents for ``value``, an array or a tuple of arrays."""
    made, start = [], 0
    for y in value if isinstance(value, tuple) else (value,):
        length = y.size * (2 if y.dtype.kind == "c" else 1)
        made.append(xp.asarray(_like(backend.to_host(y), vector[start : start + length])))
        start += length
    return tuple(made) if isinstance(value, tuple) else made[0]
