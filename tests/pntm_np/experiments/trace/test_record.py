"""What is recorded is what happened: everything again from the checkpoint, by the definition, in float64."""

from __future__ import annotations

import json

import numpy as np
import pytest

import pntm_np as pn
from pntm_np.evaluation.answer import answer
from pntm_np.evaluation.trained import load_trained, task_of
from pntm_np.experiments.trace.document import document, numbers
from pntm_np.experiments.trace.record import READ, WRITE, Trace, follow, record
from pntm_np.models import MODELS, PAPER, Options
from pntm_np.models.ntm.layer import address
from pntm_np.scans import default_form
from tests.pntm_np.experiments.trace.machines import PARITY, SHIPPED, problem, small, traced

# float32 against float64 over some hundred steps: 6e-8 a step, times what a sharp softmax or a cosine makes of it
CLOSE = 2e-4


def again(model: pn.Model, trace: Trace) -> list:
    """All states by the sequential form in float64, the one before the first step included."""
    params = {k: w.astype(np.float64) for k, w in model.params.items()}
    machine, options = model.architecture, Options("sequential", trace.options.tau, trace.options.gate_tau)
    state = machine.initial_state(1, trace.cells, dtype=np.float64)
    found = [(state, None)]
    for token in trace.tokens:
        state, logits = machine.step(params, state, token[None], options)
        found.append((state, logits[0]))
    return found


def compare(model: pn.Model, trace: Trace) -> None:
    states = again(model, trace)
    logits = np.stack([logits for _, logits in states[1:]])
    weights = np.exp(logits - logits.max(axis=1, keepdims=True))
    np.testing.assert_allclose(trace.probabilities, weights / weights.sum(axis=1, keepdims=True), atol=CLOSE)
    pntm = model.name == "pntm"
    of_layer = [state[-1] for state, _ in states]
    used = of_layer[:-1] if pntm else of_layer[1:]  # P-NTM reads and writes before this step's shift, NTM after it
    for kind, name in ((WRITE, "write_address"), (READ, "read_address")):
        for h, head in enumerate(trace.of(kind)):
            np.testing.assert_allclose(head.addresses, [getattr(s, name)[0, h] for s in used], atol=CLOSE)
            assert np.allclose(head.addresses.sum(axis=1), 1, atol=1e-4)
    after = np.stack([s.memory[0] for s in of_layer[1:]])
    if pntm:  # (T, W, m, n / W): the shares of a cell side by side
        after = np.concatenate(list(after.swapaxes(0, 1)), axis=2)
    np.testing.assert_allclose(trace.memory, after, atol=CLOSE * max(1, np.abs(after).max()))
    for head in trace.of(READ):  # what it read is what stands there; float32 sums over all cells
        found = np.einsum("tm,tmn->tn", head.addresses.astype(np.float64), trace.memory.astype(np.float64))
        np.testing.assert_allclose(head.vectors, found, atol=1e-4 * max(1, np.abs(found).max()))


def rewritten(trace: Trace) -> np.ndarray:
    """The memory from the recorded addresses and vectors alone: what the page does."""
    steps, m, n = trace.memory.shape
    writers = trace.of(WRITE)
    if writers[0].erase is None:
        M = [np.zeros((m, n // len(writers))) for _ in writers]
        found = []
        for t in range(steps):
            w = [h.addresses[t].astype(np.float64)[:, None] for h in writers]
            M = [(1 - a) * before + a * h.vectors[t] for a, before, h in zip(w, M, writers, strict=True)]
            found.append(np.concatenate(M, axis=1))
        return np.stack(found)
    now, found = np.full((m, n), 1e-6), []
    for t in range(steps):
        for h in writers:
            now = now * (1 - h.addresses[t].astype(np.float64)[:, None] * h.erase[t])
        now = now + sum(h.addresses[t].astype(np.float64)[:, None] * h.vectors[t] for h in writers)
        found.append(now)
    return np.stack(found)


@pytest.mark.parametrize("name", ["pntm", "ntm"])
@pytest.mark.parametrize("seed", range(3))
def test_heads_and_memory_of_small_machines(name, seed):
    model = small(name, seed)
    trace = traced(model)
    compare(model, trace)
    # what is recorded in float32, put together in float64: a rounding for each of a dozen steps
    np.testing.assert_allclose(trace.memory, rewritten(trace), atol=1e-5 * max(1, np.abs(trace.memory).max()))
    paths = {tuple(head.path) for head in trace.heads}
    assert len(paths) > 1, "heads that never move would show nothing"


@pytest.mark.parametrize("machine", SHIPPED, ids=lambda path: path.stem)
def test_heads_and_memory_of_shipped_machines(machine):
    trained = load_trained(machine)
    task = task_of(trained, None)
    options = Options(default_form("cpu"), *(trained.model.thresholds or PAPER))
    trace = record(trained.model, task, problem(task.name, 41), 256, options)
    compare(trained.model, trace)
    # a rounding for each of some hundred steps
    np.testing.assert_allclose(trace.memory, rewritten(trace), atol=1e-4 * max(1, np.abs(trace.memory).max()))


@pytest.mark.parametrize("name", list(MODELS))
@pytest.mark.parametrize("text", ["a", "ab", "aababba"])
def test_a_trace_is_the_answer_of_solve(name, text):
    model = small(name)
    trace = traced(model, text)
    options = Options(default_form("cpu"))
    assert [trace.answer] == answer(model, PARITY, [text], 13, options)
    assert PARITY.decode(trace.tokens[: len(text) + 1]) == f"{text}|"
    written = PARITY.decode(trace.predicted[len(text) :])
    assert written == trace.answer.answer + ("$" if trace.answer.ended else "")
    assert np.array_equal(trace.tokens[len(text) + 1 :], trace.predicted[len(text) : -1])  # it reads what it writes


def test_attention_and_states_are_there():
    for name in (n for n in MODELS if n.startswith("transformer")):
        trace = traced(small(name))
        assert len(trace.heads) == 4 and trace.memory is None and not trace.states
        for head in trace.heads:
            assert np.allclose(head.addresses.sum(axis=1), 1, atol=1e-5) and not np.triu(head.addresses, 1).any()
    lstm, gru = traced(small("lstm")), traced(small("mingru"))
    assert set(lstm.states) == {"LSTM h", "LSTM c"} and set(gru.states) == {"minGRU 1", "minGRU 2"}
    for trace in (lstm, gru):
        states = again(small(trace.model), trace)[1:]
        if trace.model == "lstm":
            states = [(layer, logits) for (layer,), logits in states]
        for k, rows in enumerate(trace.states.values()):
            np.testing.assert_allclose(rows, [state[k][0] for state, _ in states], atol=1e-4)


def test_attention_is_that_of_the_layer():
    """softmax(q k / sqrt(size) + bias) of the first layer, written out in float64."""
    model = small("transformer-alibi")
    trace = traced(model)
    w = {
        k.removeprefix("blocks.0."): p.astype(np.float64) for k, p in model.params.items() if k.startswith("blocks.0.")
    }
    x = model.params["embed.weight"].astype(np.float64)[trace.tokens]
    x = (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 1e-5) * w["norm1.scale"] + w["norm1.bias"]
    q, k = (np.stack(np.split(x @ w[f"mixer.{n}"].T, 2, axis=1)) for n in ("W_q", "W_k"))  # heads, T, 4
    i = np.arange(len(trace))
    slope = 2.0 ** (-8 / 2 * np.arange(1, 3))[:, None, None]
    scores = q @ k.swapaxes(1, 2) / 2 - slope * (i[:, None] - i)
    scores = np.where(i <= i[:, None], scores, -np.inf)
    expected = np.exp(scores - scores.max(-1, keepdims=True))
    expected /= expected.sum(-1, keepdims=True)
    looked = np.stack([head.addresses for head in trace.heads[:2]])
    np.testing.assert_allclose(looked, expected, atol=CLOSE)


def test_controls_of_an_ntm_are_those_that_moved_its_heads():
    """The recorded shifts, put into the definition of an address, give the recorded addresses."""
    model = small("ntm")
    trace = traced(model)
    (layer,) = model.architecture.mixers
    weights = {k.removeprefix("mixer."): w for k, w in model.params.items() if k.startswith("mixer.")}
    (start,) = model.initial_state(1, trace.cells)
    before = np.concatenate([start.read_address, start.write_address], axis=1)
    heads = [*trace.of(READ), *trace.of(WRITE)]
    for t in range(len(trace)):
        controls = layer.controls(weights, model.architecture.width, trace.states["LSTM h"][t][None])
        shifts = np.stack([head.shifts[t] for head in heads])[None]
        memory = trace.memory[t - 1][None] if t else start.memory
        now = address(controls.key, controls.beta, controls.gate, shifts, controls.gamma, before, memory)
        np.testing.assert_allclose(now[0], [head.addresses[t] for head in heads], atol=1e-5)  # float32, another form
        before = np.stack([head.addresses[t] for head in heads])[None]


def test_following_the_same_machine_changes_nothing():
    for name in ("pntm", "ntm"):
        model = small(name)
        trace = traced(model, tau=0.1) if name == "pntm" else traced(model)
        same = follow(model, trace, trace.options)
        for head, other in zip(trace.heads, same.heads, strict=True):
            assert np.array_equal(head.addresses, other.addresses)
        assert np.array_equal(trace.memory, same.memory)


@pytest.mark.parametrize("name", list(MODELS))
def test_json_has_all_of_it(name):
    trace = traced(small(name))
    found = json.loads(json.dumps(document(trace)))
    assert len(found["steps"]) == len(trace) and found["answer"] == trace.answer.answer
    for head, recorded in zip(found["heads"], trace.heads, strict=True):
        assert np.array_equal(np.array(head["addresses"], np.float32), recorded.addresses)  # not a bit is lost
        assert head["path"] == recorded.path.tolist()
    if trace.memory is not None:
        assert np.array_equal(np.array(found["memory"], np.float32), trace.memory)
    for key, rows in trace.states.items():
        assert np.array_equal(np.array(found["states"][key], np.float32), rows)


def test_nine_digits_give_every_float32_back(rng):
    x = rng.standard_normal((100, 3, 4)).astype(np.float32) * 10.0 ** rng.integers(-20, 20, (100, 3, 4))
    x = x.astype(np.float32)
    assert np.array_equal(np.array(numbers(x), np.float32), x)
