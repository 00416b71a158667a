"""Figures of machines whose answers are known."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

import pntm_np as pn
from pntm_np.evaluation import Context, Evaluation, LengthScore, Settings, Watcher, answer, evaluate, trained
from pntm_np.evaluation.report import bands, bars, mean, share
from pntm_np.evaluation.score import ample_cells, ample_memory, groups, problems, tokens_of
from pntm_np.models import Options
from pntm_np.protocol import evaluation_memory
from pntm_np.runtime.randomness import BATCHES, JUDGE, THRESHOLDS, generator
from pntm_np.runtime.untrusted import CheckpointError
from pntm_np.runtime.workers import Workers
from pntm_np.scans import conv_shift_scan
from tasks import TASKS

PARITY, ADDITION = TASKS["parity-check"], TASKS["binary-addition"]
ENDING = PARITY.with_end_token()


class Oracle:
    """Answers by the task's own rule, but for inputs that ``wrong`` picks: there the token at that place is another."""

    def __init__(self, task, wrong=lambda text: None, forget_end=False) -> None:
        self.name, self.task, self.wrong, self.forget_end = "oracle", task.with_end_token(), wrong, forget_end
        self.params = {"embed.weight": np.zeros((self.task.vocabulary, 1), np.float32)}

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


def run(task, oracle, lengths, samples=10, end_token=True, threads=1, seed=0, max_length=40):
    settings = Settings(lengths, samples, seed, 9, max_length=max_length)
    with Workers(threads) as workers:
        return evaluate(oracle, task.with_end_token(end_token), settings, Context(workers))


def report(rows, max_length=40):
    return Evaluation("parity-check", "pntm", False, Settings(max_length=max_length), rows)


@pytest.mark.parametrize("name", TASKS)
def test_a_right_machine_has_exact_match_1(name: str):
    task = TASKS[name]
    for end_token in (True, False):
        found = run(task, Oracle(task), range(1, 10), end_token=end_token)
        assert [s.length for s in found.by_length] == list(range(1, 10))
        assert all(s.exact_match == s.token_accuracy == 1 and s.samples == 10 for s in found.by_length)


def test_one_is_told_of_every_length_as_it_is_done():
    told, watcher = [], Watcher()
    watcher.evaluated = told.append
    with Workers(1) as workers:
        found = evaluate(Oracle(PARITY), PARITY, Settings(range(2, 6), 3, 0, 9), Context(workers, watcher))
    assert told == found.by_length and [score.length for score in told] == [2, 3, 4, 5]


def test_one_wrong_token_in_some_answers():
    wrong = Oracle(PARITY, lambda text: 2 if text[0] == "a" else None)
    found = run(PARITY, wrong, [6], samples=200)
    texts = [PARITY.decode(p.prompt[:-1]) for p in problems(PARITY, 6, 200, 0)]
    share = sum(text[0] == "a" for text in texts) / 200
    assert found.by_length[0].exact_match == pytest.approx(1 - share)
    assert found.by_length[0].token_accuracy == pytest.approx(1 - share / 7)


def test_an_answer_that_does_not_end_is_wrong_but_for_machines_without_end():
    oracle = Oracle(ADDITION, forget_end=True)
    assert mean(run(ADDITION, oracle, [5]).by_length, "exact_match") == 0
    assert mean(run(ADDITION, oracle, [5], end_token=False).by_length, "exact_match") == 1


def test_chance_is_that_of_random_output_symbols():
    found = run(PARITY, Oracle(PARITY), [1, 4], max_length=1)
    assert [s.chance for s in found.by_length] == [0.5, 2.0**-4]
    told = found.as_json()
    assert told["chance"] == (0.5 + 2.0**-4) / 2 and told["score_lengths"] == [4, 4]
    assert run(PARITY, Oracle(PARITY), [1, 4]).as_json()["score"] is None
    json.dumps(told, allow_nan=False)


def test_the_score_begins_with_the_first_length_beyond_training():
    rows = [LengthScore(n, 8, 1 / n, 1.0, 0.0) for n in range(1, 13)]
    found = report(rows, 4).as_json()
    assert found["score"] == pytest.approx(np.mean([1 / n for n in range(5, 13)])) and found["score_lengths"] == [5, 12]
    assert found["exact_match"] == pytest.approx(np.mean([1 / n for n in range(1, 13)]))
    assert mean([LengthScore(10**6, 1, 0.5, 1, 1)], "exact_match") == 0.5, "of whatever length"
    assert mean(rows, "exact_match", 3, 3) == 1 / 3 and math.isnan(mean(rows, "exact_match", 13))


def test_the_set_depends_on_seed_and_length_alone():
    def texts(length, samples=50, seed=0):
        return [PARITY.decode(p.prompt) for p in problems(PARITY, length, samples, seed)]

    assert texts(9) == texts(9) != texts(9, seed=1)
    for purpose in (BATCHES, JUDGE, THRESHOLDS):
        x, _ = PARITY.sample(generator(purpose, 0, 9), 9, 50)
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
    model = pn.Model.new("pntm", 5, np.random.default_rng(0), width=8, heads=2, cell=4)
    found = []
    for threads in (1, 3):
        with Workers(threads) as workers:
            found.append(evaluate(model, PARITY, Settings(range(1, 30), 20, 0, 32), Context(workers)))
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

    assert ample_cells(tokens) == 2 * tokens + 1
    assert list(meetings(ample_cells(tokens))) == [0] and list(meetings(2 * tokens - 2)) == [0, tokens - 1]
    longest = max(len(p.prompt) + len(p.answer) for n in range(1, 31) for p in problems(ADDITION, n, 20, 3))
    assert ample_memory(ADDITION, Settings(range(1, 31), 20, 3)) == ample_cells(longest)


def test_bands_and_bars():
    made = bands([LengthScore(n, 8, float(n <= 50), 1.0, 0.0) for n in range(1, 121)], 40)
    assert [(b.first, b.last) for b in made] == [(1, 40), (41, 60), (61, 80), (81, 100), (101, 120)]
    assert [b.exact_match for b in made] == [1, 0.5, 0, 0, 0] and [b.trained for b in made] == [True] + 4 * [False]
    far = [LengthScore(n, 8, 1.0, 1.0, 0.0) for n in (400,)]
    assert [(b.first, b.last) for b in bands(far, 40)] == [(400, 400)]
    drawn = bars({5: 1.0, 10: 0.5, 80: 0.0}, height=2)
    assert [line.rstrip() for line in drawn] == ["1.0 ███", "0.0 ███ ███ ▁▁▁", "     5   10  80"]


def test_plots(tmp_path):
    found = report([LengthScore(n, 8, math.exp(-n / 50), 0.99, 0.0) for n in range(1, 121)])
    for name, magic in (("a.png", b"\x89PNG"), ("b.svg", b"<?xml"), ("c.pdf", b"%PDF")):
        found.plot(tmp_path / name)
        assert (tmp_path / name).read_bytes().startswith(magic)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.png", "b.svg", "c.pdf"]


@pytest.mark.parametrize("name", TASKS)
def test_the_tokens_of_long_inputs_are_known_without_drawing_them(name: str, monkeypatch):
    task = TASKS[name]
    sample, asked = type(task).sample, []
    monkeypatch.setattr(type(task), "sample", lambda self, rng, n, size: asked.append(n) or sample(self, rng, n, size))
    known = tokens_of(task, 120, 40)
    assert max(asked) == 40, "nothing beyond the training lengths is drawn"
    longest = max(len(p.prompt) + len(p.answer) - 1 for p in problems(task, 120, 400, 0))
    assert longest <= known <= 1.05 * longest + 2
    asked.clear()
    assert tokens_of(task, 1000) == pytest.approx(tokens_of(task, 200) * 5, rel=0.05) and max(asked) == 200
    longest = max(len(p.prompt) + len(p.answer) - 1 for p in problems(task, 300, 100, 0))
    assert tokens_of(task, 300) == pytest.approx(longest, rel=0.01), "on a straight line beyond what is drawn"
    assert tokens_of(task, 3, 1) >= 3, "a single length to learn from"


# single texts
def test_answers_and_where_they_differ():
    oracle = Oracle(PARITY, lambda text: {"aab": 1, "ab": 2}.get(text))
    found = answer.answer(oracle, ENDING, ["aab", "bb", "ab"], 20, Options())
    assert [a.right for a in found] == [False, True, False]
    assert found[0].differs_at == [2] and "011 is right; differs at 2" in found[0].verdict
    assert found[1].answer == "11" and found[1].verdict == "  right"
    assert not found[2].ended and "does not end" in found[2].verdict


def test_an_answer_that_ends_too_early():
    class Hasty(Oracle):
        def next(self, seen):
            return self.task.end

    found = answer.answer(Hasty(PARITY), ENDING, ["aab"], 20, Options())[0]
    assert found.answer == "" and found.differs_at == [1, 2, 3] and found.ended and not found.right


def test_without_an_end_token_an_answer_has_as_many_symbols_as_the_right_one():
    oracle = Oracle(PARITY, lambda text: {"aab": 1}.get(text))
    found = answer.answer(oracle, PARITY, ["aab", "bb"], 20, Options())
    assert [a.answer for a in found] == ["0|1", "11"] and [a.right for a in found] == [False, True]
    assert all(a.ended for a in found)


@pytest.mark.parametrize("end_token", [True, False])
def test_a_machine_of_a_task_that_is_not_named_still_answers(end_token):
    known = trained.Trained(None, "secret", "ab01", 4, end_token, (1, 12), 128)
    task = answer.symbols_only(known)
    found = answer.answer(Oracle(PARITY), task, ["ab"], 20, Options(), None if end_token else 2)[0]
    assert found.answer == "00" and found.expected is None and found.right is None and found.verdict == ""


def test_what_a_checkpoint_says_of_its_training(tmp_path):
    path = tmp_path / "m.safetensors"
    model = pn.Model.new("lstm", 6, np.random.default_rng(0), width=4)
    pn.save(path, model)
    with pytest.raises(CheckpointError, match="does not record its training"):
        trained.load_trained(path)
    model.training = {
        "task": "parity-check",
        "symbols": "ab01",
        "max_length": 4,
        "end_token": True,
        "lengths": [1, 12],
        "samples": 128,
        "seed": 0,
        "step": 1,
    }
    pn.save(path, model)
    found = trained.load_trained(path)
    task = trained.task_of(found, None)
    assert (task.name, task.end_token) == ("parity-check", True) and (found.lengths, found.samples) == ((1, 12), 128)
    with pytest.raises(CheckpointError, match="not on 'reverse-string'"):
        trained.task_of(found, TASKS["reverse-string"])
    with pytest.raises(trained.TaskNeeded):
        trained.task_of(found._replace(task="mine"), None)
    model.training["symbols"] = "abc"
    pn.save(path, model)
    with pytest.raises(CheckpointError, match="do not fit its vocabulary"):
        trained.load_trained(path)
    model.training |= {"symbols": "ab01", "end_token": False}
    pn.save(path, model)
    with pytest.raises(CheckpointError, match="do not fit its vocabulary"):
        trained.load_trained(path)
    for bad in ([1], [3, 1], [0, 3], ["a", "b"], [1, 10**6]):
        model.training |= {"end_token": True, "lengths": bad}
        pn.save(path, model)
        with pytest.raises(CheckpointError, match="records an unusable evaluation"):
            trained.load_trained(path)
    model.training["max_length"] = "4"
    pn.save(path, model)
    with pytest.raises(CheckpointError, match="'max_length' is missing"):
        trained.load_trained(path)


def test_only_what_is_perfect_looks_so():
    assert [share(x, 3) for x in (0, 0.12345, 0.9985, 0.9996, 1.0)] == ["0.000", "0.123", "0.999", "0.9996", "1.000"]
    assert share(10_239 / 10_240, 4) == share(10_239 / 10_240, 2) == "0.9999" and share(0.99999, 4) == "0.99999"
    assert share(1 - 1e-9, 2) == "0.999999"
