"""Compare a device with NumPy: values and gradients of every op, scan form and model.

The reference is NumPy in float64; the device runs everything in float64 and float32. The deviation of an array is the
largest difference divided by the largest magnitude, and the largest deviation of a value and its gradients counts. (An
array of nothing but rounding errors, such as the gradient of FIRE's b_2, which softmax cancels, is divided by a
thousandth of the largest magnitude of them all instead.)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

import autodiff as ad
from pntm_np.models import BENCH_MODELS, MODELS, Architecture, Options, Stack, build
from pntm_np.scans import CONV_SHIFT, GATED, MEMORY, stabilise, usable_forms

BOUNDS = {np.float64: 1e-9, np.float32: 1e-3}  # both are a thousand times the deviations of a CPU


class Case(NamedTuple):
    kind: str
    name: str
    function: Callable[..., Any]
    inputs: list[ad.Array]  # float64, complex128, integer or boolean arrays


class Result(NamedTuple):
    kind: str
    name: str
    float64: float
    float32: float
    error: str = ""  # why the device could not run the case

    @property
    def ok(self) -> bool:
        return self.float64 <= BOUNDS[np.float64] and self.float32 <= BOUNDS[np.float32]


def op_cases(rng: np.random.Generator, device: str) -> Iterator[Case]:
    x, y, positive = rng.standard_normal((5, 6)), rng.standard_normal((5, 6)), rng.uniform(0.5, 2, (5, 6))
    z = positive * np.exp(1j * x)
    apart = rng.permutation(30).reshape(5, 6) / 10
    tokens, mask = rng.integers(0, 6, 5), np.array([True, False, True, True, False])
    alike = (
        ("absolute exp imag log real", [z]),
        ("gelu log_softmax negative rfft sigmoid softmax softplus tanh transpose", [x]),
        ("log1p sqrt", [positive]),
        ("make_complex stack subtract", [x, y]),
        ("maximum minimum", [apart, apart[::-1] + 0.05]),
    )
    ops: dict[str, tuple[Callable, list]] = {
        "add": (ad.add, [x, y[0]]),
        "astype": (lambda a: ad.astype(a, dtype=a.dtype), [x]),
        "broadcast_to": (lambda a: ad.broadcast_to(a, shape=(2, 5, 6)), [x]),
        "clip": (lambda a: ad.clip(a, low=0.95, high=2.05), [apart]),
        "concatenate": (lambda a, b: ad.concatenate(a, b, axis=1), [x, y]),
        "cumprod": (lambda a: ad.cumprod(a, axis=1), [x]),
        "cumsum": (lambda a: ad.cumsum(a, axis=1), [x]),
        "divide": (ad.divide, [z, positive]),
        "einsum": (lambda a, b: ad.einsum(a, b, subscripts="ij,kj->ik"), [x, y]),
        "flip": (lambda a: ad.flip(a, axis=0), [x]),
        "index": (lambda a: ad.index(a, key=(slice(1, None, 2), slice(None, None, -1))), [x]),
        "irfft": (lambda a: ad.irfft(a, n=10), [z]),
        "layer_norm": (ad.layer_norm, [x, y[0], y[1]]),
        "logcumsumexp": (lambda a: ad.logcumsumexp(a, axis=1), [x]),
        "logsumexp": (lambda a: ad.logsumexp(a, axis=1), [x]),
        "matmul": (lambda a, b: ad.matmul(a, ad.transpose(b)), [x, y]),
        "max": (lambda a: ad.max(a, axis=1), [apart]),
        "mean": (lambda a: ad.mean(a, axis=0), [x]),
        "multiply": (ad.multiply, [z, y]),
        "pad": (lambda a: ad.pad(a, widths=((1, 2), (0, 1))), [x]),
        "power": (lambda a: ad.power(a, exponent=1.5), [positive]),
        "reshape": (lambda a: ad.reshape(a, shape=(6, 5)), [x]),
        "roll": (lambda a: ad.roll(a, shift=2, axis=1), [x]),
        "softmax_cross_entropy": (ad.softmax_cross_entropy, [x, tokens, mask]),
        "split": (lambda a: tuple(ad.split(a, sections=2, axis=1)), [x]),
        "sum": (lambda a: ad.sum(a, axis=1), [x]),
        "swapaxes": (lambda a: ad.swapaxes(a, first=0, second=1), [x]),
        "take": (lambda a, i: ad.take(a, i, axis=1), [x, tokens]),
        "where": (ad.where, [x > 0, x, y]),
    }
    ops |= {name: (getattr(ad, name), inputs) for names, inputs in alike for name in names.split()}
    return (Case("op", name, function, inputs) for name, (function, inputs) in sorted(ops.items()))


def scan_cases(rng: np.random.Generator, device: str) -> Iterator[Case]:
    z, c = rng.uniform(0.1, 0.9, (2, 2, 33, 5))
    # one shift is well above the others: the spectrum stays away from 0, where the gradient of the paper's form jumps
    shifts = 0.6 * np.eye(3)[rng.integers(0, 3, (2, 33, 2))] + 0.4 / 3
    q, w = (rng.dirichlet(np.ones(7), (2, 33, heads)) for heads in (3, 2))
    v, M = rng.uniform(0.5, 2, (2, 33, 2, 4)), rng.uniform(0.5, 2, (2, 2, 7, 4))
    scans = (
        ("gated", GATED, [z, c, c[:, 0]]),
        ("conv_shift", CONV_SHIFT, [shifts, rng.dirichlet(np.ones(7), (2, 2))]),
        ("memory", MEMORY, [q, 0.9 * w + 0.01, v, M]),
    )
    for name, forms, inputs in scans:
        for form in usable_forms(tuple(forms), device):
            yield Case("scan", f"{name} {form}", forms[form], inputs)
    yield Case("scan", "stabilise", lambda s: stabilise(s, tau=0.2), [shifts])


def model_cases(rng: np.random.Generator, device: str) -> Iterator[Case]:
    """Logits and loss of a sequence, with gradients, and the output of a single time step."""
    tokens = rng.integers(0, 6, (2, 9))
    for name in MODELS:
        model = build(name, 6)

        def run(params: dict, t: ad.Array, options: Options, model: Architecture = model) -> Any:
            logits = model.forward(params, t, 16, options)
            plain = ad.stop_gradient(params)
            like = plain["embed.weight"]
            start = model.initial_state(t.shape[0], 16, xp=ad.array_module(like), dtype=like.dtype)
            _, first = model.step(plain, start, t[:, 0], options)
            return logits, ad.softmax_cross_entropy(logits, t), first

        yield from _by_form(name, model, device, run, rng, tokens)
    x = rng.standard_normal((2, 9, 128))
    for name, bench in BENCH_MODELS.items():

        def run_bench(params: dict, x: ad.Array, options: Options, model: Stack = bench) -> Any:
            like = ad.stop_gradient(x)
            start = model.initial_state(x.shape[0], 16, xp=ad.array_module(like), dtype=like.dtype)
            return model.run(params, x, start, options)[0]

        yield from _by_form(name, bench, device, run_bench, rng, x)


def _by_form(
    name: str, model: Stack, device: str, run: Callable, rng: np.random.Generator, x: ad.Array
) -> Iterator[Case]:
    params = model.init(rng, np.dtype(np.float64))
    for form in usable_forms(model.forms, device) or ("",):
        options = Options(form=form) if form else Options()

        def function(*arrays: ad.Array, options: Options = options) -> Any:
            return run(dict(zip(params, arrays, strict=False)), arrays[-1], options)

        yield Case("model", f"{name} {form}".strip(), function, [*params.values(), x])


def deviation(found: list[np.ndarray], expected: list[np.ndarray]) -> float:
    floor = max(1e-3 * np.abs(e).max() for e in expected)
    worst = 0.0
    for f, e in zip(found, expected, strict=True):
        if f.shape != e.shape or not np.isfinite(f).all():
            return float("inf")
        worst = max(worst, float(np.abs(f - e).max() / max(np.abs(e).max(), floor)))
    return worst


def outcome(case: Case, device: str, dtype: type) -> list[np.ndarray]:
    """Values, and gradients for fixed cotangents, as NumPy arrays."""
    single = {np.dtype(np.float64): np.float32, np.dtype(np.complex128): np.complex64}
    inputs = [x.astype(single.get(x.dtype, x.dtype)) if dtype is np.float32 else x for x in case.inputs]
    value, pullback = ad.vjp(case.function, *(ad.to_device(x, device) for x in inputs))
    values = value if isinstance(value, tuple) else (value,)
    rng = np.random.default_rng(1)
    cotangents = tuple(ad.to_device(rng.standard_normal(y.shape).astype(y.real.dtype), device) for y in values)
    found = pullback(cotangents if isinstance(value, tuple) else cotangents[0])
    return [ad.to_host(x) for x in (*values, *found) if x is not None]


def run(device: str) -> Iterator[Result]:
    rng = np.random.default_rng(0)
    for make in (op_cases, scan_cases, model_cases):
        for case in make(rng, device):
            expected = outcome(case, "cpu", np.float64)
            try:
                double, single = (deviation(outcome(case, device, dtype), expected) for dtype in BOUNDS)
                yield Result(case.kind, case.name, double, single)
            except Exception as error:  # whatever fails on the device, the other cases are still worth knowing
                said = f"{type(error).__name__}: {error}".splitlines()[0]
                yield Result(case.kind, case.name, float("inf"), float("inf"), said)
