"""float32 without compiled kernels against the same ops in float64."""

from __future__ import annotations

import math

import numpy as np
import pytest

import autodiff as ad
from autodiff import backend
from pntm_np.models.positive import positive

EPS = 2.0**-24  # half a unit in the last place of float32, relative
LINE = np.concatenate([np.linspace(-12, 12, 100_001), np.linspace(-80, 80, 50_001)]).astype(np.float32)
# relative error in units of EPS: exp of NumPy has 3 to 5, and 1 + exp and the division round once more each
BOUNDS = {ad.sigmoid: 7, positive: 7, ad.gelu: 3 * 72}  # exp(-x^2/2) multiplies the rounding of x^2 by x^2/2


@pytest.fixture(autouse=True)
def without_kernels(monkeypatch):
    monkeypatch.setattr(backend, "compiled", lambda: False)


@pytest.mark.parametrize("op", BOUNDS, ids=lambda op: op.__name__)
def test_values_and_slopes(op):
    x = LINE[np.abs(LINE) <= 12] if op is ad.gelu else LINE
    found, pullback = ad.vjp(op, x)
    expected, expected_pullback = ad.vjp(op, x.astype(np.float64))
    slope, expected_slope = pullback(np.ones_like(found))[0], expected_pullback(np.ones_like(expected))[0]
    assert found.dtype == slope.dtype == np.float32 and expected.dtype == np.float64
    assert np.all(np.abs(found - expected) <= BOUNDS[op] * EPS * np.abs(expected))
    assert np.abs(slope - expected_slope).max() <= 8 * EPS  # slopes are at most 1.13; y (1 - y) cancels near y = 1


@pytest.mark.parametrize("op", BOUNDS, ids=lambda op: op.__name__)
@pytest.mark.parametrize("shape", [(), (0,), (3, 0, 2), (1,), (5, 7)])
def test_shapes(op, shape):
    x = np.linspace(-3, 3, math.prod(shape), dtype=np.float32).reshape(shape)
    assert op(x).shape == shape and np.allclose(op(x), op(x.astype(np.float64)), rtol=1e-5)
    if len(shape) == 2:
        assert np.array_equal(op(x.T), op(x).T)


@pytest.mark.parametrize("op", [ad.sigmoid, positive], ids=lambda op: op.__name__)
def test_odd_values(op):
    x = np.array([0.0, -0.0, 1e-45, 3e38, -3e38, math.inf, -math.inf, math.nan, 88.5, -88.5, -104], np.float32)
    with np.errstate(all="ignore"):
        found, expected = op(x), op(x.astype(np.float64)).astype(np.float32)
    assert np.allclose(found, expected, rtol=1e-6, atol=1e-37, equal_nan=True)
    assert np.all((found > 0) | (x < -80) | np.isnan(x))


def test_gelu_of_odd_values():
    x = np.array([0.0, 3e38, -3e38, math.nan, 20, -20], np.float32)
    with np.errstate(all="ignore"):
        y, pullback = ad.vjp(ad.gelu, x)
        slope = pullback(np.ones_like(y))[0]
    assert np.array_equal(y, np.array([0, 3e38, 0, math.nan, 20, 0], np.float32), equal_nan=True)
    assert np.array_equal(slope, [0.5, 1, 0, math.nan, 1, 0], equal_nan=True)
