"""Every row of the table, on every device: value, gradient, layout, dtype, purity, synchronisations."""

from __future__ import annotations

import inspect

import numpy as np
import pytest

import autodiff as ad
from tests import standin, tally
from tests.autodiff.table import ROWS, Row

OP_MODULES = {
    f"autodiff.{m}" for m in ("elementwise", "reduce", "cumulative", "shape", "linalg", "spectral", "composed")
}

rows = pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)


def place(x, device: str, dtype: type | None = None):
    """An argument on the device; floats and complex numbers of the precision of ``dtype`` if given."""
    if not isinstance(x, np.ndarray):
        return x
    if dtype is np.float32 and x.dtype.kind in "fc":
        x = x.astype(np.complex64 if x.dtype.kind == "c" else np.float32)
    return ad.to_device(x, device)


def call(row: Row, *args, **static):
    value = row.op(*args, **static)
    return tuple(value) if isinstance(value, list) else value


def outputs(value) -> list[np.ndarray]:
    return [ad.to_host(y) for y in (value if isinstance(value, (tuple, list)) else [value])]


def cotangents(value, rng: np.random.Generator, device: str):
    """Random cotangents for an op's value, one or several."""
    made = tuple(
        ad.to_device(
            (rng.standard_normal(y.shape) + (1j * rng.standard_normal(y.shape) if y.dtype.kind == "c" else 0)).astype(
                y.dtype
            ),
            device,
        )
        for y in outputs(value)
    )
    return made if isinstance(value, tuple) else made[0]


def pulled_back(row: Row, args, static, rng, device):
    value, pullback = ad.vjp(lambda *a: call(row, *a, **static), *args)
    return value, pullback(cotangents(value, rng, device))


def test_every_public_op_has_one_row():
    public = {name for name, f in vars(ad).items() if inspect.isfunction(f) and f.__module__ in OP_MODULES}
    assert sorted(row.name for row in ROWS) == sorted(public)


@rows
def test_value(row: Row, device: str):
    for arrays, static in row.cases:
        found = outputs(row.op(*(place(x, device) for x in arrays), **static))
        expected = row.reference(*arrays, **static)
        expected = expected if isinstance(expected, list) else [expected]
        for f, e in zip(found, expected, strict=True):
            assert f.shape == np.shape(e)
            np.testing.assert_allclose(f, e, rtol=1e-12, atol=1e-12)  # some rounding of float64


@rows
def test_gradient(row: Row, device: str):
    checks = 0
    for arrays, static in row.cases:
        args = [place(x, device) for x in arrays]
        error = ad.check_gradients(lambda *a: call(row, *a, **static), *args, tolerance=row.tolerance)
        if all(np.size(x) for x in arrays):
            tally.gradient_checks[row.name].append(float(error))
            checks += 1
    assert checks >= 12, f"only {checks} gradient checks"


def scattered(x):
    """The same elements, every second of a larger array, last axis backwards."""
    if not isinstance(x, np.ndarray) or x.ndim == 0:
        return x
    buffer = np.full([2 * n for n in x.shape], 99, x.dtype)
    view = buffer[(slice(None, None, 2),) * (x.ndim - 1) + (slice(None, None, -2),)]
    view[...] = x
    return view


def fortran(x):
    return np.asfortranarray(x) if isinstance(x, np.ndarray) and x.ndim else x


@rows
def test_layout_does_not_matter(row: Row, device: str):
    for arrays, static in row.cases:
        plain = [place(x, device) for x in arrays]
        for layout in (scattered, fortran):
            laid = [layout(x) for x in arrays]
            if device != "cpu":  # a device array of that layout, not a copy made contiguous on the way
                laid = [standin.DeviceArray(x) if isinstance(x, np.ndarray) else x for x in laid]
            value, gradient = pulled_back(row, plain, static, np.random.default_rng(1), device)
            other, other_gradient = pulled_back(row, laid, static, np.random.default_rng(1), device)
            for a, b in zip(outputs(value), outputs(other), strict=True):
                np.testing.assert_allclose(b, a, rtol=1e-12, atol=1e-12)
            for a, b in zip(gradient, other_gradient, strict=True):
                if a is not None:
                    np.testing.assert_allclose(ad.to_host(b), ad.to_host(a), rtol=1e-12, atol=1e-12)


@rows
def test_float32_is_kept(row: Row, device: str):
    for arrays, static in row.cases:
        static = {
            k: np.float32 if v is np.float64 else np.complex64 if v is np.complex128 else v for k, v in static.items()
        }
        value, gradient = pulled_back(
            row, [place(x, device, np.float32) for x in arrays], static, np.random.default_rng(1), device
        )
        exact, exact_gradient = pulled_back(
            row, [place(x, device) for x in arrays], static, np.random.default_rng(1), device
        )
        for f, e in zip(outputs(value), outputs(exact), strict=True):
            assert f.dtype in (np.float32, np.complex64)
            assert f.size == 0 or np.abs(f - e).max() <= row.float32 * max(1.0, np.abs(e).max())
        for f, e, x in zip(gradient, exact_gradient, arrays, strict=True):
            if f is None:
                continue
            assert f.dtype == (np.complex64 if x.dtype.kind == "c" else np.float32) and f.shape == x.shape
            f, e = ad.to_host(f), ad.to_host(e)
            assert f.size == 0 or np.abs(f - e).max() <= row.float32 * max(1.0, np.abs(e).max())


@rows
def test_plain_arrays_record_nothing_and_stay_as_they_were(row: Row, device: str):
    for arrays, static in row.cases:
        args = [place(x, device) for x in arrays]
        before = [ad.to_host(x).copy() if hasattr(x, "shape") else x for x in args]
        value = row.op(*args, **static)
        for y in value if isinstance(value, list) else [value]:
            assert not isinstance(y, ad.Tensor)
            assert device == "cpu" or isinstance(y, standin.DeviceArray)
        value, pullback = ad.vjp(lambda *a: call(row, *a, **static), *args)
        g = cotangents(value, np.random.default_rng(1), device)
        kept = [y.copy() for y in outputs(g)]
        pullback(g)
        for x, b in zip(args, before, strict=True):
            np.testing.assert_array_equal(ad.to_host(x) if hasattr(x, "shape") else x, b)
        for y, k in zip(outputs(g), kept, strict=True):
            np.testing.assert_array_equal(y, k)


@rows
def test_no_synchronisation(row: Row):
    for arrays, static in row.cases:
        args = [place(x, "standin") for x in arrays]
        shapes = row.op(*args, **static)
        g = cotangents(tuple(shapes) if isinstance(shapes, list) else shapes, np.random.default_rng(1), "standin")
        with standin.no_synchronisation():
            _, pullback = ad.vjp(lambda *a: call(row, *a, **static), *args)
            pullback(g)
