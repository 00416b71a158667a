"""The gradient checker is itself checked: what is wrong must be found, and what is right must pass."""

from __future__ import annotations

import numpy as np
import pytest

import autodiff as ad

SMALL, LARGE = (3, 4), (60, 50)  # the whole Jacobian, and random directions


def cube_with(spoil):
    """x ** 3 whose cotangent is spoilt."""

    @ad.differentiable
    def cube(x):
        return x**3, lambda g: spoil(g * 3 * x**2)

    return cube


def one_entry(factor: float):
    def spoil(c):
        c = c.copy()
        c[(1,) * c.ndim] *= factor
        return c

    return spoil


@pytest.mark.parametrize("shape", [SMALL, LARGE], ids=["jacobian", "directions"])
class TestFinds:
    def test_a_right_gradient_passes(self, shape, device, rng):
        x = ad.to_device(rng.uniform(0.5, 2, shape), device)
        assert ad.check_gradients(cube_with(lambda c: c), x, tolerance=1e-9) < 1e-9

    @pytest.mark.parametrize("factor", [1.001, 0.999, -1.0, 0.0, np.nan])
    def test_a_gradient_off_by_a_factor(self, shape, factor, device, rng):
        x = ad.to_device(rng.uniform(0.5, 2, shape), device)
        with pytest.raises(ad.GradientMismatch, match="input 0"):
            ad.check_gradients(cube_with(lambda c: c * factor), x)

    @pytest.mark.parametrize("factor", [1.01, 0.0, -1.0])
    def test_a_single_wrong_entry(self, shape, factor, device, rng):
        x = ad.to_device(rng.uniform(0.5, 2, shape), device)
        for seed in range(5):
            with pytest.raises(ad.GradientMismatch):
                ad.check_gradients(cube_with(one_entry(factor)), x, rng=np.random.default_rng(seed))

    def test_entries_exchanged(self, shape, device, rng):
        x = ad.to_device(rng.uniform(0.5, 2, shape), device)
        with pytest.raises(ad.GradientMismatch):
            ad.check_gradients(cube_with(lambda c: array_flip(c)), x)


def array_flip(c):
    return ad.array_module(c).flip(c, axis=0)


def test_a_small_wrong_slope_beside_a_huge_right_one():
    @ad.differentiable
    def exp(x):
        y = np.exp(x)
        return y, lambda g: g * y * np.array([-7.0, 1.0])

    with pytest.raises(ad.GradientMismatch):
        ad.check_gradients(exp, np.array([-3.0, 21.0]))


def test_the_second_input_is_checked_too():
    @ad.differentiable
    def product(x, y):
        return x * y, lambda g: (g * y, g * x * 1.001)

    with pytest.raises(ad.GradientMismatch, match="input 1"):
        ad.check_gradients(product, np.ones(3), np.ones(3))


def test_a_missing_gradient_is_found():
    @ad.differentiable
    def forgetful(x, y):
        return x * y, lambda g: (g * y, None)

    with pytest.raises(ad.GradientMismatch, match="input 1"):
        ad.check_gradients(forgetful, np.ones(3), np.ones(3))


@pytest.mark.parametrize("part", ["real", "imag"])
def test_each_part_of_a_complex_gradient(part):
    """A cotangent that is right in one part and wrong in the other, of an input and of an output."""

    @ad.differentiable
    def square(z):
        def pullback(g):
            c = g * 2 * z.conj()
            return c.real * 1.001 + 1j * c.imag if part == "real" else c.real + 1.001j * c.imag

        return z * z, pullback

    with pytest.raises(ad.GradientMismatch):
        ad.check_gradients(square, np.array([1 + 2j, 0.5 - 1j]))


def test_a_value_that_depends_on_recording_is_found():
    @ad.differentiable
    def fickle(x, *, calls: list):
        calls.append(0)
        return x * len(calls), lambda g: g

    calls: list[int] = []
    with pytest.raises(ad.GradientMismatch, match="recorded value"):
        ad.check_gradients(lambda x: fickle(x, calls=calls), np.ones(2))


def test_float32_is_refused():
    with pytest.raises(TypeError, match="float64"):
        ad.check_gradients(ad.exp, np.ones(2, np.float32))


def test_constants_are_left_alone():
    assert ad.check_gradients(lambda x, i: ad.take(x, i), np.ones(3), np.array([0, 0])) < 1e-9
    assert ad.check_gradients(lambda x: x * 0.0 + 1.0, np.ones(3)) == 0.0
