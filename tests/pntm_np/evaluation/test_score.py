"""Figures of machines whose answers are known."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import autodiff as ad
import pntm_np as pn
from pntm_np.evaluation import answer, bands, thresholds, trained
from pntm_np.evaluation.decode import decode
from pntm_np.evaluation.plot import plot_evaluation
from pntm_np.evaluation.score import (
    Evaluation,
    LengthScore,
    ample_cells,
    ample_memory,
    evaluate,
    evaluation_memory,
    groups,
    problems,
)
from pntm_np.evaluation.shown import share
from pntm_np.models import Options
from pntm_np.randomness import BATCHES, JUDGE, THRESHOLDS, generator
from pntm_np.scans import conv_shift_scan
from pntm_np.sealed import CheckpointError
from pntm_np.signals import Stopped
from pntm_np.workers import Workers
from tasks import TASKS, batch

PARITY, ADDITION = TASKS["parity-check"], TASKS["binary-addition"]


class Oracle:
    """Answers by the task's own rule, but for inputs that ``wrong`` picks: there the token at that place is another."""

    def __init__(self, task, wrong=lambda text: None, forget_end=False) -> None:
        self.task, self.wrong, self.forget_end = task, wrong, forget_end
        self.params = {"embed.weight": np.zeros((task.vocabulary, 1), np.float32)}

    def initial_state(self, batch, memory_size):
        return [[] for _ in range(batch)]

    def step(self, state, tokens, options):
        logits = np.zeros((len(state), self.task.vocabulary), np.float32)
        for row, seen, token in zip(logits, state, tokens, strict=True):
            seen.append(int(token))
            row[self.next(seen)] = 1
        return state, logits

    def next(self, seen):
        if self.task.separator not in seen:
            return 0
        text = self.task.decode(seen[: seen.index(self.task.separator)])
        place = len(seen) - len(text) - 1
        expected = [*self.task.encode(self.task.solve(text)), self.task.end]
        token = expected[place] if place < len(expected) else self.task.end
        if token == self.task.end and self.forget_end:
            return 0
        return (token + 1) % self.task.vocabulary if self.wrong(text) == place else token


def run(task, oracle, lengths, samples=10, end_token=True, threads=1, seed=0):
    with Workers(threads) as workers:
        return evaluate(oracle, task, lengths, samples, seed, 9, Options(), workers, end_token)


@pytest.mark.parametrize("name", TASKS)
def test_a_right_machine_has_exact_match_1(name: str):
    task = TASKS[name]
    for end_token in (True, False):
        found = run(task, Oracle(task), range(1, 10), end_token=end_token)
        assert [s.length for s in found.by_length] == list(range(1, 10))
        assert all(s.exact_match == s.token_accuracy == 1 and s.samples == 10 for s in found.by_length)


def test_one_wrong_token_in_some_answers():
    wrong = Oracle(PARITY, lambda text: 2 if text[0] == "a" else None)
    found = run(PARITY, wrong, [6], samples=200)
    texts = [PARITY.decode(p.prompt[:-1]) for p in problems(PARITY, 6, 200, 0)]
    share = sum(text[0] == "a" for text in texts) / 200
    assert found.by_length[0].exact_match == pytest.approx(1 - share)
    assert found.by_length[0].token_accuracy == pytest.approx(1 - share / 7)


def test_an_answer_that_does_not_end_is_wrong_but_for_machines_without_end():
    oracle = Oracle(ADDITION, forget_end=True)
    assert run(ADDITION, oracle, [5]).mean("exact_match") == 0
    assert run(ADDITION, oracle, [5], end_token=False).mean("exact_match") == 1


def test_chance_is_that_of_random_output_symbols():
    found = run(PARITY, Oracle(PARITY), [1, 4])
    assert [s.chance for s in found.by_length] == [0.5, 2.0**-4]
    report = found.as_json(1)
    assert report["chance"] == (0.5 + 2.0**-4) / 2 and report["score_lengths"] == [4, 4]
    assert found.as_json(40)["score"] is None
    json.dumps(report, allow_nan=False)


def test_the_set_depends_on_seed_and_length_alone():
    def texts(length, samples=50, seed=0, **more):
        return [PARITY.decode(p.prompt) for p in problems(PARITY, length, samples, seed, **more)]

    assert texts(9) == texts(9) != texts(9, seed=1)
    assert texts(9) != texts(9, purpose=JUDGE)
    x, _ = PARITY.sample(generator(BATCHES, 0, 9), 9, 50)
    assert texts(9) != [PARITY.decode(row) + "|" for row in x]
    assert len({text[:5] for n in range(9, 40) for text in texts(n, 1)}) > 5, "lengths have draws of their own"
    whole = {
        s.length: s for s in run(PARITY, Oracle(PARITY, lambda t: 0 if t[-1] == "a" else None), range(1, 9)).by_length
    }
    part = run(PARITY, Oracle(PARITY, lambda t: 0 if t[-1] == "a" else None), [5], threads=3).by_length
    assert part == [whole[5]]


def test_groups_are_full_and_in_order():
    every = [p for n in range(1, 21) for p in problems(PARITY, n, 16, 0)]
    made = list(groups(iter(every), 128))
    assert [len(g) for g in made] == [128, 128, 64] and [p for g in made for p in g] == every
    assert [len(g) for g in groups(every[:5], 128)] == [5] and list(groups([], 128)) == []


def test_threads_change_nothing():
    model = pn.Model.new("pntm", 6, np.random.default_rng(0), width=8, heads=2, cell=4)
    found = []
    for threads in (1, 3):
        with Workers(threads) as workers:
            found.append(evaluate(model, PARITY, range(1, 30), 20, 0, 32, Options(), workers))
    assert found[0] == found[1]


def test_memory_grows_with_long_inputs():
    assert [evaluation_memory(n) for n in (1, 120, 121, 1000)] == [256, 256, 258, 2016]


def test_in_an_ample_memory_heads_that_part_do_not_meet_again():
    """One goes left and one goes right at every token; in fewer cells they meet at the last one."""
    tokens = 50
    shifts = np.zeros((1, tokens, 2, 3), np.float32)
    shifts[:, :, 0, 0] = shifts[:, :, 1, 2] = 1

    def meetings(cells: int) -> np.ndarray:
        start = np.zeros((1, 2, cells), np.float32)
        start[..., 0] = 1
        addresses = conv_shift_scan(shifts, start, form="sequential")[0][0]  # T, 2, m
        return np.flatnonzero(np.sum(addresses[:, 0] * addresses[:, 1], axis=-1))

    assert list(meetings(ample_cells(tokens))) == [0] and list(meetings(2 * tokens - 2)) == [0, tokens - 1]
    longest = max(len(p.prompt) + len(p.answer) for n in range(1, 31) for p in problems(ADDITION, n, 20, 3))
    assert ample_memory(ADDITION, range(1, 31), 20, 3) == ample_cells(longest)


def test_bands_and_bars():
    found = Evaluation([LengthScore(n, 8, float(n <= 50), 1.0, 0.0) for n in range(1, 121)])
    made = bands.bands(found, 40)
    assert [(b.first, b.last) for b in made] == [(1, 40), (41, 60), (61, 80), (81, 100), (101, 120)]
    assert [b.exact_match for b in made] == [1, 0.5, 0, 0, 0] and [b.trained for b in made] == [True] + 4 * [False]
    far = Evaluation([LengthScore(n, 8, 1.0, 1.0, 0.0) for n in (400,)])
    assert [(b.first, b.last) for b in bands.bands(far, 40)] == [(400, 400)]
    drawn = bands.bars({5: 1.0, 10: 0.5, 80: 0.0}, height=2)
    assert [line.rstrip() for line in drawn] == ["1.0 ███", "0.0 ███ ███ ▁▁▁", "     5   10  80"]


def test_plots(tmp_path):
    found = Evaluation([LengthScore(n, 8, math.exp(-n / 50), 0.99, 0.0) for n in range(1, 121)])
    for name, magic in (("a.png", b"\x89PNG"), ("b.svg", b"<?xml"), ("c.pdf", b"%PDF")):
        plot_evaluation(found, tmp_path / name, "title", 40)
        assert (tmp_path / name).read_bytes().startswith(magic)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.png", "b.svg", "c.pdf"]


# thresholds
def choose(monkeypatch, score, model="pntm", **more):
    """What is chosen if a machine's exact match, or exact match and loss, are as ``score`` says."""
    sizes = {"width": 8, "heads": 2, "cell": 4} if model == "pntm" else {}

    def fitted(model, shares, cells, options, *rest):
        assert max(share.tokens.shape[1] for share in shares) == 81, "chosen on lengths of training alone"
        found = score(options)
        return thresholds.Fit(*found) if isinstance(found, tuple) else thresholds.Fit(found, 1e-4)

    monkeypatch.setattr(thresholds, "fit", fitted)
    machine = pn.Model.new(model, 6, np.random.default_rng(0), **sizes)
    return thresholds.choose_thresholds(machine, PARITY, 40, 96, Options(), None, **more)


def test_the_largest_thresholds_that_cost_nothing(monkeypatch):
    found = choose(monkeypatch, lambda o: float(o.tau <= 0.1 and o.gate_tau <= 0.01))
    assert (found.tau, found.gate_tau) == (0.1, 0.01)
    found = choose(monkeypatch, lambda o: 0.5 if o.tau < 0.03 else 0.7)
    assert (found.tau, found.gate_tau) == (0.5, 0.2), "a threshold may make a machine better"
    found = choose(monkeypatch, lambda o: 1 - o.tau - o.gate_tau)
    assert (found.tau, found.gate_tau) == (0, 0)
    found = choose(monkeypatch, lambda o: 0.9 if 0.01 < o.tau < 0.5 else 1.0)
    assert found.tau == 0.01, "what comes after a drop is luck"
    assert choose(monkeypatch, lambda o: 0.0) == Options(), "nothing to choose by"


def test_the_loss_tells_of_rare_mistakes(monkeypatch):
    found = choose(monkeypatch, lambda o: (1.0, 1e-5 if o.tau < 0.1 else 1e-3))
    assert (found.tau, found.gate_tau) == (0.03, 0.2)
    found = choose(monkeypatch, lambda o: (1.0, {0.0: 1e-3, 0.001: 2e-5, 0.003: 4e-4}.get(o.tau, 8e-4)))
    assert found.tau == 0.003, "near the least that has been seen, not near the first"
    found = choose(monkeypatch, lambda o: (0.9, 1e-5) if o.tau < 0.01 else (1.0, 1e-2))
    assert found.tau == 0.5, "exact match comes first"


def test_a_loss_of_nothing_and_one_that_is_none(monkeypatch):
    found = choose(monkeypatch, lambda o: (1.0, 0.0 if o.tau == 0 else 1e-7))
    assert found.tau == 0.5, "what rounding leaves is not compared"
    found = choose(monkeypatch, lambda o: (1.0, 1e-5 if o.tau < 0.1 else math.nan))
    assert found.tau == 0.03


@pytest.mark.parametrize("end_token", [True, False])
def test_thresholds_are_judged_as_by_greedy_decoding(end_token, device):
    """On a set of their own; and the loss is that of training."""
    machine = pn.load(Path(__file__).parents[3] / "results" / "checkpoints" / "parity-check-pntm.safetensors")
    noise = np.random.default_rng(1)
    spoilt = {name: w + 0.08 * noise.standard_normal(w.shape).astype("f4") for name, w in machine.params.items()}
    machine, options = pn.Model(machine.name, machine.vocabulary, machine.sizes, spoilt), Options(tau=0.3, gate_tau=0.1)
    with Workers(2) as workers:
        shares = list(thresholds.samples(PARITY, 8, end_token))
        found = thresholds.fit(machine.to(device), shares, 32, options, workers)
        assert thresholds.fit(machine, shares, 32, replace(options, form="paper"), workers) == pytest.approx(
            found, 1e-5
        )
    exact, loss, tokens = [], 0.0, 0
    for length in range(1, 9):
        drawn = batch(PARITY, generator(THRESHOLDS, 0, length), length, thresholds.SAMPLES, end_token)
        logits = machine.forward(drawn.tokens, 32, options)
        loss += float(ad.softmax_cross_entropy(logits, drawn.targets, drawn.mask, total=1))
        tokens += drawn.mask.sum()
        right = [row[mask] for row, mask in zip(drawn.targets, drawn.mask, strict=True)]
        prompts, limits = [row[: length + 1] for row in drawn.tokens], np.array([len(row) for row in right])
        answers = decode(machine, prompts, limits, PARITY.end if end_token else None, 32, options)
        exact += [list(a[a >= 0]) == list(row) for a, row in zip(answers, right, strict=True)]
    assert 0.02 < found.exact_match < 0.98, "some are right and some are wrong"
    assert found.exact_match == np.mean(exact) and found.loss == pytest.approx(loss / tokens, rel=1e-5)  # float32


def test_samples_come_in_parts_and_fewer_where_they_are_long(monkeypatch):
    whole = list(thresholds.samples(PARITY, 3))
    monkeypatch.setattr(thresholds, "TOKENS", 50 * 7)
    parts = list(thresholds.samples(PARITY, 3))
    assert [len(part.tokens) for part in whole] == [128] * 3 and [len(p.tokens) for p in parts[-3:]] == [50, 50, 28]
    for k in range(3):
        joined = np.concatenate([p[k] for p in parts[-3:]])
        assert np.array_equal(joined, whole[-1][k])
    monkeypatch.setattr(thresholds, "TOKENS", 5)
    long = [part for part in thresholds.samples(PARITY, 40) if part.tokens.shape[1] == 81]
    assert [len(part.tokens) for part in long] == [1] * 7  # 128 x 5 tokens are 7 rows


def test_choosing_can_be_stopped():
    machine = pn.Model.new("pntm", 6, np.random.default_rng(0), width=8, heads=2, cell=4)
    with Workers(1) as workers, pytest.raises(Stopped):
        thresholds.choose_thresholds(machine, PARITY, 3, 32, Options(), workers, stop=lambda: True)


def test_thresholds_only_where_there_is_something_to_cut(monkeypatch):
    found = choose(monkeypatch, lambda o: 1.0, model="mingru")
    assert (found.tau, found.gate_tau) == (0, 0.2)
    assert choose(monkeypatch, lambda o: 1.0, model="lstm") == Options()
    found = choose(monkeypatch, lambda o: 1.0, choose_gate_tau=False)
    assert (found.tau, found.gate_tau) == (0.5, 0)


# single texts
def test_answers_and_where_they_differ():
    oracle = Oracle(PARITY, lambda text: {"aab": 1, "ab": 2}.get(text))
    found = answer.answer(oracle, PARITY, ["aab", "bb", "ab"], 20, Options(), True)
    assert [a.right for a in found] == [False, True, False]
    assert found[0].differs_at == [2] and "011 is right; differs at 2" in found[0].verdict
    assert found[1].answer == "11" and found[1].verdict == "  right"
    assert not found[2].ended and "does not end" in found[2].verdict


def test_an_answer_that_ends_too_early():
    class Hasty(Oracle):
        def next(self, seen):
            return self.task.end

    found = answer.answer(Hasty(PARITY), PARITY, ["aab"], 20, Options(), True)[0]
    assert found.answer == "" and found.differs_at == [1, 2, 3] and found.ended and not found.right


def test_a_machine_of_a_task_that_is_not_named_still_answers():
    known = trained.Trained(None, "secret", "ab01", 4, True)
    task = answer.symbols_only(known)
    found = answer.answer(Oracle(PARITY), task, ["ab"], 20, Options(), True)[0]
    assert found.answer == "00" and found.expected is None and found.right is None and found.verdict == ""


def test_what_a_checkpoint_says_of_its_training(tmp_path):
    path = tmp_path / "m.safetensors"
    model = pn.Model.new("lstm", 6, np.random.default_rng(0), width=4)
    pn.save(path, model)
    with pytest.raises(CheckpointError, match="does not say on what it was trained"):
        trained.load_trained(path)
    model.training = {
        "task": "parity-check",
        "symbols": "ab01",
        "max_length": 4,
        "end_token": True,
        "seed": 0,
        "step": 1,
    }
    pn.save(path, model)
    found = trained.load_trained(path)
    assert trained.task_of(found, None) is PARITY
    with pytest.raises(CheckpointError, match="not on 'reverse-string'"):
        trained.task_of(found, TASKS["reverse-string"])
    with pytest.raises(trained.TaskNeeded):
        trained.task_of(found._replace(task="mine"), None)
    model.training["symbols"] = "abc"
    pn.save(path, model)
    with pytest.raises(CheckpointError, match="do not fit its vocabulary"):
        trained.load_trained(path)
    model.training["max_length"] = "4"
    pn.save(path, model)
    with pytest.raises(CheckpointError, match="no 'max_length'"):
        trained.load_trained(path)


def test_only_what_is_perfect_looks_so():
    assert [share(x, 3) for x in (0, 0.12345, 0.9985, 0.99999, 1.0)] == ["0.000", "0.123", "0.999", "0.999", "1.000"]
    assert share(10_239 / 10_240, 4) == "0.9999" and share(0.99999, 4) == "0.9999"
