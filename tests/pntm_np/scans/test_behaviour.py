"""Cutting and carrying on, causality, NaN, bad input, and the need for memory."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import autodiff as ad
from pntm_np.scans import conv_shift_scan, gated_scan, head_scan, memory_scan, stabilise, start_state
from pntm_np.scans.forms import compiled
from pntm_np.scans.memory import chunked as memory_chunked_module
from tests import tally
from tests.limits import LIMIT
from tests.naming import raises_naming
from tests.pntm_np.scans.cases import KINDS, SCANS, Case, deviation, run

FORMS = ("sequential", "paper", "chunked", *(["fused"] if compiled() else []))


@given(st.sampled_from(sorted(SCANS)), st.sampled_from(FORMS), st.sampled_from(KINDS), st.data())
@settings(max_examples=150)
def test_cut_anywhere_and_carry_the_state(scan: str, form: str, kind: str, data):
    length = data.draw(st.sampled_from((2, 3, 8, 17, 33, 65)))
    cut = data.draw(st.integers(1, length - 1))
    case = Case(scan, length, kind, seed=cut, heads=2, readers=2, cells=data.draw(st.sampled_from((1, 2, 9, 17))))
    *sequence, start = case.inputs()
    whole, last = SCANS[scan](*sequence, start, form=form)
    first, middle = SCANS[scan](*(x[:, :cut] for x in sequence), start, form=form)
    second, end = SCANS[scan](*(x[:, cut:] for x in sequence), middle, form=form)
    joined = np.concatenate([first, second], axis=1)
    if form == "sequential":
        assert joined.tobytes() == whole.tobytes() and end.tobytes() == last.tobytes()
    else:
        # the paper's conv_shift forgets nothing at a cut, but clamps there, which hides the growth so far
        bound = 1e-12 if form != "paper" else 1e-5 + 4e-6 * length
        assert max(deviation(joined, whole), deviation(end, last)) <= bound


@pytest.mark.parametrize("scan", SCANS)
def test_gradients_across_a_cut(scan: str):
    """The cotangent of the state carries everything back over the cut: the same numbers for the loop."""
    case = Case(scan, 40, "mixed", seed=8, heads=2, readers=2, cells=7)
    inputs = case.inputs()
    for form in ("sequential", "chunked"):
        for cut in (1, 16, 39):

            def in_two(*a, form=form, cut=cut):
                *sequence, start = a
                key = (slice(None), slice(None, cut)), (slice(None), slice(cut, None))
                first, middle = SCANS[scan](*(x[key[0]] for x in sequence), start, form=form)
                second, end = SCANS[scan](*(x[key[1]] for x in sequence), middle, form=form)
                return ad.concatenate(first, second, axis=1), end

            value, pullback = ad.vjp(in_two, *inputs)
            g = [np.random.default_rng(4).standard_normal(y.shape) for y in value]
            found = [*value, *pullback(tuple(g))]
            expected = run(scan, form, inputs, g)
            if form == "sequential":
                assert all(np.array_equal(f, e) for f, e in zip(found, expected, strict=True))
            assert max(map(deviation, found, expected)) <= 1e-12


@pytest.mark.parametrize("scan", SCANS)
@pytest.mark.parametrize("form", FORMS)
def test_the_past_does_not_depend_on_the_future(scan: str, form: str):
    """Changing step t leaves every earlier output bit-equal. (An address a_t is an output before step t.)"""
    case = Case(scan, 37, "soft", seed=6, heads=2, readers=2, cells=11)
    before, _ = SCANS[scan](*case.inputs(np.float32), form=form)
    for t in range(37):
        inputs = case.inputs(np.float32)
        for x in inputs[:-1]:
            x[:, t] = x[:, t][..., ::-1] * np.float32(0.75)
        after, _ = SCANS[scan](*inputs, form=form)
        assert after[:, :t].tobytes() == before[:, :t].tobytes()
        assert t == 36 or after[:, t + 1 :].tobytes() != before[:, t + 1 :].tobytes()


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("at", [0, 5, 17, 36])
def test_nan_from_that_step_on_and_never_earlier(form: str, at: int):
    length = 37
    for scan, argument in (("gated", 0), ("gated", 1), ("conv_shift", 0), ("memory", 1), ("memory", 2)):
        inputs = Case(scan, length, "mixed", seed=1, batch=3, heads=1, cells=7).inputs(np.float32)
        clean, _ = SCANS[scan](*inputs, form=form)
        inputs[argument][1, at] = np.nan
        with np.errstate(invalid="ignore"):
            values, last = SCANS[scan](*inputs, form=form)
        first = at + 1 if scan == "conv_shift" else at  # an address is given before its step's shift
        assert np.isnan(values[1, first:]).all() and np.isnan(last[1]).all(), (scan, argument)
        assert values[1, :first].tobytes() == clean[1, :first].tobytes(), (scan, argument)
        for other in (0, 2):
            assert values[other].tobytes() == clean[other].tobytes() and not np.isnan(last[other]).any()


def test_a_nan_in_one_value_stays_in_its_column():
    for form in FORMS:
        inputs = Case("memory", 20, "soft", seed=1, cells=5, width=3).inputs()
        inputs[2][0, 4, 0, 1] = np.nan
        reads, _ = memory_scan(*inputs, form=form)
        assert np.isnan(reads[0, 4:, 0, 0, 1]).all() and np.isfinite(reads[..., [0, 2]]).all(), form


def test_a_nan_query_spoils_only_its_own_read():
    for form in FORMS:
        inputs = Case("memory", 20, "soft", seed=1, cells=5, readers=2).inputs()
        inputs[0][0, 7, 1] = np.nan
        reads, last = memory_scan(*inputs, form=form)
        assert np.isnan(reads[0, 7, 1]).all() and np.isnan(reads).sum() == reads[0, 7, 1].size, form
        assert np.isfinite(last).all()


@pytest.mark.parametrize("scan", SCANS)
def test_gradients_at_exact_zeros_are_finite_in_every_form(scan: str):
    """log 0 and exact zeros of the spectrum (left and right equally strong) never turn into NaN or infinity."""
    inputs = Case(scan, 30, "one-hot", seed=1, heads=2, cells=8).inputs()
    if scan == "conv_shift":
        inputs[0][...] = [0.5, 0.0, 0.5]
    inputs[-1] = np.zeros_like(inputs[-1])
    if scan == "conv_shift":
        inputs[-1][..., 0] = 1
    for form in FORMS:
        assert all(np.isfinite(x).all() for x in run(scan, form, inputs)), form


@pytest.mark.parametrize("shift", [(0.5, 0.0, 0.5), (0.0, 0.5, 0.5), (1 / 3, 1 / 3, 1 / 3), (0.25, 0.5, 0.25)])
def test_the_papers_gradient_at_zeros_of_the_spectrum_has_the_size_of_the_loops(shift):
    """A zero of the spectrum is a tiny number after rounding, whose phase is noise: divided by, it would explode."""
    for cells in (2, 8, 12, 96):
        s, a = np.empty((1, 3, 1, 3)), np.zeros((1, 1, cells))
        s[...] = shift
        a[..., 0] = 1
        exact, paper = (run("conv_shift", form, [s, a]) for form in ("sequential", "paper"))
        for e, p in zip(exact, paper, strict=True):
            assert np.abs(p).max() <= 3 * np.abs(e).max()


def test_an_empty_batch():
    for scan in SCANS:
        for form in FORMS:
            found = run(scan, form, Case(scan, 9, "soft", seed=1, batch=0).inputs())
            assert all(x.shape[0] == 0 for x in found)


# ---- bad input ----------------------------------------------------------------------------------

S, A = np.full((2, 4, 3), 1 / 3), np.eye(5)[:2]
Z = np.ones((2, 4, 3))
Q, W, V, M = np.ones((2, 4, 1, 5)), np.ones((2, 4, 2, 5)), np.ones((2, 4, 2, 3)), np.ones((2, 2, 5, 3))

BAD = {
    "not three offsets": (lambda: conv_shift_scan(S[..., :2], A), ["s", "(2, 4, 2)", "(B, T, ..., 3)"]),
    "no time": (lambda: conv_shift_scan(S[0], A), ["s", "(4, 3)"]),
    "no steps": (lambda: conv_shift_scan(S[:, :0], A), ["s", "(2, 0, 3)", "T >= 1"]),
    "no cells": (lambda: conv_shift_scan(S, A[:, :0]), ["a0", "(2, 0)", "m >= 1"]),
    "another batch": (lambda: conv_shift_scan(S, A[:1]), ["a0", "(1, 5)", "(2, m)"]),
    "chunk": (lambda: conv_shift_scan(S, A, chunk=0), ["conv_shift_scan", "chunk is 0", "at least 1"]),
    "chunk of another form": (lambda: conv_shift_scan(S, A, form="paper", chunk=4), ["chunk is 4", "'paper'", "only 'chunked'"]),
    "no read heads": (lambda: memory_scan(Q[:, :, :0], W, V, M), ["q", "(2, 4, 0, 5)", "R, m >= 1"]),
    "no write heads": (lambda: memory_scan(Q, W[:, :, :0], V[:, :, :0], M[:, :0]), ["w", "(2, 4, 0, 5)", "W >= 1"]),
    "no numbers": (lambda: memory_scan(Q, W, V[..., :0], M[..., :0]), ["v", "(2, 4, 2, 0)", "n >= 1"]),
    "form": (lambda: conv_shift_scan(S, A, form="fft"), ["'fft'", "sequential, paper, chunked, fused"]),
    "gates without time": (lambda: gated_scan(Z[0, 0], Z, Z), ["z", "(3,)", "(B, T, ...)"]),
    "no gates": (lambda: gated_scan(Z[:, :0], Z[:, :0], Z[:, 0]), ["z", "T >= 1"]),
    "candidates": (lambda: gated_scan(Z, Z[:, :3], Z[:, 0]), ["c", "(2, 3, 3)", "(2, 4, 3)"]),
    "start": (lambda: gated_scan(Z, Z, Z), ["h0", "(2, 4, 3)", "(2, 3)"]),
    "gated chunk": (lambda: gated_scan(Z, Z, Z[:, 0], chunk=-1), ["chunk is -1"]),
    "read addresses": (lambda: memory_scan(Q[0], W, V, M), ["q", "(4, 1, 5)", "(B, T, R, m)"]),
    "write length": (lambda: memory_scan(Q, W[:, :3], V, M), ["w", "(2, 3, 2, 5)", "(2, 4, W, 5)"]),
    "write cells": (lambda: memory_scan(Q, W[..., :4], V, M), ["w", "(2, 4, 2, 4)"]),
    "values": (lambda: memory_scan(Q, W, V[:, :, :1], M), ["v", "(2, 4, 1, 3)", "(2, 4, 2, n)"]),
    "memory": (lambda: memory_scan(Q, W, V, M[:, :, :4]), ["M0", "(2, 2, 4, 3)", "(2, 2, 5, 3)"]),
    "cells": (lambda: memory_scan(Q[..., :0], W[..., :0], V, M[:, :, :0]), ["q", "m >= 1"]),
    "memory chunk": (lambda: memory_scan(Q, W, V, M, chunk=0), ["memory_scan", "chunk is 0"]),
    "tau": (lambda: stabilise(S, tau=2.0), ["stabilise", "tau is 2.0", "0 to 1"]),
    "stabilise": (lambda: stabilise(S[..., :2], tau=0.1), ["s has shape (2, 4, 2)", "(..., 3)"]),
    "segment": (lambda: head_scan(S[:, :, None], S[:, :, None], V[:, :, :1], start_state(np, 2, 1, 1, 5, 3), segment=0), ["segment is 0"]),
    "no values": (lambda: head_scan(S[:, :, None], S[:, :, None], V[:, :0], start_state(np, 2, 1, 1, 5, 3)), ["values", "T, W, n >= 1"]),
    "head form": (lambda: head_scan(S[:, :, None], S[:, :, None], V[:, :, :1], start_state(np, 2, 1, 1, 5, 3), form="fft"), ["head_scan", "'fft'"]),
    "head state": (lambda: head_scan(S[:, :, None], S[:, :, None], V[:, :, :1], start_state(np, 2, 1, 1, 5, 4)), ["state.memory", "(2, 1, 5, 4)", "(2, 1, 5, 3)"]),
    "head cells": (lambda: head_scan(S[:, :, None], S[:, :, None], V[:, :, :1], start_state(np, 2, 1, 1, 5, 3)._replace(memory=M[:, :1, :0])), ["state.memory", "m >= 1"]),
    "head lengths": (lambda: head_scan(S[:, :3, None], S[:, :, None], V, start_state(np, 2, 1, 1, 5, 3)), ["read_shifts", "(2, 3, 1, 3)", "(2, 4, 1, 3)"]),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_named(name: str):
    call, words = BAD[name]
    raises_naming(call, ValueError, words)


def test_a_state_is_named_as_such():
    call = lambda: head_scan(S[:, :, None], S[:, :, None], V[:, :, :1], (A, A, M))  # noqa: E731
    raises_naming(call, TypeError, ["state is tuple", "start_state"])


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("scan", SCANS)
def test_layout_does_not_matter(scan: str, form: str):
    """Transposed, Fortran-ordered, strided and reversed inputs, and cotangents that are views."""
    case = Case(scan, 21, "firm", seed=3, heads=2, readers=3, cells=5, width=3)
    inputs = case.inputs()
    g = [np.random.default_rng(2).standard_normal(y.shape) for y in SCANS[scan](*inputs)]
    expected = run(scan, form, inputs, g)

    def swapped(x):
        return np.ascontiguousarray(x.T).T

    def strided(x):
        return np.repeat(x, 2, axis=-1)[..., ::2]

    def reversed_(x):
        return np.ascontiguousarray(x[..., ::-1])[..., ::-1]

    for layout in (np.asfortranarray, swapped, strided, reversed_):
        found = run(scan, form, [layout(x) for x in inputs], [layout(x) for x in g])
        assert max(map(deviation, found, expected)) <= 1e-13, layout.__name__


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("scan", SCANS)
def test_mixed_precision_is_promoted_and_gradients_come_back_as_they_were(scan: str, form: str):
    case = Case(scan, 20, "firm", seed=3, cells=4)
    for k in range(len(case.inputs())):
        mixed = case.inputs(np.float32)
        mixed[k] = mixed[k].astype(np.float64)
        found = run(scan, form, mixed, [np.ones(y.shape) for y in SCANS[scan](*mixed)])
        assert [x.dtype for x in found[2:]] == [x.dtype for x in mixed]
        assert all(x.dtype == np.float64 for x in found[:2])


@pytest.mark.parametrize("dtype", [np.int64, np.complex128, np.float16, bool])
def test_other_dtypes_are_refused(dtype):
    for call, name in (
        (lambda: conv_shift_scan(S.astype(dtype), A), "s"),
        (lambda: conv_shift_scan(S, A.astype(dtype)), "a0"),
        (lambda: gated_scan(Z, Z.astype(dtype), Z[:, 0]), "c"),
        (lambda: memory_scan(Q, W, V, M.astype(dtype)), "M0"),
        (lambda: conv_shift_scan(S, [1.0, 0.0]), "a0"),
    ):
        with pytest.raises(TypeError, match=f"{name} is .*; expected a float32 or float64 array"):
            call()


@pytest.mark.parametrize("batch", [1, 2, 5])
def test_the_batch_in_blocks(monkeypatch, batch: int):
    """The chunked memory works off the batch in blocks; here of one row each, and of two."""
    for rows in (1, 2):
        monkeypatch.setattr(memory_chunked_module, "BLOCK", rows * 2 * 3 * 8 * 5)
        inputs = Case("memory", 40, "mixed", seed=4, batch=batch, heads=2, readers=3, cells=5).inputs()
        expected, found = (run("memory", form, inputs) for form in ("sequential", "chunked"))
        assert max(map(deviation, found, expected)) <= 1e-12


def test_the_paper_forms_are_the_papers():
    """What their epsilon does shows: growth of the spectrum, a leak through the clamp, no gradient where it acts."""
    length = 2000
    z, c = np.zeros((1, length, 1)), np.full((1, length, 1), 3.0)
    _, h = gated_scan(z, c, np.ones((1, 1)), form="paper")
    assert h[0, 0] == pytest.approx(3 - 2 * (1 - 1e-6) ** length, rel=1e-6)  # a closed gate lets EPS through
    d_z = run("gated", "paper", [z, c, np.ones((1, 1))])[2]
    assert not d_z.any()
    w = np.zeros((1, length, 1, 2))
    w[..., 1] = 1
    _, M = memory_scan(w, w, np.full((1, length, 1, 1), 3.0), np.ones((1, 1, 2, 1)), form="paper")
    assert M[0, 0, 0, 0] == pytest.approx(3 - 2 * (1 - 1e-6) ** length, rel=1e-6)
    assert not run("memory", "paper", [w, w, np.full((1, length, 1, 1), 3.0), np.ones((1, 1, 2, 1))])[3].any()
    s, a = np.tile([0.2, 0.6, 0.2], (1, length, 1)), np.full((1, 4), 0.25)
    _, last = conv_shift_scan(s, a, form="paper")
    assert last.sum() == pytest.approx((1 + 1e-6) ** (length + 1), rel=1e-7)  # the first bin grows by EPS a step
    stay = np.tile([0.0, 1.0, 0.0], (1, 5, 1))
    assert not run("conv_shift", "paper", [stay, np.ones((1, 1))])[2].any()  # the only cell is above 1: clamped


# ---- memory ---------------------------------------------------------------------------------------

MEASURE = """
import re, sys
import numpy as np
from pntm_np.scans import head_scan, start_state
# not ru_maxrss: that begins with what the parent process needed
status = lambda key: int(re.search(key + r":\\s+(\\d+)", open("/proc/self/status").read())[1]) * 1024
peak, now = lambda: status("VmHWM"), lambda: status("VmRSS")
B, T, m, n = 8, int(sys.argv[1]), 512, 16
rng = np.random.default_rng(0)
shifts = rng.dirichlet(np.ones(3), (2, B, 64, 1)).astype(np.float32)
shifts = np.tile(shifts, (1, 1, T // 64, 1, 1))
values = rng.random((B, T, 1, n), dtype=np.float32)
before = now()
reads, _ = head_scan(shifts[0], shifts[1], values, start_state(np, B, 1, 1, m, n))
above = peak() - before - reads.nbytes
assert np.isfinite(reads).all()
print(above)
"""


@pytest.mark.long
def test_the_need_for_memory_does_not_grow_with_length():
    """One head pair at the paper's largest bench size, in a process of its own; its log-space form would need 17 GB."""

    def measured(length: int) -> int:
        command = [sys.executable, "-c", MEASURE, str(length)]
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=LIMIT)
        return int(done.stdout)

    # the least of three: how the allocator happens to lay things out comes to a megabyte or two
    need = {length: min(measured(length) for _ in range(3)) for length in (4096, 65_536)}
    shown = ", ".join(f"{n / 1e6:.1f} MB at T = {length:,}" for length, n in need.items())
    tally.notes.append(f"head_scan, batch 8, m = 512, n = 16: peak above inputs and reads {shown}")
    assert need[65_536] < 0.5e9
    assert abs(need[65_536] - need[4096]) <= 0.1 * need[4096], need
