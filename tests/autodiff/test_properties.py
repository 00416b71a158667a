"""Shapes, axes, keys and values that nobody thought of, drawn by Hypothesis."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import autodiff as ad

settings.register_profile("suite", deadline=None, max_examples=60, derandomize=True)
settings.load_profile("suite")

values = st.floats(-3, 3, width=32)
shapes = hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=4)
full_shapes = hnp.array_shapes(min_dims=1, max_dims=4, min_side=1, max_side=4)
TOLERANCE = 1e-9  # relative; the differences are good to about 1e-11


def arrays(shape) -> st.SearchStrategy[np.ndarray]:
    return hnp.arrays(np.float64, shape, elements=values)


@st.composite
def broadcastable(draw):
    pair = draw(hnp.mutually_broadcastable_shapes(num_shapes=2, min_side=0, max_side=4, max_dims=4))
    return tuple(draw(arrays(s)) for s in pair.input_shapes)


@given(broadcastable())
def test_arithmetic_broadcasts_as_numpy_does(pair):
    x, y = pair
    y = np.where(np.abs(y) < 0.3, 0.5, y)
    for op, reference in (
        (ad.add, np.add),
        (ad.subtract, np.subtract),
        (ad.multiply, np.multiply),
        (ad.divide, np.divide),
    ):
        np.testing.assert_array_equal(op(x, y), reference(x, y))
        ad.check_gradients(op, x, np.asarray(y), tolerance=TOLERANCE)


@given(shapes.flatmap(arrays), st.data())
def test_reductions_over_any_axes(x, data):
    axes = data.draw(st.none() | st.sets(st.integers(-x.ndim, x.ndim - 1), max_size=x.ndim) if x.ndim else st.none())
    if axes is not None:
        axes = tuple({a % x.ndim: a for a in axes}.values())
    keepdims = data.draw(st.booleans())
    np.testing.assert_allclose(ad.sum(x, axis=axes, keepdims=keepdims), x.sum(axis=axes, keepdims=keepdims), atol=1e-12)
    ad.check_gradients(lambda a: ad.sum(a, axis=axes, keepdims=keepdims), x, tolerance=TOLERANCE)
    if x.size:
        ad.check_gradients(lambda a: ad.mean(a, axis=axes, keepdims=keepdims), x, tolerance=TOLERANCE)
        ad.check_gradients(lambda a: ad.logsumexp(a, axis=axes, keepdims=keepdims), x, tolerance=TOLERANCE)


@given(full_shapes.flatmap(arrays), st.data())
def test_normalisations_and_scans_along_any_axis(x, data):
    axis = data.draw(st.integers(-x.ndim, x.ndim - 1))
    for op in (ad.softmax, ad.log_softmax, ad.cumsum, ad.cumprod, ad.logcumsumexp):
        ad.check_gradients(lambda a: op(a, axis=axis), x, tolerance=TOLERANCE)
    np.testing.assert_allclose(ad.cumprod(x, axis=axis), np.cumprod(x, axis=axis))
    np.testing.assert_allclose(ad.logcumsumexp(x, axis=axis), np.log(np.cumsum(np.exp(x), axis=axis)), atol=1e-12)
    np.testing.assert_allclose(ad.sum(ad.softmax(x, axis=axis), axis=axis), 1.0)


@given(shapes.flatmap(arrays), st.data())
def test_indexing_with_any_basic_key(x, data):
    key = data.draw(hnp.basic_indices(x.shape, allow_newaxis=True, max_dims=6))
    np.testing.assert_array_equal(ad.index(x, key=key), x[key])
    ad.check_gradients(lambda a: ad.index(a, key=key), x, tolerance=TOLERANCE)
    ad.check_gradients(lambda a: ad.sum(ad.index(a, key=key)) * a + a, x, tolerance=TOLERANCE)


@given(shapes.flatmap(arrays), st.data())
def test_rearrangements_are_undone(x, data):
    order = tuple(data.draw(st.permutations(range(x.ndim))))
    ad.check_gradients(lambda a: ad.transpose(a, axes=order), x, tolerance=TOLERANCE)
    widths = tuple(data.draw(st.tuples(st.integers(0, 2), st.integers(0, 2))) for _ in range(x.ndim))
    if x.ndim:
        axis = data.draw(st.integers(-x.ndim, x.ndim - 1))
        shift = data.draw(st.integers(-9, 9))
        np.testing.assert_array_equal(ad.roll(x, shift=shift, axis=axis), np.roll(x, shift, axis))
        ad.check_gradients(lambda a: ad.roll(a, shift=shift, axis=axis), x, tolerance=TOLERANCE)
        ad.check_gradients(lambda a: ad.flip(a, axis=axis), x, tolerance=TOLERANCE)
        ad.check_gradients(lambda a: ad.pad(a, widths=widths), x, tolerance=TOLERANCE)


@st.composite
def matrices(draw):
    rows, inner, columns = (draw(st.integers(0, 4)) for _ in range(3))
    batch = draw(hnp.mutually_broadcastable_shapes(num_shapes=2, min_side=0, max_side=3, max_dims=2)).input_shapes
    left = (inner,) if draw(st.booleans()) and draw(st.booleans()) else (*batch[0], rows, inner)
    right = (inner,) if draw(st.booleans()) and draw(st.booleans()) else (*batch[1], inner, columns)
    return draw(arrays(left)), draw(arrays(right))


@given(matrices())
def test_matrix_products_of_any_shapes(pair):
    x, y = pair
    np.testing.assert_allclose(ad.matmul(x, y), np.matmul(x, y), atol=1e-12)
    ad.check_gradients(ad.matmul, x, y, tolerance=TOLERANCE)


@given(full_shapes.flatmap(arrays), st.data())
def test_take_any_rows_of_any_axis(x, data):
    axis = data.draw(st.integers(-x.ndim, x.ndim - 1))
    n = x.shape[axis]
    picks = data.draw(
        hnp.arrays(np.int64, hnp.array_shapes(min_dims=0, max_dims=2, max_side=4), elements=st.integers(-n, n - 1))
    )
    np.testing.assert_array_equal(ad.take(x, picks, axis=axis), np.take(x, picks, axis=axis))
    ad.check_gradients(lambda a, i: ad.take(a, i, axis=axis), x, picks, tolerance=TOLERANCE)


@given(full_shapes.flatmap(arrays), st.data())
def test_fourier_there_and_back(x, data):
    axis = data.draw(st.integers(-x.ndim, x.ndim - 1))
    n = x.shape[axis]
    np.testing.assert_allclose(ad.irfft(ad.rfft(x, axis=axis), n=n, axis=axis), x, atol=1e-12)
    ad.check_gradients(lambda a: ad.rfft(a, axis=axis), x, tolerance=TOLERANCE)
    ad.check_gradients(lambda a: ad.irfft(ad.exp(ad.rfft(a, axis=axis)), n=n, axis=axis), x, tolerance=1e-7)
    # exp of a spectrum is steep: e^8 with a fifth derivative of the same size


@given(full_shapes.flatmap(arrays))
def test_a_small_network_as_a_whole(x):
    """Many ops in one tape: what each gives on must be what the next expects."""
    d = x.shape[-1]
    weights = np.linspace(-1, 1, d * 3).reshape(d, 3)

    def network(a, w):
        h = ad.gelu(ad.layer_norm(a, ad.sum(w, axis=1), w[:, 0], eps=0.1) @ w)
        h = ad.concatenate(h, ad.sigmoid(h), axis=-1) * 0.5
        return ad.mean(ad.log_softmax(h, axis=-1) ** 2) + ad.sum(ad.cumsum(h, axis=0)[-1])

    ad.check_gradients(network, x, weights, tolerance=1e-7)  # steep where a row is nearly constant: eps 0.1
