"""The stand-in is as strict as it says: what works there may be expected to work on CuPy."""

from __future__ import annotations

import numpy as np
import pytest

from tests import standin
from tests.standin import DeviceArray, xp

A = xp.asarray(np.arange(6.0).reshape(2, 3))


def test_it_is_not_an_ndarray_and_does_not_become_one():
    assert not isinstance(A, np.ndarray)
    for convert in (np.asarray, np.array, np.sum, np.exp, lambda a: np.ones((2, 3)) + a, lambda a: np.concatenate([a])):
        with pytest.raises(TypeError):
            convert(A)


@pytest.mark.parametrize(
    "mix",
    [
        lambda h: A + h, lambda h: h * A, lambda h: A @ h.T, lambda h: xp.maximum(A, h), lambda h: xp.where(A > 0, h, A),
        lambda h: A.__setitem__(0, h[0]), lambda h: A.__iadd__(h), lambda h: A[h > 0], lambda h: xp.stack([A, h]), lambda h: h > A,
    ],
)  # fmt: skip
def test_mixing_raises(mix):
    with pytest.raises(TypeError, match="Unsupported type"):
        mix(np.ones((2, 3)))


def test_reductions_and_elements_are_arrays_without_axes():
    for x in (xp.sum(A), A.max(), A[0, 1], xp.mean(A) + 1.0, -A[0, 0]):
        assert isinstance(x, DeviceArray) and x.shape == ()


@pytest.mark.parametrize(
    "read",
    [float, int, bool, complex, lambda a: a.item(), lambda a: a.get(), lambda a: a.tolist(), xp.asnumpy, lambda a: [1, 2][a], lambda a: A[a > 5.0]],
)  # fmt: skip
def test_reading_a_value_is_counted(read):
    x = xp.sum(A) * 0.0 + 1.0
    x = x.astype(np.int64) if read is not bool else x
    before = standin.synchronisations
    read(x) if "A[" not in str(read) else read(A)
    assert standin.synchronisations == before + 1
    with pytest.raises(AssertionError, match="1 synchronisations"), standin.no_synchronisation():
        read(x)


@pytest.mark.parametrize(
    "call",
    [
        lambda: xp.errstate(), lambda: xp.maximum.accumulate(A), lambda: xp.logaddexp.reduce(A), lambda: xp.nanmax(A),
        lambda: A.setflags(write=False), lambda: xp.random.default_rng(),
    ],
)  # fmt: skip
def test_what_cupy_lacks_is_missing(call):
    with pytest.raises(AttributeError):
        call()


@pytest.mark.parametrize(
    "call",
    [
        lambda: xp.exp(A, where=A > 0), lambda: xp.sum(A, where=A > 0), lambda: xp.sum(A, initial=0), lambda: xp.fft.rfft(A, out=A),
        lambda: A.sum(where=A > 0), lambda: xp.max(A, dtype=float), lambda: xp.clip(A, 0, 1),
    ],
)  # fmt: skip
def test_keywords_cupy_lacks_are_refused(call):
    with pytest.raises((TypeError, AttributeError)):
        call()


def test_add_and_multiply_accumulate():
    assert xp.add.accumulate(A, axis=1).get().tolist() == [[0, 1, 3], [3, 7, 12]]
    assert xp.multiply.reduce(A, axis=0).get().tolist() == [0, 4, 10]
