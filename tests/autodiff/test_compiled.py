"""The compiled kernels for float32 against the same ops in float64."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.special

import autodiff as ad
from autodiff import backend
from pntm_np.models.positive import positive
from pntm_np.models.shift_softmax import shift_softmax

pytestmark = pytest.mark.skipif(not backend.compiled(), reason="Numba is not installed")

EPS = 2.0**-24  # half a unit in the last place of float32, relative
LINE = np.concatenate(
    [np.linspace(-12, 12, 200_001), np.linspace(-87, 87, 100_001), np.geomspace(1e-30, 80, 1001), -np.geomspace(1e-30, 80, 1001)]
).astype(np.float32)  # fmt: skip


def density(x):
    return np.exp(x * x / -2) / math.sqrt(2 * math.pi)


def slope_of_gelu(x):
    return scipy.special.ndtr(x) + x * density(x)


def by_vjp(op, x):
    """Values and slopes."""
    y, pullback = ad.vjp(op, x)
    return y, pullback(np.ones_like(y))[0]


# relative error in units of EPS
BOUNDS = {
    ad.sigmoid: 3,  # of exp, of 1 + exp, of the division
    ad.tanh: 5,  # at 0.625, where 1 - 2 / (exp(2x) + 1) takes over, it has lost a bit
    ad.softplus: 4,
    positive: 3,
    ad.gelu: 3 * 72,  # exp(-x^2/2) multiplies the rounding of x^2 by x^2/2, which is 72 at 12
}


@pytest.mark.parametrize("op", BOUNDS, ids=lambda op: op.__name__)
def test_values(op):
    x = LINE[np.abs(LINE) <= 12] if op is ad.gelu else LINE
    found, expected = op(x), op(x.astype(np.float64))
    assert found.dtype == np.float32 and expected.dtype == np.float64
    error = np.abs(found - expected)
    assert np.all(error <= BOUNDS[op] * EPS * np.abs(expected))


@pytest.mark.parametrize("op", BOUNDS, ids=lambda op: op.__name__)
def test_slopes(op):
    x = LINE[np.abs(LINE) <= 12] if op is ad.gelu else LINE
    (_, found), (_, expected) = by_vjp(op, x), by_vjp(op, x.astype(np.float64))
    assert found.dtype == np.float32
    # slopes are at most 1.13; y (1 - y) cancels near y = 1; 1 - y^2 takes the value's error twice, and rounds
    assert np.abs(found - expected).max() <= (2 * BOUNDS[op] + 1 if op is ad.tanh else 4) * EPS


def test_gelu_is_the_exact_one():
    x = np.linspace(-6, 6, 10_001)
    y, slope = by_vjp(ad.gelu, x.astype(np.float32))
    x = x.astype(np.float32).astype(np.float64)
    assert np.abs(y - x * scipy.special.ndtr(x)).max() <= 8 * EPS  # of values up to 6
    assert np.abs(slope - slope_of_gelu(x)).max() <= 4 * EPS
    assert np.abs(y - 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))).max() > 1e-4


ODD = np.array(
    [0.0, -0.0, 1e-45, -1e-45, 3e38, -3e38, math.inf, -math.inf, math.nan, 88.5, -88.5, 104, -104], np.float32
)


@pytest.mark.parametrize("op", [ad.sigmoid, ad.tanh, ad.softplus, positive])
def test_odd_values(op):
    with np.errstate(all="ignore"):
        found, expected = op(ODD), op(ODD.astype(np.float64)).astype(np.float32)
    # numbers below the smallest normal one, 1e-38, have few digits
    assert np.allclose(found, expected, rtol=4 * EPS, atol=1e-38, equal_nan=True)
    assert np.isnan(op(np.full(100, math.nan, np.float32))).all()


def test_gelu_of_odd_values():
    with np.errstate(all="ignore"):
        y, slope = by_vjp(ad.gelu, ODD)
    assert y[6] == math.inf and np.isnan(y[8]) and y[4] == np.float32(3e38) and y[5] == 0
    assert slope[4] == 1 and slope[5] == 0 and slope[0] == 0.5 and np.isnan(slope[8])


@pytest.mark.parametrize("shape", [(1, 1), (3, 3), (2, 5, 3), (7, 41), (300, 104), (2, 4, 65), (1, 1000)])
def test_along_the_last_axis(shape):
    rng = np.random.default_rng(0)
    x, scale, bias, g = (rng.standard_normal(s) for s in (shape, shape[-1:], shape[-1:], shape))
    shifts = [(shift_softmax, [4 * x])] if shape[-1] == 3 else []
    for op, arrays in ((ad.softmax, [4 * x]), (ad.layer_norm, [x, scale, bias]), *shifts):
        expected, pullback = ad.vjp(op, *arrays)
        found, pullback_32 = ad.vjp(op, *(a.astype(np.float32) for a in arrays))
        rows = math.prod(shape[:-1])
        pairs = [(found, expected), *zip(pullback_32(g.astype(np.float32)), pullback(g), strict=True)]
        for f, e in pairs:
            assert f.dtype == np.float32 and f.shape == e.shape
            # sums along an axis, or over rows for scale and bias; one element on the axis is divided by sqrt(eps)
            bound = (32 + 2 * math.sqrt(rows)) * EPS * max(1, np.abs(e).max()) * (300 if shape[-1] == 1 else 1)
            assert np.abs(f - e).max() <= bound, (op.__name__, np.abs(f - e).max(), bound)


@pytest.mark.parametrize(("op", "width"), [(ad.softmax, 3), (ad.softmax, 5), (shift_softmax, 3)])
def test_softmax_of_infinities(op, width):
    x = np.zeros((6, width), np.float32)
    x[0, 1:], x[1], x[2, 0], x[3, 1] = -math.inf, -math.inf, math.inf, math.nan
    x[4], x[5] = 3e38, -3e38
    with np.errstate(all="ignore"):
        assert np.array_equal(op(x), op(x.astype(np.float64)).astype(np.float32), equal_nan=True)


def test_arrays_that_do_not_lie_in_order():
    x = np.random.default_rng(0).standard_normal((6, 8, 4)).astype(np.float32)
    for view in (x[::2], x.swapaxes(0, 2), x[:, ::-1], np.broadcast_to(x[:1], x.shape), x[:0], x[0, 0, 0, ...]):
        for op in (ad.sigmoid, ad.tanh, ad.softplus, ad.gelu, positive):
            y, pullback = ad.vjp(op, view)
            plain, pullback_plain = ad.vjp(op, np.array(view, order="C"))
            assert np.array_equal(y, plain)
            g = np.broadcast_to(np.float32(0.5), y.shape)
            assert np.array_equal(pullback(g)[0], pullback_plain(np.array(g))[0])


def test_without_numba_the_same_within_rounding(monkeypatch):
    x = np.random.default_rng(0).standard_normal((64, 48)).astype(np.float32)
    ops = [ad.sigmoid, ad.tanh, ad.softplus, ad.gelu, positive, ad.softmax]
    compiled = [by_vjp(op, x) for op in ops]
    monkeypatch.setattr(backend, "compiled", lambda: False)
    for op, (y, slope) in zip(ops, compiled, strict=True):
        plain = by_vjp(op, x)
        assert np.abs(plain[0] - y).max() <= 8 * EPS * max(1, np.abs(y).max())
        assert np.abs(plain[1] - slope).max() <= 8 * EPS
