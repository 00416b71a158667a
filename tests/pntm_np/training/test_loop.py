"""The protocol: what is drawn, what is asked of the machine and when, and when training ends; the same when resumed."""

from __future__ import annotations

import collections
import io
import itertools
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from pntm_np.evaluation.fit import Fit
from pntm_np.evaluation.score import Evaluation, LengthScore, evaluate
from pntm_np.models import MODELS
from pntm_np.randomness import BATCHES, EXAMINE, JUDGE, PARAMETERS, generator
from pntm_np.training import Config, Run, display, loop, session
from pntm_np.training.learner import Report
from pntm_np.training.run import Progress
from pntm_np.workers import Workers
from tasks import TASKS

TASK = TASKS["parity-check"]


class Killed(BaseException):
    """As by SIGKILL: nothing is saved."""


class Silent:
    def __getattr__(self, name):
        return lambda *args: None


class Stage:
    """The loop with a learner that does nothing but report, and an evaluation that answers as it is told."""

    def __init__(self, monkeypatch, tmp_path, norm=lambda step: 1.0, exact=lambda step: 0.0, **given) -> None:
        self.lengths, self.paces, self.asked, self.evaluated, self.exact = [], [], [], [], exact
        self.run = Run(tmp_path / f"run-{len(list(tmp_path.iterdir()))}")
        self.run.directory.mkdir()
        self.config = Config.of(TASK, "paper", sizes={"width": 4, "heads": 2, "cell": 2}, **({"max_length": 8} | given))

        def step(learner, batch, number, pace):
            self.lengths.append(batch.tokens.shape[1] // 2)
            self.paces.append(pace)
            learner.flat += np.float32(pace.lr + pace.noise + sum(pace.rounding or ()))
            return Report(0.5, norm(number))

        monkeypatch.setattr(loop.Learner, "step", step)
        monkeypatch.setattr(loop, "training_samples", self.samples)
        monkeypatch.setattr(loop, "fit", self.fit)
        monkeypatch.setattr(session, "evaluate", self.evaluate)

    def samples(self, task, max_length, samples, purpose, seed):
        self.asked.append({"longest": max_length, "samples": samples, "purpose": purpose, "step": seed})
        return []

    def fit(self, model, samples, cells, options, workers, stop):
        self.asked[-1] |= {"cells": cells, "thresholds": options.thresholds}
        exact = self.exact(self.asked[-1]["step"])
        return Fit({1: exact}, 0.0 if exact == 1 else 9.0, 100, 100)

    def evaluate(self, model, task, lengths, samples, seed, memory_size, options, workers, watch, stop):
        self.evaluated.append({"lengths": list(lengths), "samples": samples, "seed": seed, "cells": memory_size,
                               "thresholds": options.thresholds})  # fmt: skip
        return Evaluation([LengthScore(n, samples, 0.25, 0.25, 0.0) for n in lengths])

    def train(self, stop_after: int | None = None, kill_after: int | None = None) -> tuple[str, Progress]:
        """From the run's state if it has one; ``stop_after`` so many steps by a signal, or ``kill_after`` so many."""
        if self.run.path("state.safetensors").exists():
            _, progress = self.run.load()
            self.run.cut_metrics(progress.metrics_bytes)
        else:
            progress = Progress.start(self.config, generator(PARAMETERS, 0))
            self.run.cut_metrics(0)
        already = len(self.lengths)
        with Workers(1) as workers:

            def stop() -> bool:
                made = len(self.lengths) - already
                if made == kill_after:
                    raise Killed
                return stop_after is not None and made >= stop_after

            reason = loop.train(self.run, self.config, TASK, progress, workers, Silent(), Silent(), stop)
        return reason, progress

    def files(self) -> list[bytes]:
        return [self.run.path(n).read_bytes() for n in ("state.safetensors", "model.safetensors", "metrics.jsonl")]


def test_lengths_are_uniform_from_1_to_the_longest(monkeypatch, tmp_path):
    stage = Stage(monkeypatch, tmp_path, steps=4000, batch_size=1)
    assert stage.train()[0] == "steps"
    counts = collections.Counter(stage.lengths)
    assert set(counts) == set(range(1, 9)), "every length from 1 to the longest, the longest included"
    # 500 of each expected, deviation 21; five of them, for a fixed seed
    assert all(abs(n - 500) < 105 for n in counts.values())


@pytest.mark.parametrize("seed", (0, 1, 2**40))
def test_the_batch_of_a_step_follows_from_seed_and_step(monkeypatch, tmp_path, seed):
    stage = Stage(monkeypatch, tmp_path, steps=30, batch_size=1, seed=seed)
    stage.train()
    drawn = {s: [int(generator(BATCHES, s, k).integers(1, 9)) for k in range(1, 31)] for s in (0, 1, 2**40)}
    assert stage.lengths == drawn[seed] and len(set(map(tuple, drawn.values()))) == 3


def rows_of(run: Run) -> list[dict]:
    return [json.loads(line) for line in run.path("metrics.jsonl").read_text().splitlines()]


@pytest.mark.parametrize("cut", (None, 1, 7, 10, 25))
def test_learnt_three_times_in_a_row(monkeypatch, tmp_path, cut):
    """Judged at 10, 20, ..; learnt at 10 and 30, 40, 50: the run ends at 50, wherever it was interrupted."""
    given = {"steps": 200, "eval_every": 10, "checkpoint_every": 7, "stop_when_solved": True, "batch_size": 1}
    exact = lambda step: 0.98 if step == 20 else 1.0  # noqa: E731
    stage = Stage(monkeypatch, tmp_path, exact=exact, **given)
    if cut is not None:
        assert stage.train(stop_after=cut)[0] == "signal"
    reason, progress = stage.train()
    assert (reason, progress.step, progress.solved) == ("solved", 50, 3)
    *judged, examined = stage.asked
    assert [a["step"] for a in judged] == [10, 20, 30, 40, 50], "other problems at every evaluation"
    assert {a["purpose"] for a in judged} == {JUDGE} and examined["purpose"] == EXAMINE and examined["step"] == 50
    for asked in stage.asked:
        assert asked["longest"] == 8 and asked["cells"] == 2 * 8 + 16 and asked["thresholds"] == (0, 0)
    assert [row["step"] for row in rows_of(stage.run) if "by_length" in row] == [10, 20, 30, 40, 50, 50]
    assert [row["step"] for row in rows_of(stage.run) if "loss" in row] == [1, 10, 20, 30, 40, 50]
    if cut is not None:
        whole = Stage(monkeypatch, tmp_path, exact=exact, **given)
        whole.train()
        assert whole.files() == stage.files()


PHASES = {"steps": 400, "eval_every": 10, "checkpoint_every": 7, "stop_when_solved": True, "batch_size": 1,
          "cool_down": 25, "noise": 0.5, "rounding": True}  # fmt: skip


def phases(step: int) -> float:
    """Learns until 30, stumbles over rounding at 50, and makes a mistake in the first examination."""
    return {10: 0.1, 20: 0.5, 50: 0.3}.get(step, 0.999 if step == 255 else 1.0)


def test_the_phases_of_a_run(monkeypatch, tmp_path):
    """Noise alone; then rounding that grows with every evaluation; once all is one-hot and answered three times in a
    row, rate and noise fall; and because that ends in a mistake, from there once more."""
    stage = Stage(monkeypatch, tmp_path, exact=phases, **PHASES)
    reason, progress = stage.train()
    assert (reason, progress.solved_at, progress.step) == ("solved", 280, 305)
    assert {p.rounding for p in stage.paces[:30]} == {None}
    smallest, largest = zip(*(p.rounding for p in stage.paces[30:]), strict=True)
    grown = [0.01, 0.013, *(min(0.01 * 1.3**k, 0.5) for k in range(17)), *[0.5] * 10]  # from step 31, 41, ..
    assert largest[::10] == pytest.approx(grown[: len(largest[::10])])
    last = [k for k, tau in enumerate(smallest, 31) if tau == 0.5]
    assert last == [*range(231, 256), *range(281, 306)] and set(smallest) == {0.01, 0.5}
    falls = [k / 25 for k in range(25, 0, -1)]
    halved = np.concatenate([[1.0] * 200, falls, [1.0] * 25, falls]) / 2
    assert [p.lr / stage.config.lr for p in stage.paces] == pytest.approx([1.0] * 30 + halved.tolist())
    assert [p.noise / 0.5 for p in stage.paces] == pytest.approx([1.0] * 230 + falls + [1.0] * 25 + falls)
    assert [a["step"] for a in stage.asked if a["purpose"] == EXAMINE] == [255, 305]
    judged = {a["step"]: a["thresholds"] for a in stage.asked}
    assert judged[30] == (0, 0) and judged[40] == (0.01, 0.01) and judged[230] == judged[255] == (0.5, 0.1)
    assert [row["certain"] for row in rows_of(stage.run) if "certain" in row] == [False, True]


@pytest.mark.parametrize("cut", (5, 30, 31, 45, 52, 201, 230, 231, 250, 255, 256, 290))
@pytest.mark.parametrize("way", ("stopped", "killed"))
def test_cut_in_every_phase_and_resumed(monkeypatch, tmp_path, cut, way):
    whole = Stage(monkeypatch, tmp_path, exact=phases, **PHASES)
    expected = whole.train()[0]
    stage = Stage(monkeypatch, tmp_path, exact=phases, **PHASES)
    if way == "stopped":
        assert stage.train(stop_after=cut)[0] == "signal"
    else:
        with pytest.raises(Killed):
            stage.train(kill_after=cut)
    assert stage.train()[0] == expected
    assert stage.files() == whole.files()


def test_a_run_that_has_ended_ends_again_without_a_look(monkeypatch, tmp_path):
    """The final evaluation was interrupted: what comes before it is not made again."""
    stage = Stage(monkeypatch, tmp_path, exact=lambda step: 1.0, **PHASES | {"rounding": False})
    assert stage.train()[0] == "solved"
    before, files = len(stage.asked), stage.files()
    assert stage.train()[0] == "solved" and len(stage.asked) == before and stage.files() == files


@pytest.mark.parametrize("cut", (None, 30, 31, 44))
def test_the_last_steps_begin_when_it_is_learnt(monkeypatch, tmp_path, cut):
    """Learnt at 30, with 25 last steps: they end at 55, with a learning rate that falls as it does at the end of 55
    steps, whatever is found meanwhile and wherever the run was interrupted."""
    given = {"eval_every": 10, "checkpoint_every": 7, "cool_down": 25, "batch_size": 1}
    exact = lambda step: float(step != 40)  # noqa: E731
    stage = Stage(monkeypatch, tmp_path, exact=exact, steps=200, stop_when_solved=True, **given)
    if cut is not None:
        assert stage.train(stop_after=cut)[0] == "signal"
    reason, progress = stage.train()
    assert (reason, progress.step, progress.solved_at, progress.end) == ("solved", 55, 30, 55)
    whole = Stage(monkeypatch, tmp_path, exact=exact, steps=55, **given)
    assert whole.train()[0] == "steps"
    assert np.array_equal(whole.run.load()[1].params, progress.params)
    assert rows_of(whole.run) == [row for row in rows_of(stage.run) if "certain" not in row]


def test_a_memory_that_changes_once_it_is_learnt(monkeypatch, tmp_path):
    """Learnt at 30 with one memory, at 60 with another; then the last steps."""
    given = {"eval_every": 10, "cool_down": 25, "batch_size": 1, "stop_when_solved": True, "steps": 200}
    stage = Stage(monkeypatch, tmp_path, exact=lambda step: 1.0, learnt_memory_size=(40, 50), **given)
    reason, progress = stage.train()
    assert (reason, progress.learnt_at, progress.solved_at, progress.step) == ("solved", 30, 60, 85)
    cells = [p.cells for p in stage.paces]
    assert set(cells[:30]) == {32} and set(cells[30:]) <= set(range(40, 51)) and len(set(cells[30:])) > 5
    assert [a["cells"] for a in stage.asked] == [32] * 3 + [50] * 6


def test_a_run_that_cools_down_already_goes_on_to_its_end(monkeypatch, tmp_path):
    given = {"eval_every": 10, "cool_down": 30, "batch_size": 1, "stop_when_solved": True}
    stage = Stage(monkeypatch, tmp_path, exact=lambda step: 1.0, steps=42, **given)
    reason, progress = stage.train()
    assert (reason, progress.step, progress.solved_at) == ("solved", 42, 30)


def test_displays_follow_the_last_step():
    """Whoever looks on hears of it: the bar, the lines and the time that is left."""
    config = Config.of(TASK, "recipe", steps=200, cool_down=25, sizes={"width": 4, "heads": 2, "cell": 2})
    stream = io.StringIO()
    plain, live = display.PlainDisplay(config, "title", stream), display.LiveDisplay(config, "title", stream)
    for shown in (plain, live):
        shown.began(0)
        shown.stepped(30, 100, Report(0.5, 1.0))
        assert "at most" in shown.meter.line()
        shown.ends(55)
        shown.stepped(31, 100, Report(0.5, 1.0))
        assert "at most" not in shown.meter.line()
    text = stream.getvalue()
    assert "learnt; the learning rate falls until step 55" in text and "/200" in text
    assert live.progress.tasks[0].total == 55 and "falls" in live.note


def test_solved_does_not_stop_a_run_that_is_to_go_on(monkeypatch, tmp_path):
    stage = Stage(monkeypatch, tmp_path, exact=lambda step: 1.0, steps=60, eval_every=10, batch_size=1)
    assert stage.train()[0] == "steps"


@pytest.mark.parametrize("cut", (None, 12, 30))
def test_the_papers_early_stop(monkeypatch, tmp_path, cut):
    """The gradient's infinity norm below 1e-8 for 500 steps in a row (here 20): a larger one in between begins anew."""
    assert (loop.QUIET, loop.PATIENCE) == (1e-8, 500)
    monkeypatch.setattr(loop, "PATIENCE", 20)
    norm = lambda step: 1e-8 if step in (1, 2, 3, 15) else 0.99e-8  # noqa: E731
    stage = Stage(monkeypatch, tmp_path, norm=norm, steps=200, batch_size=1)
    if cut is not None:
        assert stage.train(stop_after=cut)[0] == "signal"
    assert stage.train()[0] == "quiet" and len(stage.lengths) == 35


def test_saves_at_every_so_many_steps(monkeypatch, tmp_path):
    stage, steps = Stage(monkeypatch, tmp_path, steps=23, checkpoint_every=5, batch_size=1), []
    right = Run.save
    monkeypatch.setattr(
        Run, "save", lambda run, config, progress: steps.append(progress.step) or right(run, config, progress)
    )
    stage.train()
    assert steps == [5, 10, 15, 20, 23]


def test_metrics_are_on_disk_before_the_state_that_remembers_them(monkeypatch, tmp_path):
    stage, order = Stage(monkeypatch, tmp_path, steps=1, batch_size=1), []
    sync, replace = os.fsync, os.replace
    names = lambda fd: os.path.basename(os.readlink(f"/proc/self/fd/{fd}"))  # noqa: E731
    monkeypatch.setattr(os, "fsync", lambda fd: order.append(names(fd)) or sync(fd))
    monkeypatch.setattr(os, "replace", lambda a, b: order.append(f"-> {b.name}") or replace(a, b))
    stage.train()
    folder = stage.run.directory.name
    assert order == [
        "metrics.jsonl",
        *(".state.safetensors.partial", "-> state.safetensors", folder),
        *(".model.safetensors.partial", "-> model.safetensors", folder),
    ]


def test_the_final_evaluation_is_the_papers(monkeypatch, tmp_path):
    stage = Stage(monkeypatch, tmp_path, steps=2, batch_size=1, max_length=40, seed=7)
    result = session.conduct(stage.run, stage.config, TASK, True, 1, Silent(), lambda: False)
    (asked,) = stage.evaluated
    assert asked == {"lengths": list(range(1, 121)), "samples": 128, "seed": 0, "cells": 256, "thresholds": (0.01, 0)}
    assert result["score"] == 0.25 and result["score_lengths"] == [41, 120] and result["memory_size"] == 256
    assert result["evaluation_seed"] == 0 and result["seed"] == 7


class Bounded(type(TASK)):
    """A task that refuses inputs longer than those of training."""

    allowed = 6

    def sample(self, rng, length, size):
        assert length <= self.allowed, f"an input of nominal length {length} was drawn"
        return super().sample(rng, length, size)


@pytest.mark.parametrize("name", ("pntm", "ntm"))
def test_nothing_longer_than_in_training_is_drawn_before_the_final_evaluation(name, monkeypatch, tmp_path):
    """By our recipe: the estimate of RAM, every phase of training, the examination and the thresholds."""
    task, run, reached = Bounded(), Run(tmp_path / "run"), []

    def final(model, drawn, lengths, *args):
        reached.append(max(lengths))
        Bounded.allowed = 10**9
        return evaluate(model, drawn, range(1, 19), 1, *args[1:])

    monkeypatch.setattr(session, "evaluate", final)
    monkeypatch.setattr(Bounded, "allowed", 6)
    monkeypatch.setattr(loop, "SOLVED", (0.0, 1))  # learnt at every look, however it answers
    monkeypatch.setattr("pntm_np.training.rounding.ANSWERS", 0.0)
    monkeypatch.setattr("pntm_np.training.rounding.GROWTH", 100.0)
    sizes = {"width": 8, "heads": 2, "cell": 4} if name == "pntm" else {}
    given = {"max_length": 6, "steps": 40, "cool_down": 5, "eval_every": 2, "sizes": sizes, "batch_size": 2}
    config = Config.of(task, "recipe", model=name, **given)
    session.require_fit(config, task, 1)
    result = session.conduct(run, config, task, False, 1, Silent(), lambda: False)
    assert reached == [18] and result["step"] == 40 and result["learnt_at"]
    assert any("certain" in row for row in rows_of(run)), "it was examined"


def test_the_papers_settings():
    config = Config.of(TASK, "paper")
    shown = (config.steps, config.batch_size, config.lr, config.max_length, config.memory_size)
    assert shown == (500_000, 128, 5e-4, 40, 96)
    ours = (
        config.noise,
        config.rounding,
        config.clip,
        config.warm_up,
        config.cool_down,
        config.stop_when_solved,
        config.end_token,
    )
    assert not any(ours) and config.learnt_memory_size is None and config.tau == 0.01
    assert config.model == "pntm" and config.sizes == {} and (config.lengths, config.samples) == ((1, 120), 128)


def test_our_recipe_is_the_same_for_all_tasks():
    for model in MODELS:
        found = [vars(Config.of(task, "recipe", model=model)) for task in TASKS.values()]
        for each in found:
            assert {**each, "task": "", "symbols": ""} == {**found[0], "task": "", "symbols": ""}
            assert not each["end_token"]
    assert Config.of(TASK, "recipe").rounding and not Config.of(TASK, "recipe", model="ntm").rounding


STEP = """
import hashlib, sys
import numpy as np
from threadpoolctl import threadpool_limits
from pntm_np.randomness import PARAMETERS, generator
from pntm_np.training.config import Config
from pntm_np.training.learner import Learner
from pntm_np.training.run import Progress
from pntm_np.training.schedule import Pace
from pntm_np.workers import Workers
from tasks import TASKS, batch
config = Config.of(TASKS["parity-check"], "paper", batch_size=64)
start = Progress.start(config, generator(PARAMETERS, 0))
with Workers(int(sys.argv[1])) as workers:
    learner = Learner(config, start.params, start.moments, workers)
    like = Pace(5e-4, 1.0, 96, (0.01, 0.5))
    learner.step(batch(TASKS["parity-check"], np.random.default_rng(0), 30, 64), 1, like)
print(hashlib.sha256(learner.flat.tobytes()).hexdigest())
"""


def test_bits_depend_neither_on_our_threads_nor_on_those_of_the_blas():
    """At the paper's size, where a BLAS with several threads rounds otherwise than with one."""
    found = set()
    for threads, blas in (("1", "1"), ("2", "2"), ("3", "4")):
        environment = os.environ | {"OPENBLAS_NUM_THREADS": blas, "MKL_NUM_THREADS": blas}
        done = subprocess.run([sys.executable, "-c", STEP, threads], capture_output=True, text=True, env=environment)
        assert done.returncode == 0, done.stderr
        found.add(done.stdout)
    assert len(found) == 1


RECIPE = {"max_length": 2, "sizes": {"width": 16, "heads": 2, "cell": 8}, "batch_size": 16, "lr": 0.01, "eval_every": 5,
          "checkpoint_every": 7, "cool_down": 20, "lengths": (1, 4), "samples": 4, "steps": 2000, "memory_size": (8, 12),
          "form": "chunked"}  # fmt: skip


def conducted(place: Path, kill_after: int | None = None) -> list[bytes]:
    """A run by our recipe, killed after so many looks at whether it is to stop, and gone on with."""
    run, config = Run(place), Config.of(TASK, "recipe", **RECIPE)
    for limit in (kill_after, None):
        looks = itertools.count()

        def stop(limit=limit, looks=looks) -> bool:
            if next(looks) == limit:
                raise Killed
            return False

        try:
            assert session.conduct(run, config, TASK, True, 1, Silent(), stop)
            break
        except Killed:
            assert not run.complete
    return [
        run.path(n).read_bytes() for n in ("state.safetensors", "model.safetensors", "metrics.jsonl", "result.json")
    ]


def test_a_real_run_killed_in_each_phase_ends_in_the_same_bytes(tmp_path):
    whole = conducted(tmp_path / "whole")
    rows = rows_of(Run(tmp_path / "whole"))
    judged = [row for row in rows if "rounding" in row]
    assert judged[0]["rounding"] == 0 and judged[-1]["rounding"] == 0.5 and judged[-1]["certain"], "all phases were met"
    looks = rows[-1]["step"]  # at least one at every step
    for k, kill_after in enumerate((3, looks // 3, 2 * looks // 3, looks - 10, looks + 5, looks + 40)):
        assert conducted(tmp_path / f"run-{k}", kill_after) == whole
