"""The compiled loops of LSTM, NTM and attention against their definitions: values and every gradient."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

import autodiff as ad
from pntm_np.models import NTM, Options, build
from pntm_np.models.lstm.sequential import lstm_scan
from pntm_np.models.ntm.layer import NTMState
from pntm_np.scans.forms import compiled
from tests.limits import LIMIT

pytestmark = pytest.mark.skipif(not compiled(), reason="Numba is not installed")
LENGTHS = (1, 2, 3, 63, 65, 300)


def compare(fused, definition, arrays, rng, bound=1e-11):
    """Relative to the largest of each: sums are taken in another order, float64."""
    expected, pullback = ad.vjp(definition, *arrays)
    found, fused_pullback = ad.vjp(fused, *arrays)
    if not isinstance(expected, tuple):
        expected, found = (expected,), (found,)
    cotangents = tuple(rng.standard_normal(y.shape) for y in expected)
    if len(cotangents) == 1:
        gradients = fused_pullback(cotangents[0]), pullback(cotangents[0])
    else:
        gradients = fused_pullback(cotangents), pullback(cotangents)
    for f, e in [*zip(found, expected, strict=True), *zip(*gradients, strict=True)]:
        if e is None:
            assert f is None
            continue
        assert f.shape == e.shape and f.dtype == e.dtype
        assert np.abs(f - e).max() <= bound * max(np.abs(e).max(), 1e-3), np.abs(f - e).max()


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize(("batch", "size"), [(1, 1), (3, 5), (2, 32)])
def test_lstm(length: int, batch: int, size: int):
    from pntm_np.models.lstm.fused import lstm_scan_fused

    rng = np.random.default_rng(length)
    shapes = ((batch, length, 4 * size), (4 * size, size), (batch, size), (batch, size))
    arrays = [rng.standard_normal(s) * (size**-0.5 if s[0] == 4 * size else 1) for s in shapes]
    compare(lstm_scan_fused, lstm_scan, arrays, rng)


def ntm_case(rng, batch, length, heads, n, m, c):
    layer, d = NTM(heads, n, c), 3
    w = {k: 0.5 * rng.standard_normal(s) for k, s in layer.shapes(d).items()}
    x = rng.standard_normal((batch, length, d))
    addresses = [rng.dirichlet(np.ones(m), (batch, heads)) for _ in range(2)]
    sizes = ((batch, c), (batch, c), (batch, m, n), (batch, heads * n))
    h, cell, M, r = (rng.standard_normal(s) for s in sizes)

    def definition(gates, recurrent, W, b, *state):
        state, hs, rs = NTMState(*state), [], []
        for t in range(length):
            state = layer._advance((recurrent, W, b), gates[:, t], state, Options())
            hs.append(state.h)
            rs.append(state.read)
        return ad.stack(*hs, axis=1), ad.stack(*rs, axis=1), *state

    return definition, [layer._inputs(w, x), *layer._prepared(w, d), h, cell, *addresses, 0.5 * M, r]


@pytest.mark.parametrize("length", [1, 2, 3, 20])
@pytest.mark.parametrize(
    ("heads", "n", "m", "c"), [(1, 1, 1, 1), (1, 3, 2, 2), (2, 5, 9, 4), (4, 8, 33, 16), (5, 4, 7, 3)]
)
def test_ntm(length: int, heads: int, n: int, m: int, c: int):
    from pntm_np.models.ntm.fused import ntm_scan_fused

    rng = np.random.default_rng(length)
    definition, arrays = ntm_case(rng, 2, length, heads, n, m, c)
    # an NTM magnifies rounding: sharpening takes powers of addresses, step by step
    compare(ntm_scan_fused, definition, arrays, rng, bound=1e-9)


def test_ntm_under_noise_of_its_own_for_every_step_and_blur_of_its_own_for_every_row():
    layer, d = NTM(2, 3, 4), 5
    rng = np.random.default_rng(0)
    w = {k: 0.5 * rng.standard_normal(s) for k, s in layer.shapes(d).items()}
    x, names = rng.standard_normal((3, 9, d)), list(w)

    def run(form: str):
        draws = np.random.default_rng(1)
        noise = lambda logits: logits + draws.standard_normal(logits.shape)  # noqa: E731
        options = Options(form, noise=noise, blur=np.array([0.0, 0.3, 0.07]))

        def outputs(x, *values):
            y, state = layer.sequence(dict(zip(names, values, strict=True)), x, start, options)
            return y, *state

        return outputs

    start = layer.start(np, 3, d, 6, np.float64)
    compare(run("fused"), run("sequential"), [x, *w.values()], rng, bound=1e-9)  # as without noise


def test_ntm_with_cells_and_keys_on_the_floor_of_the_norm():
    from pntm_np.models.ntm.fused import ntm_scan_fused

    rng = np.random.default_rng(0)
    definition, arrays = ntm_case(rng, 2, 3, 2, 4, 6, 3)
    arrays[8][:, :3] = 0  # empty cells
    arrays[6][:] = np.eye(6)[0]  # one-hot addresses: exact zeros
    compare(ntm_scan_fused, definition, arrays, rng, bound=1e-9)


def test_the_bound_of_beta_and_gamma_in_the_loop():
    """Beyond it nothing changes, also where a choice between nearly equal cells is not made yet."""
    from pntm_np.models.ntm.bounds import STEEPEST
    from pntm_np.models.ntm.layer import address

    def found(beta: float, gamma: float) -> np.ndarray:
        key, M = np.array([[[1.0, 0.0]]]), np.array([[[1.0, 0.0], [1.0, 1e-3]]])  # cosines 1 and 1 - 5e-7
        beta, gate, gamma = (np.full((1, 1, 1), x) for x in (beta, 0.5, gamma))
        before = np.array([[[0.5, 0.5]]])
        return address(key, beta, gate, np.array([[[0.0, 1.0, 0.0]]]), gamma, before, M)

    for bounded, beyond in (((STEEPEST, 1), (3e38, 1)), ((0, STEEPEST), (0, 3e38))):
        assert np.array_equal(found(*bounded), found(*beyond)) and found(*beyond).max() < 0.7


def test_the_bound_of_beta_and_gamma_in_the_compiled_form():
    from pntm_np.models.ntm.bounds import STEEPEST
    from pntm_np.models.ntm.kernels import activate

    heads, n = 1, 2
    raw = np.full((1, 2 * heads * (n + 6) + 2 * heads * n), 3e38, np.float32)
    key, scalars, s = (np.empty((2 * heads, k), np.float32) for k in (n, 3, 3))
    add, erase = (np.empty((heads, n), np.float32) for _ in range(2))
    activate(raw, 0, heads, n, key, scalars, s, add, erase)
    assert np.array_equal(scalars, [[STEEPEST, 1, STEEPEST]] * 2)


@pytest.mark.parametrize("control", ["beta", "gamma"])
@pytest.mark.parametrize("raw", [1e5, 1e20, 3e38])
def test_ntm_with_controls_beyond_all_measure(control: str, raw: float):
    """Finite, and the same in both forms: times a logarithm, 3e38 would be infinite in float32."""
    from pntm_np.models.ntm.fused import ntm_scan_fused

    rng, heads, n = np.random.default_rng(3), 2, 4
    definition, arrays = ntm_case(rng, 2, 5, heads, n, 9, 3)
    arrays = [x.astype(np.float32) for x in arrays]
    place = 2 * heads * (n if control == "beta" else n + 5)  # after the keys; and after beta, gate and shift
    arrays[3][place : place + 2 * heads] = raw
    expected, pullback = ad.vjp(definition, *arrays)
    found, fused_pullback = ad.vjp(ntm_scan_fused, *arrays)
    for f, e in zip(found, expected, strict=True):
        assert np.isfinite(f).all() and np.abs(f - e).max() <= 1e-5  # of float32, along five steps
    if control == "gamma":
        assert np.array_equal(np.sort(found[4], axis=-1)[..., -1], np.ones((2, heads))), "one cell each"
        # the largest is chosen: its gradient is 0. beta's, of a choice between nearly equal cells, would be rounding
        gradients = (way(tuple(np.ones_like(e) for e in expected)) for way in (fused_pullback, pullback))
        for f, e in zip(*gradients, strict=True):
            assert np.isfinite(f).all() and np.abs(f - e).max() <= 1e-4 * max(1.0, np.abs(e).max())


def test_ntm_without_a_way_back_keeps_only_the_last_state():
    from pntm_np.models.ntm.fused import ntm_loop

    rng = np.random.default_rng(0)
    for length in (1, 2, 7):
        _, arrays = ntm_case(rng, 2, length, 2, 4, 6, 3)
        (values, _), (kept, _) = (ntm_loop(*arrays, keep=keep) for keep in (False, True))
        assert all(np.array_equal(a, b) for a, b in zip(values, kept, strict=True))


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("positions", ["nope", "rope", "alibi", "fire"])
def test_attention(length: int, positions: str):
    model = build(f"transformer-{positions}", 6, width=16, heads=2, depth=2)
    params = model.init(np.random.default_rng(1), np.float64)
    rng = np.random.default_rng(length)
    tokens = rng.integers(0, 6, (2, length))

    def run(form: str):
        return lambda *arrays: model.forward(dict(zip(params, arrays, strict=True)), tokens, 4, Options(form=form))

    compare(run("fused"), run("chunked"), list(params.values()), rng)


@pytest.mark.parametrize("past", [0, 1, 31, 32, 33])
@pytest.mark.parametrize("size", [1, 3, 8])
def test_attention_with_a_past(past: int, size: int):
    from pntm_np.models.attention.layer import Attention

    layer, rng = Attention(2, "nope"), np.random.default_rng(past)
    q, k, v = (rng.standard_normal((2, 2, n, size)) for n in (5, past + 5, past + 5))
    bias = rng.standard_normal((2, 5, past + 5))
    for given in (bias, 0.0):
        arrays = [q, k, v] + ([bias] if given is bias else [])

        def run(form: str):
            return lambda q, k, v, bias=0.0: layer.attend(q, k, v, bias, Options(form=form))

        compare(run("fused"), run("chunked"), arrays, rng)


APART = """
import numpy as np
import autodiff as ad
from pntm_np.models.attention.fused import attention_fused

rng, found = np.random.default_rng(0), set()
given = [rng.standard_normal((2, 1, 5, 8)).astype(np.float32) for _ in range(4)]

def elsewhere(x):
    room = np.empty(int(rng.integers(260, 700)) + x.size, np.float32)
    room[-x.size :] = x.ravel()
    return room[-x.size :].reshape(x.shape)

for _ in range(400):
    between = [bytearray(int(rng.integers(513, 3000))) for _ in range(60)]
    del between[::2]
    *inputs, g = map(elsewhere, given)
    _, pullback = ad.vjp(lambda q, k, v: attention_fused(q, k, v, 0.0), *inputs)
    found.add(b"".join(x.tobytes() for x in pullback(g)))
print(len(found))
"""


def test_bits_do_not_depend_on_where_arrays_lie():
    """A compiled loop that both sums and stores is kept in two versions, and the distance of its arrays chooses one."""
    for _ in range(4):  # each process has its own heap
        done = subprocess.run([sys.executable, "-P", "-c", APART], capture_output=True, text=True, timeout=LIMIT)
        assert done.stdout.strip() == "1", done.stderr


@pytest.mark.parametrize("name", ["lstm", "ntm", "transformer-rope"])
def test_what_is_not_finite_stays_so(name: str):
    model = build(name, 6)
    params = model.init(np.random.default_rng(0))
    tokens = np.random.default_rng(1).integers(0, 6, (3, 9))
    tokens[0, 4], params["embed.weight"][5] = 5, np.nan
    tokens[1:][tokens[1:] == 5] = 0
    tokens[0, :4][tokens[0, :4] == 5] = 0
    logits = model.forward(params, tokens, 8, Options(form="fused"))
    assert np.isnan(logits[0, 4:]).all() and np.isfinite(logits[0, :4]).all() and np.isfinite(logits[1:]).all()
