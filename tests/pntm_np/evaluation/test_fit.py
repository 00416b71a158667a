"""What a machine makes of its training lengths, and the thresholds that are chosen by it."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import autodiff as ad
import pntm_np as pn
from pntm_np.evaluation import Asked, Context, Settings, thresholds
from pntm_np.evaluation import fit as fitting
from pntm_np.evaluation.decode import decode
from pntm_np.evaluation.fit import Fit, fit, training_samples
from pntm_np.models import Options, Thresholds
from pntm_np.runtime.randomness import THRESHOLDS, generator
from pntm_np.runtime.signals import Stopped
from pntm_np.runtime.workers import Workers
from tasks import TASKS, batch

PARITY = TASKS["parity-check"]


# thresholds
def choose(monkeypatch, loss, model="pntm", **more):
    """What is chosen if the loss of all answers is as ``loss`` says."""
    sizes = {"width": 8, "heads": 2, "cell": 4} if model == "pntm" else {}

    def fitted(model, samples, cells, options, *rest):
        assert max(drawn.tokens.shape[1] for _, drawn in samples) == 80, "chosen on the training lengths alone"
        assert sum(len(drawn.tokens) for _, drawn in samples) == 40 * 64
        assert np.array_equal(samples[-1][1].tokens, batch(PARITY, generator(THRESHOLDS, 0, 40), 40, 64).tokens)
        return Fit({1: 1.0}, loss(options), 1000, 100)

    monkeypatch.setattr(thresholds, "fit", fitted)
    machine = pn.Model.new(model, 5, np.random.default_rng(0), **sizes)
    return thresholds.choose_thresholds(machine, PARITY, Settings(), Context(None), **more).thresholds


def test_the_largest_thresholds_that_do_not_change_the_machine(monkeypatch):
    assert choose(monkeypatch, lambda o: float(o.tau > 0.1 or o.gate_tau > 0.01)) == (0.1, 0.01)
    assert choose(monkeypatch, lambda o: 50.0 if o.tau < 0.03 else 20.0) == (0.5, 0.5), "it may become better"
    assert choose(monkeypatch, lambda o: 70.0 * (o.tau + o.gate_tau)) == (0.003, 0.003)
    assert choose(monkeypatch, lambda o: 1.0 if 0.01 < o.tau < 0.5 else 0.0)[0] == 0.01, (
        "what comes after a loss is luck"
    )
    assert choose(monkeypatch, lambda o: 0.0 if o.tau < 0.1 else math.nan) == (0.03, 0.5)
    assert choose(monkeypatch, lambda o: math.nan) == (0, 0), "nothing to choose by"


def test_gates_are_chosen_with_the_shifts_already_cut_off(monkeypatch):
    """A gate that may be closed beside soft shifts may be needed beside sharp ones."""
    assert choose(monkeypatch, lambda o: float(o.gate_tau > (0.1 if o.tau == 0 else 0.01))) == (0.5, 0.01)


def test_half_of_the_probability_is_what_may_be_lost(monkeypatch):
    """The right answers of all inputs together: a loss of log 2; one answer that is no longer right costs more."""
    assert choose(monkeypatch, lambda o: 3.0 + 0.693 * (o.tau > 0.1))[0] == 0.5
    assert choose(monkeypatch, lambda o: 3.0 + 0.694 * (o.tau > 0.1))[0] == 0.1
    assert choose(monkeypatch, lambda o: math.log(2) * (o.tau > 0.1))[0] == 0.5, "half itself is still enough"


def test_thresholds_only_where_there_is_something_to_cut(monkeypatch):
    assert choose(monkeypatch, lambda o: 0.0, model="mingru") == (0, 0.5)
    assert choose(monkeypatch, lambda o: 0.0, model="lstm") == (0, 0)
    assert choose(monkeypatch, lambda o: 0.0, names=("tau",)) == (0.5, 0)


@pytest.mark.parametrize(
    ("asked", "chosen", "start"),
    [
        ((), (), (0.2, 0.05)),
        ((0.3,), (), (0.3, 0.05)),
        ((0, 0.1), (), (0.0, 0.1)),
        (("auto",), ("tau", "gate_tau"), (0.2, 0.05)),
        (("auto", 0.1), ("tau",), (0.2, 0.1)),
        ((None, "auto"), ("gate_tau",), (0.2, 0.05)),
        ((0.3, "auto"), ("gate_tau",), (0.3, 0.05)),
    ],
)
def test_thresholds_as_they_are_asked_for(asked, chosen, start):
    """A number, auto, or the machine's own; the paper's for a machine that has none."""
    asked = Asked(*asked)
    options = asked.options("sequential", Thresholds(0.2, 0.05))
    assert asked.auto == chosen and (options.form, options.thresholds) == ("sequential", start)
    assert asked.options("chunked", None).thresholds[0] == (start[0] if isinstance(asked.tau, (int, float)) else 0.01)


# the fit to the training lengths
@pytest.mark.parametrize("end_token", [True, False])
def test_a_fit_is_judged_as_by_greedy_decoding(end_token, device):
    """Exact match is that of decoding; and the loss is that of training."""
    task = PARITY.with_end_token(end_token)
    machine = pn.load(Path(__file__).parents[3] / "results" / "checkpoints" / "parity-check-pntm.safetensors")
    noise, options = np.random.default_rng(1), Options(tau=0.3, gate_tau=0.1)
    params = dict(machine.params)
    if end_token:  # a token more, of which it has not heard
        params |= {
            k: np.concatenate([params[k], 0 * params[k][:1] - 1]) for k in params if k.startswith(("embed", "dec"))
        }
    directions = {name: noise.standard_normal(w.shape).astype("f4") for name, w in params.items()}
    with Workers(2) as workers:
        samples = list(training_samples(task, 8, 64, THRESHOLDS, 3))
        for far in np.arange(0.05, 1, 0.05, "f4"):  # until some answers are right and some are wrong
            spoilt = {name: w + far * directions[name] for name, w in params.items()}
            machine = pn.Model(machine.name, task.vocabulary, machine.sizes, spoilt)
            found = fit(machine.to(device), samples, 32, options, Context(workers))
            if found.exact_match < 0.98:
                break
        slow = fit(machine, samples, 32, replace(options, form="paper"), Context(workers))
    assert slow.right == found.right and slow.loss == pytest.approx(found.loss, 1e-5)
    exact, loss, tokens = {}, 0.0, 0
    for length in range(1, 9):
        drawn = batch(task, generator(THRESHOLDS, 3, length), length, 64)
        logits = machine.forward(drawn.tokens, 32, options)
        loss += float(ad.softmax_cross_entropy(logits, drawn.targets, drawn.mask, total=1))
        tokens += drawn.mask.sum()
        right = [row[mask] for row, mask in zip(drawn.targets, drawn.mask, strict=True)]
        prompts, limits = [row[: length + 1] for row in drawn.tokens], np.array([len(row) for row in right])
        answers = decode(machine, prompts, limits, None, 32, options)
        exact[length] = np.mean([list(a[: len(r)]) == list(r) for a, r in zip(answers, right, strict=True)])
    assert found.right == exact and found.exact_match == pytest.approx(np.mean(list(exact.values())))
    assert found.loss == pytest.approx(loss, rel=1e-5) and found.token_loss == pytest.approx(loss / tokens, rel=1e-5)
    assert end_token or found.exact_match > 0.02


def test_certain_is_more_than_right():
    assert Fit({1: 1.0, 2: 1.0}, 1.9, 9000, 2000).certain
    assert not Fit({1: 1.0, 2: 1.0}, 2.1, 9000, 2000).certain, "more than one mistake in a thousand is to be expected"
    assert not Fit({1: 1.0, 2: 0.999}, 0.0, 100, 100).certain and not Fit({1: 1.0}, math.nan, 100, 100).certain


def test_samples_come_in_parts_and_fewer_where_they_are_long(monkeypatch):
    whole = [drawn for _, drawn in training_samples(PARITY, 3, 128, THRESHOLDS, 0)]
    monkeypatch.setattr(fitting, "TOKENS", 50 * 6)
    parts = list(training_samples(PARITY, 3, 128, THRESHOLDS, 0))
    assert [len(part.tokens) for part in whole] == [128] * 3
    assert [(n, len(part.tokens)) for n, part in parts[-3:]] == [(3, 50), (3, 50), (3, 28)]
    for k in range(3):
        joined = np.concatenate([part[k] for _, part in parts[-3:]])
        assert np.array_equal(joined, whole[-1][k])
    monkeypatch.setattr(fitting, "TOKENS", 5)
    long = [part for n, part in training_samples(PARITY, 40, 128, THRESHOLDS, 0) if n == 40]
    assert [len(part.tokens) for part in long] == [1] * 8  # 128 x 5 tokens are 8 rows


def test_all_training_lengths_are_looked_at():
    assert [n for n, _ in training_samples(PARITY, 40, 1, THRESHOLDS, 0)] == list(range(1, 41))
    lengths = [n for n, _ in training_samples(PARITY, 400, 1, THRESHOLDS, 0)]
    assert len(lengths) == 40 and max(lengths) == 400


def test_choosing_can_be_stopped():
    machine = pn.Model.new("pntm", 5, np.random.default_rng(0), width=8, heads=2, cell=4)
    with Workers(1) as workers:
        with pytest.raises(Stopped):
            thresholds.choose_thresholds(machine, PARITY, Settings(max_length=3), Context(workers, stop=lambda: True))
        settings = Settings(max_length=1)
        assert thresholds.choose_thresholds(machine, PARITY, settings, Context(workers)), "nobody stops it by default"
