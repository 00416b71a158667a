"""Functions of one number for kernels to call, which in float32 are plain arithmetic that compilers vectorize.

The C library's exp and log are called one number at a time, which takes ten times as long; they serve only float64,
which is for checks. Errors are a few units in the last place (tests/autodiff/test_compiled.py has the bounds); zeros,
infinities and NaN are handled correctly.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numba import njit, types
from numba.extending import overload

from autodiff.host import P, Q
from autodiff.kernel import exact_kernel

f32, i32 = np.float32, np.int32

LOG2E, LN2_HIGH, LN2_LOW = f32(math.log2(math.e)), f32(0.693359375), f32(-2.12194440e-4)  # LN2_HIGH has trailing zeros
HALF, ONE, TWO = f32(0.5), f32(1), f32(2)
SQRT_HALF = f32(math.sqrt(0.5))
LARGE = f32(106)  # beyond +-LARGE, exp is infinite or zero
SMALLEST, UP, UP_LOG = f32(1.17549435e-38), f32(1 << 23), f32(23)  # the smallest normal number


@exact_kernel
def power_of_two(n):
    return i32((n + i32(127)) << i32(23)).view(f32)


@exact_kernel
def exp32(x):
    """2^n exp(r) with |r| <= log(2) / 2, by the polynomial of Cephes (Moshier); 2^n is split, as it may overflow."""
    x = -LARGE if x < -LARGE else x
    x = LARGE if x > LARGE else x
    whole = np.floor(x * LOG2E + HALF)
    r = x - whole * LN2_HIGH - whole * LN2_LOW
    p = f32(1.9875691500e-4)
    p = p * r + f32(1.3981999507e-3)
    p = p * r + f32(8.3334519073e-3)
    p = p * r + f32(4.1665795894e-2)
    p = p * r + f32(1.6666665459e-1)
    p = p * r + f32(5.0000001201e-1)
    y = p * (r * r) + r + ONE
    n = i32(whole)
    half = i32(n >> i32(1))
    return y * power_of_two(half) * power_of_two(i32(n - half))


@exact_kernel
def log32(x):
    """n log(2) + log(f) with f from sqrt(1/2) to sqrt(2), for x >= 0, by the polynomial of Cephes."""
    tiny = x < SMALLEST
    y = x * (UP if tiny else ONE)  # a normal number, with a full mantissa
    bits = f32(y).view(i32)
    f = i32((bits & i32(0x007FFFFF)) | i32(0x3F000000)).view(f32)  # 1/2 <= f < 1
    n = f32(i32((bits >> i32(23)) - i32(126))) - (UP_LOG if tiny else f32(0))
    low = f < SQRT_HALF
    n = n - ONE if low else n
    f = f + f - ONE if low else f - ONE
    z = f * f
    p = f32(7.0376836292e-2)
    p = p * f - f32(1.1514610310e-1)
    p = p * f + f32(1.1676998740e-1)
    p = p * f - f32(1.2420140846e-1)
    p = p * f + f32(1.4249322787e-1)
    p = p * f - f32(1.6668057665e-1)
    p = p * f + f32(2.0000714765e-1)
    p = p * f - f32(2.4999993993e-1)
    p = p * f + f32(3.3333331174e-1)
    found = f + (p * f * z + n * LN2_LOW - HALF * z) + n * LN2_HIGH
    found = f32(-math.inf) if x == f32(0) else found
    return found if x < f32(math.inf) else x  # infinity and NaN stay


@exact_kernel
def sigmoid32(x):
    return ONE / (ONE + exp32(-x))


@exact_kernel
def tanh32(x):
    """As in Cephes, a polynomial near 0, where 1 - 2 / (exp(2x) + 1) would cancel."""
    z = x * x
    p = f32(-5.70498872745e-3)
    p = p * z + f32(2.06390887954e-2)
    p = p * z - f32(5.37397155531e-2)
    p = p * z + f32(1.33314422036e-1)
    p = p * z - f32(3.33332819422e-1)
    near = p * z * x + x
    far = ONE - TWO / (exp32(x + x) + ONE)
    return near if abs(x) < f32(0.625) else far


@exact_kernel
def softplus32(x):
    """log(1 + exp(x)) as max(x, 0) + log(1 + e), corrected for the rounding error of 1 + e."""
    e = exp32(-abs(x))
    u = ONE + e
    return max(x, f32(0)) + (log32(u) + (e - (u - ONE)) / u)


def by_precision(single: Callable, double: Callable) -> Callable:
    """A function for kernels that is ``single`` for float32 and ``double`` for float64."""

    def function(x):
        raise NotImplementedError("only kernels can call this")

    overload(function)(lambda x: (lambda x: single(x)) if x == types.float32 else (lambda x: double(x)))
    return function


exp = by_precision(exp32, njit(lambda x: math.exp(x), error_model="numpy"))
log = by_precision(log32, njit(lambda x: math.log(x), error_model="numpy"))
tanh = by_precision(tanh32, njit(lambda x: math.tanh(x)))
sigmoid = by_precision(sigmoid32, njit(lambda x: 1 / (1 + math.exp(-x)), error_model="numpy"))
softplus = by_precision(softplus32, njit(lambda x: max(x, 0.0) + math.log1p(math.exp(-abs(x)))))


@exact_kernel
def mills(a):
    """Phi(-a) exp(a^2 / 2) for 0 <= a <= 15, where Phi is the normal distribution function."""
    p = (((P[0] * a + P[1]) * a + P[2]) * a + P[3]) * a + P[4]
    q = ((((Q[0] * a + Q[1]) * a + Q[2]) * a + Q[3]) * a + Q[4]) * a + Q[5]
    return p / q
