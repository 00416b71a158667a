"""What is said is what the numbers say."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from pntm_np.evaluation.answer import SymbolsOnly, samples
from pntm_np.evaluation.trained import load_trained
from pntm_np.experiments.trace.explain import explain, phase
from pntm_np.experiments.trace.record import READ, Head, follow, record
from pntm_np.experiments.trace.variants import effect_of_reads, leaves, rounded, source_of_reads, without_reads
from pntm_np.models import Options
from pntm_np.models.ntm.layer import NTM
from pntm_np.models.pntm import PNTM
from pntm_np.scans import default_form
from tasks import TASKS
from tests.pntm_np.experiments.trace.machines import MODELS, PARITY, SHIPPED, small, traced


def head_on(cells: list[int], m: int = 10, kind: str = READ) -> Head:
    return Head(kind, f"{kind} 1", np.eye(m, dtype=np.float32)[np.array(cells) % m])


def test_moves_go_the_short_way_round():
    assert head_on([0, 1, 2, 2, 1, 0, -1, -2, -1]).moves.tolist() == [1, 1, 0, -1, -1, -1, -1, 1]
    assert head_on([8, 9, 10, 11]).moves.tolist() == [1, 1, 1]
    assert head_on(list(range(10))).unrolled.tolist() == list(range(10)) and not head_on(list(range(10))).came_round
    assert head_on([0, -1, -2]).unrolled.tolist() == [0, -1, -2] and head_on(list(range(11))).came_round


@pytest.mark.parametrize(
    ("steps", "words"),
    [
        ([], "has no step to make"),
        ([1] * 7, "walks right, 7 cells in 7 steps"),
        ([-1] * 9 + [0], "walks left, 9 cells in 10 steps"),
        ([0] * 5, "stays where it is"),
        ([1, -1] * 5, "alternates (left 50%, right 50% of the steps)"),
        ([1, 1, 1, 0, 0, 0, -1], "goes 3 steps right, then 3 steps staying, then 1 step left"),
        ([1, 1, 1, 1, 0, 0, 0, 0] * 4, "turns 7 times (stays 50%, right 50% of the steps)"),
        ([1], "walks right, 1 cell in 1 step"),
    ],
)
def test_a_phase_in_words(steps, words):
    assert phase(np.array(steps, int)) == words


def test_leaving_is_found_at_the_step():
    heads = [head_on([0, 1, 2, 3]), head_on([0, 0, 0, 0])]
    others = [head_on([0, 1, 3, 3]), head_on([0, 0, 0, 0])]
    heads[1] = replace(heads[1], name="read 2")
    assert leaves(heads, others) == {"read 1": 2}


@pytest.mark.parametrize("name", ["pntm", "ntm"])
def test_rounding_makes_every_shift_one_hot(name):
    model = small(name)
    trace = traced(model)
    straight = follow(rounded(model, trace.options)[0], trace, rounded(model, trace.options)[1])
    for head, other in zip(trace.heads, straight.heads, strict=True):
        assert head.shifts.max(axis=1).min() < 0.999, "the machine itself is not one-hot, or nothing is shown"
        assert np.array_equal(np.sort(other.shifts, axis=1), np.tile([0, 0, 1], (len(trace), 1)))
    if name == "pntm":  # its shifts depend on the tokens alone, so the direction is that of the machine itself
        for head, other in zip(trace.heads, straight.heads, strict=True):
            assert np.array_equal(head.shifts.argmax(axis=1), other.shifts.argmax(axis=1))


@pytest.mark.parametrize("name", ["pntm", "ntm"])
def test_a_head_that_finds_nothing(name, monkeypatch):
    """Silenced in the weights, or by zeros in the place of what it reads: the same machine."""
    model = small(name)
    trace = traced(model)
    options = replace(trace.options, form="sequential")
    silent = follow(without_reads(model, 1), trace, options)
    effects = effect_of_reads(model, trace)
    if name == "pntm":
        output = PNTM.output
        zeros = np.array([1, 0], np.float32)[:, None, None]  # (R, W, n): the second read head
        monkeypatch.setattr(PNTM, "output", lambda self, w, reads: output(self, w, reads * zeros))
    else:
        advance, kept = NTM._advance, np.repeat(np.array([1, 0], np.float32), 6)  # cells of six numbers
        monkeypatch.setattr(
            NTM, "_advance", lambda self, *args: (s := advance(self, *args))._replace(read=s.read * kept)
        )
    other = follow(model, trace, options)
    # the same sums, with zeros in the one or the other factor
    np.testing.assert_allclose(silent.probabilities, other.probabilities, atol=1e-6)
    assert not np.allclose(trace.probabilities, silent.probabilities, atol=1e-4)
    steps = np.arange(trace.separator, len(trace))
    given = trace.predicted[steps]
    expected = np.mean(trace.probabilities[steps, given] - silent.probabilities[steps, given])
    # float32 in another form: some 1e-6 after a dozen steps
    assert effects["read 2"] == pytest.approx(expected, abs=1e-5) and set(effects) == {"read 1", "read 2"}


def test_on_another_device():
    """Traced, explained and put on a page where arrays are not NumPy's: the same as here."""
    for name in ("pntm", "ntm"):
        model = small(name)
        here = record(model, PARITY, "aababba", 13, Options("sequential"))
        moved = model.to("standin")
        there = record(moved, PARITY, "aababba", 13, Options("sequential"))
        assert there.answer == here.answer
        np.testing.assert_allclose(there.memory, here.memory, rtol=1e-5, atol=1e-6)  # functions round differently there
        said, expected = (
            [re.sub(r"\d+\.\d+", "#", line) for line in explain(*one)] for one in ((moved, there), (model, here))
        )
        assert said == expected
        assert effect_of_reads(moved, there) == pytest.approx(effect_of_reads(model, here), abs=1e-6)
        assert source_of_reads(moved, there) == source_of_reads(model, here)


def test_a_share_that_alone_counts_is_the_source():
    model = small("pntm")
    W = model.params["blocks.1.mixer.W_m"] * 0
    W[:, 3:6] = 1  # of six numbers in a cell the second write head has the last three
    model.params = model.params | {"blocks.1.mixer.W_m": W}
    assert set(source_of_reads(model, traced(model)).values()) == {"write 2"}


def test_a_share_that_changes_is_the_source_however_large_the_other_is():
    model = small("pntm")
    model.params = model.params | {"blocks.1.mixer.W_m": np.eye(6, dtype=np.float32)}
    trace = traced(model)
    found = np.full((len(trace), 6), 100, np.float32)
    found[:, 3:] = np.arange(len(trace))[:, None] % 3  # the second write head's
    heads = [replace(head, vectors=found) if head.kind == READ else head for head in trace.heads]
    assert set(source_of_reads(model, replace(trace, heads=heads)).values()) == {"write 2"}


@pytest.mark.parametrize("name", list(MODELS))
def test_every_machine_is_explained(name):
    model = small(name)
    trace = traced(model)
    said = explain(model, trace)
    assert 2 <= len(said) <= 12 and all(line.endswith(".") for line in said)
    if trace.first_error is not None:
        assert f"step {trace.first_error + 1}," in said[0]
    if trace.memory is not None:
        best = max(effects := effect_of_reads(model, trace), key=effects.__getitem__)
        assert said[1].startswith(f"Head {best} matters most" if effects[best] >= 0.01 else "No read head matters")
        found = leaves(
            trace.heads, follow(rounded(model, trace.options)[0], trace, rounded(model, trace.options)[1]).heads
        )
        step = min(found.values(), default=None)
        told = f"At step {step + 1}, it is on cell" if found else "would take the same path"
        assert any(told in line for line in said)
        assert any(line.startswith("At the first error") for line in said) == (trace.first_error is not None)


def test_a_machine_without_its_task_is_explained():
    model = small("pntm")
    trace = record(model, SymbolsOnly("mine", "ab01"), "abba", 13, Options(default_form("cpu")))
    assert trace.expected is None and trace.first_error is None
    assert "not known" in explain(model, trace)[0]


def test_the_example_in_the_docs_by_the_definition():
    """The step and the head that the page names, from paths that are computed in float64 with the sequential form."""
    text = (Path(__file__).resolve().parents[4] / "docs" / "trace.md").read_text()
    machine = next(path for path in SHIPPED if path.stem == "reverse-string-pntm")
    trained = load_trained(machine)
    asked = samples(TASKS["reverse-string"], 200, 1, 1)[0][0]
    trace = record(trained.model, TASKS["reverse-string"], asked, 416, Options(default_form("cpu"), 0.0))
    params = {k: w.astype(np.float64) for k, w in trained.model.params.items()}
    paths = []
    for tau in (0.0, 1.0):
        state, found = trained.model.architecture.initial_state(1, 416, dtype=np.float64), []
        for token in trace.tokens:
            found.append(np.concatenate([state[1].write_address[0], state[1].read_address[0]]).argmax(axis=1))
            options = Options("sequential", tau)
            state, _ = trained.model.architecture.step(params, state, token[None], options)
        paths.append(np.array(found))
    apart = (paths[0] != paths[1]).argmax(axis=0)
    step = apart[apart > 0].min()
    name = trace.heads[int(np.flatnonzero(apart == step)[0])].name
    assert f"Head {name} is the first to leave its path with one-hot shifts. At step {step + 1}," in text
    said = explain(trained.model, trace)
    assert all(line in text for line in said), "the page shows what the command says"
    assert "the answer is right" in said[0]


@pytest.mark.parametrize(("decoder", "told"), [(1, "is the cause"), (0, "alone is not the cause")])
def test_what_blurred_heads_are_the_cause_of(decoder, told):
    """A machine whose shifts are softer than it learnt them, with the largest where it was, and one that only guesses."""
    trained = load_trained(next(path for path in SHIPPED if path.stem == "reverse-string-pntm"))
    asked = samples(TASKS["reverse-string"], 40, 1, 1)[0][0]
    for softness in (0.3, 0.2, 0.1):  # until it errs
        softer = {k: w * softness if k.endswith((".W_r", ".W_w")) else w for k, w in trained.model.params.items()}
        model = trained.model.with_params(softer | {"decoder.weight": softer["decoder.weight"] * decoder})
        trace = record(model, TASKS["reverse-string"], asked, 96, Options(default_form("cpu")))
        if trace.first_error is not None:
            break
    assert trace.first_error is not None and f"the blur of its heads {told}." in explain(model, trace)[-1]
