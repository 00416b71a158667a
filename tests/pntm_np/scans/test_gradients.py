"""Gradients against differences, and the memory's against an unrolling that shares nothing with it."""

from __future__ import annotations

import numpy as np
import pytest

import autodiff as ad
from pntm_np.scans import HeadState, conv_shift_scan, head_scan, memory_scan, stabilise, start_state
from tests.pntm_np.scans.cases import SCANS, Case, deviation, draw_cotangents, run


@pytest.mark.parametrize("scan", SCANS)
@pytest.mark.parametrize("form", ["sequential", "paper", "chunked"])
@pytest.mark.parametrize("length", [1, 2, 3, 9])
def test_full_check_by_differences(scan: str, form: str, length: int, device: str):
    for cells, heads, readers in ((1, 1, 1), (2, 1, 2), (4, 2, 1)):
        case = Case(scan, length, "firm", seed=1, batch=1, heads=heads, readers=readers, cells=cells)
        inputs = case.inputs()
        if scan == "conv_shift" and form == "paper":
            inputs = [0.9 * x for x in inputs]  # a one stays below 1, where the clamp would be active
            inputs[1] = inputs[1] + 0.01
        if scan == "memory" and form == "paper":
            inputs[1] = 0.05 + 0.5 * inputs[1]  # within the clamp, and no slope so small that rounding hides it
        inputs = [ad.to_device(x, device) for x in inputs]
        # differences of a polynomial of the degree of the length: 1e-8 leaves room for its fifth derivative
        ad.check_gradients(lambda *a: SCANS[scan](*a, form=form), *inputs, tolerance=1e-8)


@pytest.mark.parametrize("scan", SCANS)
@pytest.mark.parametrize("kind", ["one-hot", "mixed"])
def test_exact_forms_by_differences_at_exact_zeros_and_ones(scan: str, kind: str):
    """The recurrences are polynomials: they have no edge at 0 or 1, and neither may the gradient."""
    for length in (1, 2, 5, 17):
        case = Case(scan, length, kind, seed=2, batch=1, heads=2, readers=2, cells=3)
        for form in ("sequential", "chunked"):
            ad.check_gradients(lambda *a: SCANS[scan](*a, form=form), *case.inputs(), tolerance=1e-8)


@pytest.mark.parametrize("form", ["sequential", "chunked"])
@pytest.mark.parametrize("kind", ["soft", "mixed", "one-hot"])
def test_the_memory_equals_its_explicit_unrolling(form: str, kind: str):
    """All memories T x m x n as Tensors, step by step with the engine's ops: values and gradients to 1e-12."""
    case = Case("memory", 40, kind, seed=5, heads=2, readers=3, cells=6, width=3)
    inputs = case.inputs()

    def unrolled(q, w, v, M):
        memories = []
        for t in range(case.length):
            a = ad.reshape(w[:, t], shape=(2, 2, 6, 1))
            M = (1.0 - a) * M + a * ad.reshape(v[:, t], shape=(2, 2, 1, 3))
            memories.append(M)
        return ad.einsum(q, ad.stack(*memories, axis=1), subscripts="btrm,btwmn->btrwn"), M

    value, pullback = ad.vjp(unrolled, *inputs)
    expected = [*value, *pullback(tuple(draw_cotangents(value, np.float64)))]
    found = run("memory", form, inputs)
    assert max(map(deviation, found, expected)) <= 1e-12


@pytest.mark.parametrize("tau", [0.0, 0.01, 0.2, 0.4, 1.0])
def test_stabilise(tau: float, device: str, rng):
    s = rng.dirichlet(np.ones(3), (40, 2))
    expected = np.empty_like(s)
    for i in np.ndindex(s.shape[:-1]):  # the rule, written out
        keep = [x >= tau for x in s[i]]
        if not any(keep):
            keep = [x == max(s[i]) for x in s[i]]
        total = sum(x for x, k in zip(s[i], keep, strict=True) if k)
        expected[i] = [x / total if k else 0.0 for x, k in zip(s[i], keep, strict=True)]
    x = ad.to_device(s, device)
    np.testing.assert_allclose(ad.to_host(stabilise(x, tau=tau)), expected, rtol=1e-14)
    near = np.abs(s - tau).min(-1) > 0.01  # away from the threshold, where the rule jumps
    ad.check_gradients(lambda a: stabilise(a, tau=tau), ad.to_device(s[near], device), tolerance=1e-7)


def test_stabilise_exact_ties_and_softmax():
    third = np.full((1, 3), 1 / 3)
    np.testing.assert_allclose(stabilise(third, tau=0.9), third)
    np.testing.assert_array_equal(stabilise(np.array([0.5, 0.5, 0.0]), tau=0.6), [0.5, 0.5, 0.0])
    np.testing.assert_array_equal(stabilise(np.array([0.0, 1.0, 0.0]), tau=0.01), [0, 1, 0])
    np.testing.assert_array_equal(stabilise(np.array([0.25, 0.25, 0.5]), tau=0.25), [0.25, 0.25, 0.5])  # >= tau stays
    logits = np.array([1.0, -6.0, 2.0])
    s = np.exp(logits) / np.exp(logits).sum()
    over_two = np.exp(logits[[0, 2]]) / np.exp(logits[[0, 2]]).sum()  # the paper: softmax over what remains
    np.testing.assert_allclose(stabilise(s, tau=0.01)[[0, 2]], over_two, rtol=1e-14)
    assert np.isnan(stabilise(np.array([np.nan, 0.5, 0.5]), tau=0.01)).any()


@pytest.mark.parametrize("form", ["sequential", "chunked"])
@pytest.mark.parametrize("segment", [1, 7, 64, 1000])
def test_heads_in_segments_equal_one_go(form: str, segment: int, rng):
    """Shifts and values to reads, with gradients through all segments."""
    shifts = [rng.dirichlet(np.ones(3), (2, 50, h)) for h in (2, 1)]
    values, state = rng.uniform(0, 1, (2, 50, 1, 3)), start_state(np, 2, 2, 1, 9, 3, np.float64)
    q, read_address = conv_shift_scan(shifts[0], state.read_address, form="sequential")
    w, write_address = conv_shift_scan(shifts[1], state.write_address, form="sequential")
    expected, memory = memory_scan(q, w, values, state.memory, form="sequential")
    last = (read_address, write_address, memory)
    found, carried = head_scan(*shifts, values, state, form=form, segment=segment)
    assert max(map(deviation, (found, *carried), (expected, *last))) <= 1e-12

    def in_segments(s_r, s_w, v, *start):
        reads, end = head_scan(s_r, s_w, v, HeadState(*start), form=form, segment=segment)
        return reads, *end

    def composed(s_r, s_w, v, a_r, a_w, M):
        q, a_r = conv_shift_scan(s_r, a_r, form="sequential")
        w, a_w = conv_shift_scan(s_w, a_w, form="sequential")
        reads, M = memory_scan(q, w, v, M, form="sequential")
        return reads, a_r, a_w, M

    def pulled(function):
        value, pullback = ad.vjp(function, *shifts, values, *state)
        return [*value, *pullback(tuple(draw_cotangents(value, np.float64)))]

    assert max(map(deviation, pulled(in_segments), pulled(composed))) <= 1e-12


def test_the_paper_form_goes_through_time_in_one_go(rng):
    """Its errors grow with the length; segments would begin anew with each and hide that."""
    shifts = [rng.dirichlet(np.ones(3), (1, 300, h)) for h in (2, 1)]
    values, state = rng.uniform(0.1, 1, (1, 300, 1, 2)), start_state(np, 1, 2, 1, 9, 2, np.float64)
    start = np.concatenate(state[:2], axis=1)
    addresses, _ = conv_shift_scan(np.concatenate(shifts, axis=2), start, form="paper")
    expected, _ = memory_scan(addresses[:, :, :2], addresses[:, :, 2:], values, state.memory, form="paper")
    assert np.array_equal(head_scan(*shifts, values, state, form="paper")[0], expected)
    assert not np.array_equal(head_scan(*shifts, values, state, form="paper", segment=256)[0], expected)


def test_heads_start_on_the_first_cell():
    state = start_state(np, 2, 3, 1, 4, 5)
    assert state.read_address.shape == (2, 3, 4) and state.write_address.shape == (2, 1, 4)
    assert (state.read_address[..., 0] == 1).all() and state.read_address.sum() == 6
    assert (state.write_address[..., 0] == 1).all() and state.write_address.sum() == 2
    assert state.memory.shape == (2, 1, 4, 5) and not state.memory.any() and state.memory.dtype == np.float32
