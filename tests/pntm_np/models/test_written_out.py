"""Each layer against the paper's equations, written out step by step in plain NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from pntm_np.models import NTM, PNTM, Architecture, MinGRU, Options, build, decide_heads
from pntm_np.scans.forms import compiled

rng = np.random.default_rng(11)
sigmoid = lambda x: 1 / (1 + np.exp(-x))  # noqa: E731
softplus = lambda x: np.log(1 + np.exp(x))  # noqa: E731
g = lambda x: np.where(x >= 0, x + 0.5, sigmoid(x))  # noqa: E731


def softmax(x: np.ndarray) -> np.ndarray:
    return np.exp(x) / np.exp(x).sum()


def shifted(a: np.ndarray, s: np.ndarray) -> np.ndarray:
    m = len(a)
    return np.array([sum(a[(i - j) % m] * s[j + 1] for j in (-1, 0, 1)) for i in range(m)])


def weights(shapes: dict) -> dict:
    return {k: rng.normal(0, 0.7, s) for k, s in shapes.items()}


def test_pntm():
    H, n, d, m, T = 2, 6, 5, 7, 9
    layer, x = PNTM(H, n), rng.standard_normal((1, T, d))
    w = weights(layer.shapes(d))
    a_r, a_w, M = np.eye(m)[[0] * H], np.eye(m)[[0] * H], np.zeros((m, n))
    expected = []
    for t in range(T):
        share = n // H
        v = g(w["W_u"] @ x[0, t])
        for h in range(H):  # M_t[i] = (1 - a[i]) M_{t-1}[i] + a[i] g(u), each head in its share of the cell
            part = slice(h * share, (h + 1) * share)
            for i in range(m):
                M[i, part] = (1 - a_w[h, i]) * M[i, part] + a_w[h, i] * v[part]
        mixed = np.array([w["W_m"] @ M[i] for i in range(m)])
        r = np.concatenate([sum(a_r[h, i] * mixed[i] for i in range(m)) for h in range(H)])
        expected.append(w["W_o"] @ r)
        a_r = np.array([shifted(a_r[h], softmax(w["W_r"][h] @ x[0, t])) for h in range(H)])
        a_w = np.array([shifted(a_w[h], softmax(w["W_w"][h] @ x[0, t])) for h in range(H)])
    found, state = layer.sequence(w, x, layer.start(np, 1, d, m, np.float64), Options())
    np.testing.assert_allclose(found[0], expected, rtol=1e-11, atol=1e-13)
    np.testing.assert_allclose(state.read_address[0], a_r, atol=1e-14)
    np.testing.assert_allclose(state.write_address[0], a_w, atol=1e-14)


def test_ntm():
    H, n, d, c, m, T = 2, 3, 4, 5, 6, 7
    layer, x = NTM(H, n, c), rng.standard_normal((1, T, d))
    w = weights(layer.shapes(d))
    h, cc, M, r = np.zeros(c), np.zeros(c), np.full((m, n), 1e-6), np.zeros(H * n)
    a = {side: np.eye(m)[[0] * H] for side in ("read", "write")}
    expected = []
    for t in range(T):
        gates = w["controller.W_x"] @ np.concatenate([x[0, t], r]) + w["controller.W_h"] @ h + w["controller.b"]
        i, f, gg, o = np.split(gates, 4)
        cc = sigmoid(f) * cc + sigmoid(i) * np.tanh(gg)
        h = sigmoid(o) * np.tanh(cc)
        lin = lambda side, name: (w[f"{side}.W_{name}"] @ h + w[f"{side}.b_{name}"]).reshape(H, -1)  # noqa: E731
        for side in a:
            key, beta, gate = np.tanh(lin(side, "k")), softplus(lin(side, "beta")), sigmoid(lin(side, "g"))
            gamma, moved = 1 + softplus(lin(side, "gamma")), []
            for k in range(H):
                norms = [max(np.linalg.norm(key[k]), 1e-8) * max(np.linalg.norm(M[q]), 1e-8) for q in range(m)]
                content = softmax(beta[k] * np.array([key[k] @ M[q] / norms[q] for q in range(m)]))
                mixed = (1 - gate[k]) * a[side][k] + gate[k] * content
                place = shifted(mixed, softmax(lin(side, "s")[k])) + 1e-12
                moved.append(place ** gamma[k] / (place ** gamma[k]).sum())
            a[side] = np.array(moved)
        add, erase = np.tanh(lin("write", "u")), sigmoid(lin("write", "d"))
        for q in range(m):
            for k in range(H):
                M[q] *= 1 - a["write"][k, q] * erase[k]
        for q in range(m):
            for k in range(H):
                M[q] += a["write"][k, q] * add[k]
        r = np.concatenate([a["read"][k] @ M for k in range(H)])
        expected.append(w["W_oh"] @ h + w["W_or"] @ r + w["b_o"])
    found, state = layer.sequence(w, x, layer.start(np, 1, d, m, np.float64), Options())
    np.testing.assert_allclose(found[0], expected, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(state.memory[0], M, atol=1e-12)


def test_lstm():
    model = build("lstm", 5, width=4)
    w = weights(model.shapes())
    tokens = rng.integers(0, 5, (1, 8))
    h, c, expected = np.zeros(4), np.zeros(4), []
    for token in tokens[0]:
        i, f, gg, o = np.split(w["mixer.W_x"] @ w["embed.weight"][token] + w["mixer.W_h"] @ h + w["mixer.b"], 4)
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(gg)
        h = sigmoid(o) * np.tanh(c)
        expected.append(w["decoder.weight"] @ h + w["decoder.bias"])
    np.testing.assert_allclose(model.forward(w, tokens)[0], expected, rtol=1e-11)


@pytest.mark.parametrize("gate_tau", [0.0, 0.4])
def test_a_residual_stack_of_mingru(gate_tau: float):
    from scipy.special import erf

    model = Architecture(4, (MinGRU(2), MinGRU(2)), vocabulary=5)
    w = weights(model.shapes())
    tokens = rng.integers(0, 5, (1, 8))
    states, expected = [np.zeros(8), np.zeros(8)], []
    normed = lambda x, p: (x - x.mean()) / np.sqrt(x.var() + 1e-5) * w[p + ".scale"] + w[p + ".bias"]  # noqa: E731
    for token in tokens[0]:
        x = w["embed.weight"][token]
        for k in range(2):
            p = f"blocks.{k}."
            y = normed(x, p + "norm1")
            z, c = sigmoid(w[p + "mixer.W_z"] @ y), g(w[p + "mixer.W_h"] @ y)
            z = np.where(z < gate_tau, 0, np.where(z > 1 - gate_tau, 1, z))
            states[k] = (1 - z) * states[k] + z * c
            x = x + w[p + "mixer.W_out"] @ states[k]
            u = w[p + "ffn.W_in"] @ normed(x, p + "norm2")
            x = x + w[p + "ffn.W_out"] @ (0.5 * u * (1 + erf(u / np.sqrt(2))))
        expected.append(w["decoder.weight"] @ x + w["decoder.bias"])
    np.testing.assert_allclose(model.forward(w, tokens, options=Options(gate_tau=gate_tau))[0], expected, rtol=1e-10)


def test_noise_disturbs_the_logits_of_shifts_and_gates_and_nothing_else():
    layer, d, seen = PNTM(2, 4), 3, []
    w, x = weights(layer.shapes(d)), rng.standard_normal((2, 5, d))

    def noise(logits):
        seen.append(np.array(logits))
        return logits + 0.5 * np.arange(3) if len(seen) == 1 else logits + 0.25

    options = Options(noise=noise)
    s, v = layer.controls(w, x, options)
    heads = [W[h] for W in (w["W_r"], w["W_w"]) for h in range(2)]
    logits = np.stack([x @ W.T for W in heads], axis=2)  # B, T, heads, 3
    np.testing.assert_allclose(seen[0], logits, rtol=1e-12)
    expected = np.exp(logits + 0.5 * np.arange(3))
    np.testing.assert_allclose(s, expected / expected.sum(-1, keepdims=True), rtol=1e-12)
    assert np.array_equal(v, layer.controls(w, x, Options())[1])
    gru = MinGRU(2)
    w = weights(gru.shapes(d))
    z, c = gru._controls(w, x, options)
    np.testing.assert_allclose(z, sigmoid(x @ w["W_z"].T + 0.25), rtol=1e-12)
    assert np.array_equal(c, gru._controls(w, x, Options())[1]) and len(seen) == 2


@pytest.mark.parametrize("form", ["sequential", "fused"])
def test_noise_disturbs_gates_and_shifts_of_an_ntm_and_nothing_else(form: str):
    """The same noise at every step is another bias: of the controller's gates, and of the heads' gates and shifts."""
    if form == "fused" and not compiled():
        pytest.skip("Numba is not installed")
    layer, d, moves = NTM(2, 3, 4), 5, []
    w, x = weights(layer.shapes(d)), rng.standard_normal((2, 7, d))
    biased = {name: value.copy() for name, value in w.items()}

    def noise(logits):
        moves.append(rng.standard_normal(logits.shape[-1]))
        return logits + moves[-1]

    found, state = layer.sequence(w, x, layer.start(np, 2, d, 6, np.float64), Options(form, noise=noise))
    i_f, o, of_heads = moves  # two heads of each kind: four gates, and four times three shifts
    biased["controller.b"] += np.concatenate([i_f, np.zeros(4), o])
    for k, side in enumerate(("read", "write")):
        biased[f"{side}.b_g"] += of_heads[2 * k : 2 * k + 2]
        biased[f"{side}.b_s"] += of_heads[4 + 6 * k : 10 + 6 * k]
    expected, end = layer.sequence(biased, x, layer.start(np, 2, d, 6, np.float64), Options("sequential"))
    for f, e in zip((found, *state), (expected, *end), strict=True):
        np.testing.assert_allclose(f, e, rtol=1e-9, atol=1e-12)  # sharpening magnifies rounding, step by step


def test_blur_spreads_a_share_of_every_shift():
    """A head with blurred shifts is where the mean of two is: one with its shifts, and one that goes anywhere."""
    layer, d = NTM(2, 3, 4), 5
    w, x = weights(layer.shapes(d)), rng.standard_normal((2, 1, d))
    h = rng.standard_normal((2, 4))
    plain = layer.controls(w, d, h).shift
    found = layer._controls(*layer._prepared(w, d)[1:], h, Options(blur=np.array([0.0, 0.3]))).shift
    np.testing.assert_array_equal(found[0], plain[0])
    np.testing.assert_allclose(found[1], 0.7 * plain[1] + 0.1, rtol=1e-12)
    start = layer.start(np, 2, d, 6, np.float64)
    for form in ("sequential", *(["fused"] if compiled() else [])):
        sharp, _ = layer.sequence(w, x, start, Options(form))
        blurred, _ = layer.sequence(w, x, start, Options(form, blur=np.array([0.0, 0.3])))
        assert np.array_equal(sharp[0], blurred[0]) and not np.array_equal(sharp[1], blurred[1])


def test_where_training_starts():
    p = build("transformer-fire", 6).init(np.random.default_rng(0))
    assert p["blocks.0.mixer.c"] == np.float32(0.1) and p["blocks.0.mixer.L"] == 1
    assert (p["blocks.0.norm1.scale"] == 1).all() and not p["blocks.0.norm1.bias"].any() and not p["decoder.bias"].any()
    bound = 1 / np.sqrt(64)
    assert 0.95 * bound < np.abs(p["blocks.0.mixer.W_q"]).max() <= bound  # fan_in 64
    assert 0.95 / 16 < np.abs(p["blocks.0.ffn.W_out"]).max() <= 1 / 16  # fan_in 256
    assert np.abs(p["blocks.0.mixer.W_1"]).max() > 0.8
    embedding = build("pntm", 1000).init(np.random.default_rng(0))["embed.weight"]
    assert abs(embedding.std() - 1) < 0.01 and abs(embedding.mean()) < 0.01
    ntm = build("ntm", 6).init(np.random.default_rng(0))
    assert not ntm["mixer.controller.b"].any() and not ntm["mixer.read.b_beta"].any()


def test_where_training_starts_in_flax():
    p = build("transformer-fire", 1000).init(np.random.default_rng(0), start="flax")
    assert p["blocks.0.mixer.c"] == np.float32(0.1) and not p["decoder.bias"].any()
    for name, fan_in in (("blocks.0.mixer.W_q", 64), ("blocks.0.ffn.W_out", 256)):
        w = p[name] * np.sqrt(fan_in)
        assert abs(w.std() - 1) < 0.03 and 2.1 < np.abs(w).max() <= 2 / 0.8796, "truncated at two deviations"
    embedding = p["embed.weight"] * np.sqrt(64)
    assert abs(embedding.std() - 1) < 0.01 and np.abs(embedding).max() > 3


@pytest.mark.parametrize(("heads", "factors"), [(1, [1]), (2, [1, 4]), (3, [1, 1, 4]), (4, [1, 1, 4, 4])])
def test_half_of_the_heads_begin_decided(heads, factors):
    plain = build("pntm", 6, heads=heads, cell=12).init(np.random.default_rng(0))
    found = decide_heads(plain, 4.0)
    assert list(found) == list(plain)
    for name, w in plain.items():
        scaled = name in ("blocks.1.mixer.W_r", "blocks.1.mixer.W_w")
        expected = w * np.array(factors, w.dtype)[:, None, None] if scaled else w
        assert np.array_equal(found[name], expected) and found[name].dtype == w.dtype
