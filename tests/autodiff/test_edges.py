"""The edges of domains: kinks, ties, infinities, exact zeros, values that overflow when written naively."""

from __future__ import annotations

import math

import numpy as np
import pytest

import autodiff as ad

INF = math.inf


def value_and_slope(op, x, device, dtype=np.float64, **static):
    """The value, and its gradient for a cotangent of ones, as lists of NumPy arrays."""
    x = ad.to_device(np.asarray(x, dtype), device)
    value, pullback = ad.vjp(lambda a: op(a, **static), x)
    ones = ad.to_device(np.ones(value.shape, value.dtype), device)
    return ad.to_host(value), ad.to_host(pullback(ones)[0])


ELEMENTWISE = [
    (ad.exp, [-INF, -800.0, 0.0], [0, 0, 1], [0, 0, 1]),
    (ad.log, [1.0, INF], [0, INF], [1, 0]),
    (ad.sqrt, [0.0, 4.0], [0, 2], [INF, 0.25]),
    (ad.tanh, [-INF, -40.0, 0.0, INF], [-1, -1, 0, 1], [0, 0, 1, 0]),
    (ad.sigmoid, [-INF, -800.0, 0.0, 800.0, INF], [0, 0, 0.5, 1, 1], [0, 0, 0.25, 0, 0]),
    (ad.softplus, [-INF, -800.0, 0.0, 800.0, INF], [0, 0, math.log(2), 800, INF], [0, 0, 0.5, 1, 1]),
    (ad.gelu, [-60.0, 0.0, 60.0], [0, 0, 60], [0, 0.5, 1]),
    (ad.absolute, [-INF, -1.0, -0.0, 0.0, 2.0], [INF, 1, 0, 0, 2], [-1, -1, 0, 0, 1]),
]


@pytest.mark.parametrize("row", ELEMENTWISE, ids=lambda r: r[0].__name__)
def test_elementwise(row, device):
    op, x, values, slopes = row
    for dtype in (np.float32, np.float64):
        value, slope = value_and_slope(op, x, device, dtype)
        np.testing.assert_allclose(value, values, rtol=1e-6 if dtype is np.float32 else 1e-15)
        np.testing.assert_allclose(slope, slopes, rtol=1e-6 if dtype is np.float32 else 1e-15)


def test_tiny_values_keep_their_relative_accuracy(device):
    """sigmoid, softplus and gelu far left, log1p near 0: small results are not lost to cancellation."""
    for dtype, rtol in ((np.float32, 1e-5), (np.float64, 1e-13)):
        check = lambda op, x, y: np.testing.assert_allclose(value_and_slope(op, x, device, dtype)[0], y, rtol=rtol)  # noqa: E731
        check(ad.sigmoid, [-40.0, -80.0], np.exp([-40.0, -80.0]))
        check(ad.softplus, [-40.0, -80.0], np.exp([-40.0, -80.0]))
        check(ad.gelu, [-8.0], [-8 * 0.5 * math.erfc(8 / math.sqrt(2))])
        check(ad.log1p, [1e-20], [1e-20])


def test_complex_modulus_at_zero(device):
    value, slope = value_and_slope(ad.absolute, [0, 3 + 4j], device, np.complex128)
    assert value.tolist() == [0, 5] and slope[0] == 0
    np.testing.assert_allclose(slope[1], 0.6 + 0.8j)


def test_infinite_imaginary_parts(device):
    x, y = (ad.to_device(np.array(v), device) for v in ([1.0, INF], [INF, 2.0]))
    z = ad.to_host(ad.make_complex(x, y))
    assert z.real.tolist() == [1, INF] and z.imag.tolist() == [INF, 2]


def test_power_at_zero(device):
    for exponent, values, slopes in ((0, 1, 0), (1, 0, 1), (2, 0, 0), (0.5, 0, INF), (1.5, 0, 0)):
        value, slope = value_and_slope(ad.power, [0.0], device, exponent=exponent)
        assert value[0] == values and slope[0] == slopes


@pytest.mark.parametrize("op", [ad.maximum, ad.minimum])
def test_ties_are_shared(op, device):
    x = ad.to_device(np.array([1.0, 2.0, 3.0]), device)
    y = ad.to_device(np.array([1.0, 5.0, 0.0]), device)
    _, pullback = ad.vjp(op, x, y)
    to_x, to_y = (ad.to_host(c) for c in pullback(ad.to_device(np.ones(3), device)))
    assert to_x.tolist() == ([0.5, 0, 1] if op is ad.maximum else [0.5, 1, 0])
    assert (to_x + to_y).tolist() == [1, 1, 1]


def test_clip_passes_on_at_its_bounds(device):
    value, slope = value_and_slope(ad.clip, [-2.0, -1.0, 0.0, 1.0, 2.0], device, low=-1.0, high=1.0)
    assert value.tolist() == [-1, -1, 0, 1, 1] and slope.tolist() == [0, 1, 1, 1, 0]


def test_equal_maxima_share(device):
    value, slope = value_and_slope(ad.max, [[3.0, 1.0, 3.0], [2.0, 2.0, 2.0]], device, axis=1)
    assert value.tolist() == [3, 2]
    np.testing.assert_allclose(slope, [[0.5, 0, 0.5], [1 / 3] * 3])


def test_where_is_not_poisoned_by_the_other_branch(device):
    x = ad.to_device(np.array([-1.0, 4.0]), device)

    def loss(p):
        with np.errstate(invalid="ignore"):
            return ad.sum(ad.where(p > 0, ad.sqrt(ad.where(p > 0, p, 1.0)), 0.0))

    value, slope = ad.value_and_grad(loss)(x)
    assert ad.to_host(value) == 2 and ad.to_host(slope).tolist() == [0, 0.25]


def test_logsumexp_of_infinities_and_huge_values(device):
    x = [[-INF, -INF], [-INF, 0.0], [1000.0, 1000.0], [-1000.0, -1000.0], [INF, 0.0]]
    value, slope = value_and_slope(ad.logsumexp, x, device, axis=1)
    np.testing.assert_allclose(value, [-INF, 0, 1000 + math.log(2), -1000 + math.log(2), INF])
    np.testing.assert_allclose(slope[:4], [[0, 0], [0, 1], [0.5, 0.5], [0.5, 0.5]])


def test_softmax_of_huge_values_and_masked_ones(device):
    for op in (ad.softmax, lambda x: ad.exp(ad.log_softmax(x))):
        value, slope = value_and_slope(op, [[1000.0, 0.0, -INF], [-1e30, -1e30, -INF]], device)
        np.testing.assert_allclose(value, [[1, 0, 0], [0.5, 0.5, 0]])
        np.testing.assert_allclose(slope, np.zeros((2, 3)), atol=1e-15)  # the sum of a softmax is constant


def test_logcumsumexp_of_exact_zeros(device, rng):
    """log 0 = -inf at the start, inside and everywhere: right values, and gradients without NaN."""
    x = np.array([-INF, -INF, 0.0, -INF, 2.0, -800.0, 900.0, -INF])
    value, slope = value_and_slope(ad.logcumsumexp, x, device, axis=0)
    with np.errstate(invalid="ignore"):
        np.testing.assert_allclose(value, np.logaddexp.accumulate(x))
    expected = np.zeros(8)
    for i in range(2, 8):  # the definition: dx_j = sum over i >= j of exp(x_j - y_i)
        expected[: i + 1] += np.exp(x[: i + 1] - value[i])
    np.testing.assert_allclose(slope, expected, rtol=1e-12)
    value, slope = value_and_slope(ad.logcumsumexp, [-INF] * 5, device, axis=0)
    assert value.tolist() == [-INF] * 5 and slope.tolist() == [0] * 5


@pytest.mark.parametrize("length", [1, 2, 3, 63, 64, 65, 300])
def test_cumprod_with_zeros_by_brute_force(length, device, rng):
    x = rng.uniform(-1.5, 1.5, length)
    x[rng.integers(0, length, 2)] = 0.0
    _, slope = value_and_slope(ad.cumprod, x, device, axis=0)
    expected = np.zeros(length)
    for j in range(length):  # y_i is linear in x_j: its slope is the product without it
        without = np.delete(x, j)
        expected[j] = sum(np.prod(without[:i]) for i in range(j, length))
    np.testing.assert_allclose(slope, expected, rtol=1e-10, atol=1e-12)


def test_a_nan_stays_a_nan(device):
    x = np.array([0.5, math.nan, 0.5])
    for op in (ad.exp, ad.sigmoid, ad.softplus, ad.gelu, ad.tanh, ad.absolute):
        value, _ = value_and_slope(op, x, device)
        assert np.isnan(value).tolist() == [False, True, False], op.__name__
    for op in (ad.cumsum, ad.cumprod, ad.logcumsumexp):
        value, _ = value_and_slope(op, x, device, axis=0)
        assert np.isnan(value).tolist() == [False, True, True], op.__name__
    for op in (ad.sum, ad.mean, ad.max, ad.logsumexp):
        assert np.isnan(value_and_slope(op, x, device)[0]), op.__name__


def test_cross_entropy_edges(device):
    put = lambda x: ad.to_device(np.asarray(x), device)  # noqa: E731
    logits = np.array([[1000.0, 0.0], [math.nan, INF], [0.0, 0.0]])
    mask = np.array([True, False, True])
    value, pullback = ad.vjp(ad.softmax_cross_entropy, put(logits), put(np.array([0, 99, 1])), put(mask))
    np.testing.assert_allclose(ad.to_host(value), math.log(2) / 2)
    slope = ad.to_host(pullback(put(np.array(1.0)))[0])
    np.testing.assert_allclose(slope, [[0, 0], [0, 0], [0.25, -0.25]])
    value, pullback = ad.vjp(ad.softmax_cross_entropy, put(logits), put(np.array([0, 1, 1])), put(mask & False))
    assert ad.to_host(value) == 0 and not ad.to_host(pullback(put(np.array(1.0)))[0]).any()


def test_a_target_out_of_range_on_a_device_is_an_infinite_loss():
    logits, targets = ad.to_device(np.zeros((2, 3)), "standin"), ad.to_device(np.array([0, 3]), "standin")
    assert ad.to_host(ad.softmax_cross_entropy(logits, targets)) == INF


def test_the_gradient_of_take_has_the_same_bits_every_time(rng):
    """Sums over thousands of equal indices in float32, where another order would give other bits."""
    x = rng.standard_normal((6, 104)).astype(np.float32)
    tokens, g = rng.integers(0, 6, (128, 41)), rng.standard_normal((128, 41, 104)).astype(np.float32)
    first, *others = (ad.vjp(ad.take, x, tokens)[1](g)[0].tobytes() for _ in range(5))
    assert all(first == other for other in others)


def test_an_infinite_cotangent_stays_where_it_belongs(device):
    """Selection must not multiply by 0: an infinite slope elsewhere would become NaN here."""
    put = lambda x: ad.to_device(np.asarray(x), device)  # noqa: E731
    slopes = lambda f, *x: [ad.to_host(g).tolist() for g in ad.vjp(f, *map(put, x))[1](put([INF, 1.0]))]  # noqa: E731
    assert slopes(ad.maximum, [0.0, 4.0], [-1.0, 1.0]) == [[INF, 1], [0, 0]]
    assert slopes(ad.minimum, [0.0, 4.0], [-1.0, 5.0]) == [[0, 1], [INF, 0]]
    assert slopes(lambda x: ad.clip(x, low=0.0), [-1.0, 4.0]) == [[0, 1]]
    assert slopes(lambda x: ad.max(x, axis=1), [[1.0, 2.0], [3.0, 0.0]]) == [[[0, INF], [1, 0]]]
    assert slopes(ad.imag, [1 + 1j, 1j]) == [[complex(0, INF), 1j]]
    assert slopes(lambda x: x[::-1][:2], [1.0, 2.0, 3.0]) == [[0, 1, INF]]


REAL_ONLY = {
    "tanh": ad.tanh, "log1p": ad.log1p, "sigmoid": ad.sigmoid, "softplus": ad.softplus, "gelu": ad.gelu, "max": ad.max,
    "logsumexp": ad.logsumexp, "softmax": ad.softmax, "log_softmax": ad.log_softmax, "rfft": ad.rfft,
    "cumprod": lambda z: ad.cumprod(z, axis=0), "logcumsumexp": lambda z: ad.logcumsumexp(z, axis=0),
    "clip": lambda z: ad.clip(z, low=0.0), "layer_norm": lambda z: ad.layer_norm(z, z, z),
    "softmax_cross_entropy": lambda z: ad.softmax_cross_entropy(z, np.array(0)),
}  # fmt: skip


@pytest.mark.parametrize("name", REAL_ONLY)
def test_ops_whose_gradient_is_real_refuse_complex_arrays(name):
    with pytest.raises((TypeError, ValueError), match=rf"{name}.*real"):
        REAL_ONLY[name](np.array([1 + 1j, 2.0]))


def test_small_and_unsigned_integers():
    """Arithmetic on indices and shifts must not wrap around in their own dtype."""
    _, g = ad.value_and_grad(lambda p: ad.sum(ad.take(p, np.array([0, 255], np.uint8))))(np.zeros((256, 2)))
    assert g[[0, 255]].tolist() == [[1, 1], [1, 1]] and g.sum() == 4
    _, g = ad.value_and_grad(lambda p: ad.sum(ad.take(p, np.array([-1], np.int8))))(np.zeros(200))
    assert g[199] == 1 and g.sum() == 1
    weights = np.array([1.0, 2.0, 3.0])
    for shift in (np.uint8(1), np.int64(1), 1):
        _, g = ad.value_and_grad(lambda p: ad.sum(ad.roll(p, shift=shift, axis=0) * weights))(np.ones(3))
        assert g.tolist() == [2, 3, 1]
    assert ad.sum(np.ones((2, 3)), axis=np.int64(1)).tolist() == [3, 3]
    assert ad.index(np.arange(3.0), key=np.int64(2)) == 2


def test_static_numpy_scalars_keep_float32():
    x = np.ones((2, 3), np.float32)
    assert ad.clip(x, low=np.float64(0)).dtype == np.float32
    assert ad.power(x, exponent=np.float64(2)).dtype == np.float32
    assert ad.softmax_cross_entropy(x, np.array([0, 1]), total=np.int64(3)).dtype == np.float32
    assert ad.layer_norm(x, x[0], x[0], eps=np.float64(1e-5)).dtype == np.float32


def test_a_spectrum_without_the_parts_that_no_real_signal_has(device):
    """Imaginary parts of the first and last bin are ignored, as some GPU transforms do not."""
    z = np.array([1 + 5j, 2 - 1j, 3 + 7j])
    for n in (4, 5):
        clean = z.copy()
        clean[0] = 1
        if n == 4:
            clean[2] = 3
        found = ad.irfft(ad.to_device(z, device), n=n)
        np.testing.assert_allclose(ad.to_host(found), np.fft.irfft(clean, n), atol=1e-15)
        assert z[0] == 1 + 5j
