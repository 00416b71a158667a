"""The compiled pass over all heads against the loop, and what it says where it cannot run."""

from __future__ import annotations

import concurrent.futures
import itertools
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import autodiff as ad
import cli
from pntm_np.scans import FormUnavailable, HeadState, conv_shift_scan, forms, gated_scan, head_scan, memory_scan
from tests.limits import LIMIT
from tests.pntm_np.scans.cases import deviation, distribution

needs_numba = pytest.mark.skipif(not forms.compiled(), reason="Numba is not installed")
SHAPES = [  # B, T, R, W, n, m: awkward lengths, one and two cells, readers around the four that are read at once
    (2, 1, 1, 1, 1, 1),
    (2, 2, 1, 2, 3, 2),
    (1, 3, 4, 4, 8, 3),
    (2, 63, 3, 1, 2, 5),
    (1, 65, 5, 2, 3, 17),
    (3, 40, 4, 4, 8, 96),
    (1, 300, 6, 1, 4, 31),
    (1, 1000, 2, 2, 1, 7),
    (0, 9, 2, 2, 2, 4),
]


def inputs(shape: tuple[int, ...], kind: str, dtype: type = np.float64) -> list[np.ndarray]:
    batch, steps, readers, writers, width, cells = shape
    rng = np.random.default_rng([steps, cells])
    shifts = [distribution(rng, kind, (batch, steps, heads, 3)) for heads in (readers, writers)]
    values = rng.standard_normal((batch, steps, writers, width))
    starts = [distribution(rng, kind, (batch, heads, cells)) for heads in (readers, writers)]
    memory = rng.standard_normal((batch, writers, cells, width))
    return [x.astype(dtype) for x in (*shifts, values, *starts, memory)]


def run(form: str, arrays: list[np.ndarray]) -> list[np.ndarray]:
    def function(*a):
        reads, state = head_scan(*a[:3], HeadState(*a[3:]), form=form)
        return (reads, *state)

    values, pullback = ad.vjp(function, *arrays)
    rng = np.random.default_rng(1)
    return [*values, *pullback(tuple(rng.standard_normal(y.shape).astype(y.dtype) for y in values))]


@needs_numba
@pytest.mark.parametrize(("shape", "kind"), list(itertools.product(SHAPES, ("soft", "one-hot", "saturated", "mixed"))))
def test_all_heads_are_the_loop(shape, kind: str):
    expected, found = run("sequential", inputs(shape, kind)), run("fused", inputs(shape, kind))
    # as for the single scans: some thousand roundings of 1e-16 at the very most
    assert max(map(deviation, found, expected)) <= 1e-10
    single = run("fused", inputs(shape, kind, np.float32))
    assert all(x.dtype == np.float32 for x in single)
    # (1 - w) of a memory with one cell is 0 or a rounding: what is below 1 is compared in absolute terms
    worst = max(
        np.abs(f - e).max(initial=0) / max(1, np.abs(e).max(initial=0)) for f, e in zip(single, expected, strict=True)
    )
    assert worst <= max(1e-5, 2 * shape[1] * 2.0**-24)


@needs_numba
def test_cut_anywhere_and_carry_on():
    arrays = inputs((2, 37, 3, 2, 2, 6), "mixed")
    whole, end = head_scan(*arrays[:3], HeadState(*arrays[3:]), form="fused")
    for cut in (1, 4, 20, 36):
        first, middle = head_scan(*(x[:, :cut] for x in arrays[:3]), HeadState(*arrays[3:]), form="fused")
        second, last = head_scan(*(x[:, cut:] for x in arrays[:3]), middle, form="fused")
        assert np.array_equal(np.concatenate([first, second], axis=1), whole)
        assert all(np.array_equal(x, y) for x, y in zip(last, end, strict=True))


@needs_numba
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_single_step_is_the_loop_over_one(dtype):
    """It is what every token is decoded with; the state that it was given stays as it was."""
    from pntm_np.scans.heads.fused import heads_step

    arrays = inputs((3, 1, 2, 3, 5, 4), "mixed", dtype)
    before = [x.copy() for x in arrays]
    s = np.concatenate([x[:, 0] for x in arrays[:2]], axis=1)
    reads, *state = heads_step(s, arrays[2][:, 0], *arrays[3:])
    expected, end = head_scan(*arrays[:3], HeadState(*arrays[3:]), form="sequential")
    for found, right in zip((reads, *state), (expected[:, 0], *end), strict=True):
        assert found.dtype == dtype and found.shape == right.shape
        assert np.abs(found - right).max() <= 8 * np.finfo(dtype).eps * max(1, np.abs(right).max())
    assert all(np.array_equal(x, y) for x, y in zip(arrays, before, strict=True))


@needs_numba
def test_threads_side_by_side_give_the_bits_of_one():
    arrays = inputs((2, 50, 4, 4, 8, 96), "soft", np.float32)
    expected = [x.tobytes() for x in run("fused", arrays)]
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        for found in pool.map(lambda _: run("fused", arrays), range(12)):
            assert [x.tobytes() for x in found] == expected


NEARLY_1 = (1 - 2.0 ** -np.arange(1, 24)).astype(np.float32)  # and each is a number of float32


def close(found: np.ndarray, expected: np.ndarray) -> bool:
    """Each number by itself, to the two roundings of a difference and a product."""
    return bool(np.all(np.abs(found - expected) <= 2 * 2.0**-24 * np.abs(expected)))


@needs_numba
def test_what_a_gate_of_nearly_1_leaves_of_a_cotangent():
    """(1 - z) g has all its digits; g - z g would have lost those that the two have in common."""
    rng = np.random.default_rng(0)
    g, c = (rng.standard_normal(23).astype(np.float32) for _ in range(2))
    expected = (1 - NEARLY_1.astype(np.float64)) * g
    z = NEARLY_1[None, None]
    _, pullback = ad.vjp(lambda *a: gated_scan(*a, form="fused"), z, c[None, None], c[None])
    assert close(pullback((np.zeros_like(z), g[None]))[2][0], expected)
    for readers in (1, 4):  # few are read one by one, and four at once
        q, w = np.zeros((1, 1, readers, 23), np.float32), NEARLY_1[None, None, None]
        v, M = np.ones((1, 1, 1, 1), np.float32), np.ones((1, 1, 23, 1), np.float32)
        (reads, _), pullback = ad.vjp(lambda *a: memory_scan(*a, form="fused"), q, w, v, M)
        assert close(pullback((np.zeros_like(reads), g[None, None, :, None]))[3].ravel(), expected)


@needs_numba
def test_what_is_written_with_a_weight_of_1_is_what_was_given():
    """To the last bit, whatever stood there before; and a weight of 0 leaves it alone."""
    old, new = np.float32(1e8), np.float32(0.1)
    z = np.array([[[1, 0, 1]]], np.float32)
    states, last = gated_scan(z, np.full_like(z, new), np.full_like(z[0], old), form="fused")
    assert states[0, 0].tolist() == last[0].tolist() == [new, old, new]
    for readers in (1, 4):
        v, M = np.full((1, 1, 1, 1), new), np.full((1, 1, 3, 1), old)
        _, M = memory_scan(np.zeros((1, 1, readers, 3), np.float32), z[:, :, None], v, M, form="fused")
        assert M.ravel().tolist() == [new, old, new]


def test_where_it_cannot_run(monkeypatch):
    arrays = [ad.to_device(x, "standin") for x in inputs((1, 3, 1, 1, 1, 4), "soft")]
    words = "runs on the CPU; use 'chunked'" if forms.compiled() else "needs Numba"
    with pytest.raises(FormUnavailable, match=words):
        head_scan(*arrays[:3], HeadState(*arrays[3:]), form="fused")
    monkeypatch.setattr(forms, "compiled", lambda: False)
    shifts, _, _, address, _, _ = inputs((1, 3, 1, 1, 1, 4), "soft")
    with pytest.raises(FormUnavailable, match=r"conv_shift_scan: form 'fused' needs Numba; .*pntm\[fast\]"):
        conv_shift_scan(shifts, address, form="fused")


def test_training_is_refused_before_anything_is_written(monkeypatch, tmp_path):
    monkeypatch.setattr(forms, "compiled", lambda: False)
    done = CliRunner().invoke(cli.main, ["train", "parity", "--form", "fused", "--out", str(tmp_path / "run")])
    assert done.exit_code == 5 and "needs Numba" in done.output and not (tmp_path / "run").exists()


@needs_numba
def test_segments_are_for_the_other_forms():
    arrays = inputs((1, 3, 1, 1, 1, 4), "soft")
    with pytest.raises(ValueError, match="segment is 2, but form is 'fused'"):
        head_scan(*arrays[:3], HeadState(*arrays[3:]), form="fused", segment=2)


BITS = """
import hashlib
import numpy as np
import autodiff as ad
from pntm_np.scans import head_scan, start_state

rng = np.random.default_rng(0)
draw = lambda *shape: rng.standard_normal(shape).astype("f4")
s = np.exp(draw(2, 33, 8, 3))
start = start_state(np, 2, 4, 4, 96, 8)
run = lambda s, v: head_scan(s[..., :4, :], s[..., 4:, :], v, start, form="fused")[0]
reads, pullback = ad.vjp(run, s / s.sum(-1, keepdims=True), np.abs(draw(2, 33, 4, 8)))
print([hashlib.sha256(x.tobytes()).hexdigest() for x in (reads, *pullback(draw(*reads.shape)))])
"""


def test_compiled_here_or_loaded_the_bits_are_the_same(tmp_path):
    """A run that is resumed loads what its beginning compiled."""
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path), "PYTHONPATH": str(Path(cli.__file__).parent)}
    command = [sys.executable, "-P", "-c", BITS]
    given = {"env": environment, "capture_output": True, "text": True, "timeout": LIMIT, "check": True}
    compiled = subprocess.run(command, **given).stdout
    assert list(tmp_path.rglob("*.nbc")) and subprocess.run(command, **given).stdout == compiled
