"""Invariants of addressing, sharpening at its limits, and positional encodings against written-out loops."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import autodiff as ad
from pntm_np.models import NTM, PNTM, Attention, Options
from pntm_np.models.attention.layer import by_distance, rotate
from pntm_np.models.layers import closed, straight_through
from pntm_np.models.lstm.sequential import lstm_cell, lstm_scan
from pntm_np.models.ntm.layer import address, write
from pntm_np.models.positive import positive
from pntm_np.scans import stabilise


def test_positive():
    x = np.array([-1000.0, -1.0, -0.5, 0.0, 0.5, 3.0])
    expected = [1 / (1 + math.exp(-v)) if v < 0 and v > -700 else v + 0.5 if v >= 0 else 0.0 for v in x]
    np.testing.assert_allclose(positive(x), expected, rtol=1e-14)
    ad.check_gradients(positive, x[x != 0], tolerance=1e-9)  # at 0 the slope jumps from 1/4 to 1
    assert ad.vjp(positive, np.zeros(1))[1](np.ones(1))[0] == 1


def test_gates_at_a_threshold_stay_and_those_beyond_it_are_closed():
    tau = 0.125  # exact, and so are its neighbours
    z = np.array([0.0, np.nextafter(tau, 0), tau, 0.5, 1 - tau, np.nextafter(1 - tau, 1), 1.0])
    assert closed(z, tau=tau).tolist() == [0, 0, tau, 0.5, 1 - tau, 1, 1]
    assert ad.vjp(lambda z: closed(z, tau=tau), z)[1](np.ones(7))[0].tolist() == [0, 0, 1, 1, 1, 0, 0]


@pytest.mark.parametrize(("rounding", "last"), ((stabilise, 3), (closed, 5)))
def test_every_second_row_is_rounded_by_its_own_threshold_and_gradients_pass(rounding, last):
    rng = np.random.default_rng(1)
    x = rng.dirichlet(np.ones(last), (5, 7))
    before, taus = x.copy(), np.array([0.01, 0.3, 0.5])
    y, pullback = ad.vjp(lambda x: straight_through(x, rounding=rounding, tau=taus), x)
    for k, tau in enumerate(taus):
        assert np.array_equal(y[2 * k], rounding(x[2 * k], tau=float(tau)))
    assert np.array_equal(y[1::2], x[1::2]) and not np.array_equal(y[2], x[2]) and np.array_equal(x, before)
    g = rng.standard_normal(x.shape)
    assert np.array_equal(pullback(g)[0], g)


@given(st.integers(0, 10**6), st.integers(1, 3), st.sampled_from((1, 2, 5, 17)), st.integers(1, 40))
@settings(max_examples=60)
def test_pntm_addresses_are_distributions(seed: int, heads: int, cells: int, length: int):
    rng = np.random.default_rng(seed)
    layer = PNTM(heads, 2 * heads)
    weights = {k: rng.normal(0, 3, s) for k, s in layer.shapes(4).items()}
    state = layer.start(np, 2, 4, cells, np.float64)
    for _ in range(length):
        _, state = layer.step(weights, rng.standard_normal((2, 4)), state, Options())
        for a in (state.read_address, state.write_address):
            assert (a >= 0).all()
            np.testing.assert_allclose(a.sum(-1), 1, atol=1e-12)
        assert (state.memory >= 0).all()


@given(st.integers(0, 10**6), st.sampled_from((1, 2, 7, 16)))
@settings(max_examples=40)
def test_saturated_shift_logits_move_the_head_exactly(seed: int, cells: int):
    rng = np.random.default_rng(seed)
    layer = PNTM(1, 1)
    weights = {k: np.zeros(s, np.float32) for k, s in layer.shapes(3).items()}
    weights["W_r"][0] = weights["W_w"][0] = 1000 * np.eye(3, dtype=np.float32)
    state, place = layer.start(np, 1, 3, cells, np.float32), 0
    for move in rng.integers(0, 3, 200):
        _, state = layer.step(weights, np.eye(3, dtype=np.float32)[[move]], state, Options())
        place = (place + move - 1) % cells
        assert np.array_equal(state.read_address[0, 0], np.eye(cells)[place])


def controls(rng: np.random.Generator, batch: int, heads: int, width: int) -> dict:
    return {
        "key": np.tanh(rng.normal(0, 2, (batch, heads, width))),
        "beta": rng.uniform(0, 20, (batch, heads, 1)),
        "gate": rng.uniform(0, 1, (batch, heads, 1)),
        "s": rng.dirichlet(np.ones(3), (batch, heads)),
        "gamma": 1 + rng.uniform(0, 99, (batch, heads, 1)),
    }


def test_ntm_addressing_is_finite_over_ten_thousand_states():
    """Sharpening up to 100, exact zeros, one-hot addresses, empty memories: distributions with finite gradients."""
    rng = np.random.default_rng(0)
    batch, heads, cells, width = 500, 2, 12, 4
    for round_ in range(10):  # 10 x 500 x 2 heads = 10,000 states
        c = controls(rng, batch, heads, width)
        a = np.eye(cells)[rng.integers(0, cells, (batch, heads))]
        if round_ % 2:
            a = rng.dirichlet(np.full(cells, 0.05), (batch, heads))
        c["s"][::3] = np.eye(3)[rng.integers(0, 3, c["s"][::3].shape[:-1])]
        c["gate"][::2] = 0  # closed: the address is moved as it is, with exact zeros
        M = rng.normal(0, 1, (batch, cells, width)) * (rng.uniform(size=(batch, cells, 1)) < 0.7)  # empty cells
        for dtype in (np.float64, np.float32):
            inputs = [x.astype(dtype) for x in (*c.values(), a, M)]
            found, pullback = ad.vjp(address, *inputs)
            assert np.isfinite(found).all() and (found >= 0).all()
            np.testing.assert_allclose(found.sum(-1), 1, atol=1e-5)
            assert all(np.isfinite(g).all() for g in pullback(rng.standard_normal(found.shape).astype(dtype)))


def test_sharpening_by_formulation_a_fails_where_b_does_not():
    moved = np.array([[[1e-3, 2e-3, 1e-3, 0.0]]], np.float32)  # what is left of a blurred head
    gamma = np.float32(50)
    with np.errstate(all="ignore"):
        powers = moved**gamma
        naive = powers / powers.sum(-1, keepdims=True)
    assert np.isnan(naive).all()  # 0 / 0
    one = np.ones((1, 1, 1), np.float32)
    stay = np.array([[[0, 1, 0]]], np.float32)
    found = address(one, one, 0 * one, stay, gamma * one, moved, np.ones((1, 4, 1), np.float32))
    np.testing.assert_allclose(found[0, 0], [0, 1, 0, 0], atol=1e-6)


def test_ntm_address_and_write_gradients(device, rng):
    put = lambda *arrays: [ad.to_device(np.asarray(x), device) for x in arrays]  # noqa: E731
    c = controls(rng, 2, 3, 4)
    c["gamma"] = 1 + c["gamma"] / 50
    c["beta"] /= 10
    a, M = rng.dirichlet(np.ones(5), (2, 3)), rng.standard_normal((2, 5, 4))
    ad.check_gradients(address, *put(*c.values(), a, M), tolerance=1e-7)
    erase = rng.uniform(0, 1, (2, 3, 4))
    erase[0, 0] = a[0, 0] = 1.0  # a factor of exactly 0
    ad.check_gradients(write, *put(M, a, erase, rng.standard_normal((2, 3, 4))), tolerance=1e-8)
    gates, cells = rng.standard_normal((2, 12)), rng.standard_normal((2, 3))
    ad.check_gradients(lstm_cell, *put(gates, cells), tolerance=1e-8)
    steps, W = rng.standard_normal((2, 4, 12)), rng.standard_normal((12, 3))
    ad.check_gradients(lstm_scan, *put(steps, W, cells, cells + 1), tolerance=1e-8)


def test_ntm_write_erases_all_then_adds_all(rng):
    M, a = rng.standard_normal((1, 3, 2)), rng.dirichlet(np.ones(3), (1, 2))
    erase, add = rng.uniform(0, 1, (1, 2, 2)), rng.standard_normal((1, 2, 2))
    expected = M.copy()
    for h in range(2):
        for i in range(3):
            expected[0, i] *= 1 - a[0, h, i] * erase[0, h]
    for h in range(2):
        for i in range(3):
            expected[0, i] += a[0, h, i] * add[0, h]
    np.testing.assert_allclose(write(M, a, erase, add), expected, rtol=1e-13)


def test_ntm_with_a_closed_gate_and_sharp_shifts_is_a_tape():
    """No content addressing: the heads step exactly as told, write what they are given and read it back."""
    rng = np.random.default_rng(1)
    one = np.ones((1, 1, 1))
    M, a, place, tape = np.full((1, 8, 2), 1e-6), np.eye(8)[None, [0]], 0, np.full((8, 2), 1e-6)
    for _ in range(300):
        move, value = rng.integers(0, 3), rng.uniform(-1, 1, 2)
        a = address(np.ones((1, 1, 2)), one, 0 * one, np.eye(3)[None, [move]], 1 + one, a, M)
        place = (place + move - 1) % 8
        M = write(M, a, np.ones((1, 1, 2)), value[None, None])
        tape[place] = value
        np.testing.assert_allclose(a[0, 0], np.eye(8)[place], atol=1e-15)
        np.testing.assert_allclose(M[0], tape, atol=1e-12)


def test_ntm_starts_on_the_first_cell_of_an_almost_empty_memory():
    state = NTM(2, 3, 5).start(np, 2, 4, 6, np.float32)
    assert (state.read_address[..., 0] == 1).all() and state.read_address.sum() == 4
    assert (state.memory == np.float32(1e-6)).all() and not state.read.any() and not state.h.any()


# ---- positions ------------------------------------------------------------------------------------


def test_rope_against_a_loop(rng):
    x, past = rng.standard_normal((1, 2, 5, 6)), 3
    expected = np.empty_like(x)
    for t in range(5):
        for i in range(3):
            angle = (t + past) * 10_000 ** (-2 * i / 6)
            left, right = x[0, :, t, i], x[0, :, t, i + 3]
            expected[0, :, t, i] = left * math.cos(angle) - right * math.sin(angle)
            expected[0, :, t, i + 3] = left * math.sin(angle) + right * math.cos(angle)
    np.testing.assert_allclose(rotate(x, past), expected, rtol=1e-12)


def test_rope_scores_depend_on_distance_alone(rng):
    q, k = rng.standard_normal((2, 1, 1, 1, 8))
    score = lambda i, j: float((rotate(q, i) @ rotate(k, j).swapaxes(2, 3)).squeeze())  # noqa: E731
    assert score(5, 2) == pytest.approx(score(105, 102), rel=1e-9) and score(5, 2) != pytest.approx(score(5, 3))


def written_bias(layer: Attention, w: dict, i: int, j: int, h: int) -> float:
    if layer.positions == "alibi":
        return -(2 ** (-8 * (h + 1) / layer.heads)) * (i - j)
    if layer.positions == "fire":
        c, L = abs(float(w["c"])), abs(float(w["L"])) * 512
        ratio = math.log(c * (i - j) + 1) / (math.log(c * max(i, L) + 1) + 1e-6)
        hidden = [max(0.0, float(w["W_1"][u, 0]) * ratio + float(w["b_1"][u])) for u in range(32)]
        return sum(float(w["W_2"][h, u]) * hidden[u] for u in range(32)) + float(w["b_2"][h])
    return 0.0


@pytest.mark.parametrize("heads", [1, 2, 8])
@pytest.mark.parametrize("positions", ["nope", "rope", "alibi", "fire"])
def test_attention_against_loops(positions: str, heads: int, rng):
    layer, size, length = Attention(heads, positions), 4, 6
    width = heads * size
    w = {k: rng.normal(0, 0.5, s) for k, s in layer.shapes(width).items()}
    x = rng.standard_normal((2, length, width))
    for L in (0.005, -0.005) if positions == "fire" else (None,):  # 2.56 positions: both sides of the maximum are met
        w |= {"L": np.asarray(L)} if L else {}
        found, _ = layer.sequence(w, x, layer.start(np, 2, width, 1, np.float64), Options())
        split = lambda W: (x @ W.T).reshape(2, length, heads, size).swapaxes(1, 2)  # noqa: E731
        q, k, v = split(w["W_q"]), split(w["W_k"]), split(w["W_v"])
        if positions == "rope":
            q, k = rotate(q, 0), rotate(k, 0)
        expected = np.zeros((2, length, width))
        for b in range(2):
            for h in range(heads):
                for i in range(length):
                    scores = [q[b, h, i] @ k[b, h, j] / 2.0 + written_bias(layer, w, i, j, h) for j in range(i + 1)]
                    weights = np.exp(scores) / np.exp(scores).sum()
                    seen = sum(weights[j] * v[b, h, j] for j in range(i + 1))
                    expected[b, i, size * h : size * (h + 1)] = seen
        np.testing.assert_allclose(found, expected @ w["W_o"].T, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(
    ("past", "length"), [(0, 1), (0, 2), (0, 7), (4, 1), (4, 3), (0, 65), (508, 3), (509, 3), (510, 3)]
)
def test_fire_by_distance_and_by_pairs(past: int, length: int, rng):
    """float32 on the CPU looks biases up by their distance, as long as no position is beyond 512; float64 never does."""
    layer, width = Attention(2, "fire"), 8
    w = {k: rng.normal(0, 0.5, s) for k, s in layer.shapes(width).items()} | {
        "L": np.asarray(1.0),
        "c": np.asarray(0.1),
    }
    seen = past + length
    future = np.arange(seen) > np.arange(past, seen)[:, None]
    g = np.where(future, 0, rng.standard_normal((2, length, seen)))  # what is masked has no gradient
    found = {}
    for dtype in (np.float32, np.float64):
        weights = {k: v.astype(dtype) for k, v in w.items()}
        q = np.zeros((1, 2, length, 4), dtype)

        def along(params, q=q, g=g.astype(dtype)):
            bias = layer.bias(params, q, past)
            return ad.sum(bias * g), bias

        (_, value), slopes = ad.value_and_grad(along, has_aux=True)(weights)
        found[dtype] = (np.where(future, 0, value), slopes)
    (value, slopes), (expected, expected_slopes) = found.values()
    np.testing.assert_allclose(value, expected, atol=3e-6)  # sums of 32 numbers below 2, each rounded a few times
    for name in ("c", "L", "W_1", "b_1", "W_2", "b_2"):
        scale = max(1.0, np.abs(expected_slopes[name]).max())
        # sums over up to 65 x 65 places, of both signs, of numbers that are rounded a few times each
        np.testing.assert_allclose(slopes[name], expected_slopes[name], atol=2e-5 * scale)


def test_by_distance(rng):
    x = rng.standard_normal((2, 5))
    for length in (1, 2, 5):
        found = by_distance(x, length=length)
        for t in range(length):
            i = 5 - length + t
            assert np.array_equal(found[:, t], [[row[i - j] if j <= i else 0 for j in range(5)] for row in x])
        ad.check_gradients(lambda x, length=length: by_distance(x, length=length), x, tolerance=1e-9)
