"""Every form of a recurrence against the loop: values, final state, the cotangent of every input."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import autodiff as ad
from pntm_np.scans.forms import compiled
from pntm_np.scans.log_space import EPS
from tests import standin, tally
from tests.pntm_np.scans.cases import KINDS, LENGTHS, SCANS, Case, deviation, draw_cotangents, run, terms

EXACT = ("sequential", "chunked", *(["fused"] if compiled() else []))
FLOAT64 = 1e-10  # some thousand roundings of 1e-16 at the very most, and far below any mistake


def float32_bound(length: int) -> float:
    """Two roundings of 2^-24 a step, or 1e-5 for the fixed part of the work."""
    return max(1e-5, 2 * length * 2.0**-24)


# The paper forms. Each bound is at least twice what was measured over these cases, and below five times it.
# conv_shift: log~ makes every bin of the spectrum larger by EPS = 1e-6 a step. Addresses sum to 1, so values are compared
# in absolute terms: where a bin is 0 each cell is off by EPS, however small the address. Its cotangents are sums of terms
# of either sign, each off by a little in the same direction: they are compared with the sum of their terms' sizes.
# gated, memory: sums of up to T logarithms of size up to 14 lose precision like T; where the clamp is active (a gate
# outside [EPS, 1 - EPS]) a step leaks EPS as well.
def paper_bound(scan: str, length: int, dtype: type, clamped: bool, is_value: bool) -> float:
    if scan == "conv_shift":
        return 1e-5 + 4e-6 * length if is_value else 1e-5 + 1e-7 * length
    if dtype is np.float32:
        return 1e-4 + 2e-5 * length
    return (1e-10 + 1e-12 * length) if not clamped else 1e-5 + 4e-6 * length


# An array of one number can be a sum whose terms cancel. No sum in float32 is better than a rounding of its largest term,
# so what is less than a hundredth of its terms is measured by that hundredth: 1e-5 of it are two roundings of them.
CANCELLED = 0.01


def scales(case: Case, values: list, cotangents: list) -> list[float]:
    sizes = terms(case.scan, case.inputs(), cotangents)
    return [0.0] * len(values) + [CANCELLED * x.max(initial=0.0) for x in sizes]


def count(case: Case, form: str) -> None:
    tally.scan_cases.add(repr((case, form)))


def check_exact(case: Case, **static) -> None:
    expected = run(case.scan, "sequential", case.inputs())
    values = expected[: len(expected) - len(case.inputs())]
    sizes = scales(case, values, draw_cotangents(values, np.float64))
    for form in EXACT:
        found = run(case.scan, form, case.inputs(), **(static if form == "chunked" else {}))
        assert max(map(deviation, found, expected, sizes)) <= FLOAT64, f"{form} {case}"
        single = run(case.scan, form, case.inputs(np.float32), **(static if form == "chunked" else {}))
        assert all(x.dtype == np.float32 for x in single)
        worst = max(map(deviation, single, expected, sizes))
        assert worst <= float32_bound(case.length), f"{form} in float32: {worst:.1e} {case}"
        count(case, form)


def check_paper(case: Case) -> None:
    gates = case.inputs()[{"gated": 0, "conv_shift": 1, "memory": 1}[case.scan]]
    clamped = case.scan != "conv_shift" and bool(((gates < EPS) | (gates > 1 - EPS)).any())
    for dtype in (np.float64, np.float32):
        inputs = case.inputs(dtype)
        expected = run(case.scan, "sequential", case.inputs())
        values = [ad.to_host(x) for x in SCANS[case.scan](*inputs, form="paper")]
        cotangents = draw_cotangents(values, np.float64)
        if case.scan == "conv_shift":  # compared where the clamp is inactive: nothing comes back from elsewhere
            cotangents = [g * ((y > 0) & (y < 1)) for g, y in zip(cotangents, values, strict=True)]
            expected = run(case.scan, "sequential", case.inputs(), cotangents)
        found = run(case.scan, "paper", inputs, cotangents)
        assert all(np.isfinite(x).all() for x in found), f"{dtype.__name__} {case}"
        comparable = len(values) if clamped or (case.scan == "conv_shift" and case.kind != "firm") else len(found)
        sizes = scales(case, values, cotangents)
        for k, (f, e) in enumerate(zip(found[:comparable], expected, strict=False)):
            bound, scale = paper_bound(case.scan, case.length, dtype, clamped, k < len(values)), sizes[k]
            if case.scan == "conv_shift":
                scale = 1.0 if k < len(values) else scale / CANCELLED
            worst = deviation(f, e, scale)
            assert worst <= bound, f"array {k} in {dtype.__name__}: {worst:.1e} > {bound:.1e} {case}"
    count(case, "paper")


def drawn_cases(scan: str, lengths: tuple[int, ...]) -> st.SearchStrategy[Case]:
    return st.builds(
        Case,
        scan=st.just(scan),
        length=st.sampled_from(lengths),
        kind=st.sampled_from(KINDS),
        seed=st.integers(0, 2**31),
        batch=st.integers(0, 3),
        heads=st.integers(1, 3),
        readers=st.integers(1, 3),
        cells=st.sampled_from((1, 2, 3, 4, 5, 8, 16, 17, 20)),
        width=st.integers(1, 4),
    )


SHORT = tuple(t for t in LENGTHS if t <= 127)
chunks = st.none() | st.integers(1, 40)


@given(drawn_cases("gated", SHORT), chunks)
@settings(max_examples=250)
def test_gated(case: Case, chunk: int | None):
    check_exact(case, chunk=chunk)


@given(drawn_cases("conv_shift", SHORT), chunks)
@settings(max_examples=250)
def test_conv_shift(case: Case, chunk: int | None):
    check_exact(case, chunk=chunk)


@given(drawn_cases("memory", SHORT), chunks)
@settings(max_examples=250)
def test_memory(case: Case, chunk: int | None):
    check_exact(case, chunk=chunk)


@pytest.mark.parametrize("scan", SCANS)
@pytest.mark.parametrize("kind", KINDS)
def test_every_length_and_kind(scan: str, kind: str):
    """The lengths at and around the borders of chunks and segments, one by one."""
    for length in LENGTHS:
        if length <= 300:
            case = Case(scan, length, kind, seed=length, heads=2, readers=2, cells=17, width=3)
            check_exact(case)
            check_paper(case)


@pytest.mark.parametrize("scan", SCANS)
@pytest.mark.parametrize("kind", ["soft", "one-hot", "mixed"])
def test_a_thousand_steps(scan: str, kind: str):
    case = Case(scan, 1000, kind, seed=3, batch=1, heads=2, cells=16)
    check_exact(case)
    check_paper(case)


@pytest.mark.long
@pytest.mark.parametrize("scan", SCANS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("length", [1000, 4096])
def test_thousands_of_steps(scan: str, kind: str, length: int):
    for cells in (2, 96, 100):
        case = Case(scan, length, kind, seed=length + cells, heads=2, readers=2, cells=cells, width=4)
        check_exact(case)
        check_paper(case)


# ---- the same on the device ---------------------------------------------------------------------


@pytest.mark.parametrize("scan", SCANS)
@pytest.mark.parametrize("form", ["sequential", "paper", "chunked"])
def test_on_the_device_without_synchronisation(scan: str, form: str):
    for length in (1, 2, 9, 33, 70):
        for cells in (1, 2, 7):
            case = Case(scan, length, "mixed", seed=length, heads=2, readers=3, cells=cells)
            expected = run(scan, form, case.inputs(np.float32))
            found = run(scan, form, case.inputs(np.float32), device="standin")
            for f, e in zip(found, expected, strict=True):
                # blocks of the batch differ between devices, and with them the last bits of a sum
                assert f.dtype == np.float32 and deviation(f, e) <= 1e-6
            placed = [ad.to_device(x, "standin") for x in case.inputs(np.float32)]
            g = [ad.to_device(x, "standin") for x in draw_cotangents(SCANS[scan](*case.inputs(np.float32)), np.float32)]
            with standin.no_synchronisation():
                _, pullback = ad.vjp(lambda *a: SCANS[scan](*a, form=form), *placed)
                pullback(tuple(g))
