"""The protocol: what is drawn, what is asked of the machine and when, and when training ends; the same when resumed."""

from __future__ import annotations

import collections
import io
import json
import os
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

from pntm_np.evaluation.score import Evaluation, LengthScore
from pntm_np.randomness import BATCHES, EVALUATION, JUDGE, PARAMETERS, generator
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
        self.lengths, self.asked, self.exact = [], [], exact
        self.run = Run(tmp_path / f"run-{len(list(tmp_path.iterdir()))}")
        self.run.directory.mkdir()
        self.config = Config.of(TASK, "paper", sizes={"width": 4, "heads": 2, "cell": 2}, **({"max_length": 8} | given))

        def step(learner, batch, number, end):
            self.lengths.append(batch.tokens.shape[1] // 2)
            learner.flat += learner.config.learning_rate(number, end)
            return Report(0.5, norm(number), 0.5)

        monkeypatch.setattr(loop.Learner, "step", step)
        for module in (loop, session):
            monkeypatch.setattr(module, "evaluate", self.evaluate)

    def evaluate(
        self,
        model,
        task,
        lengths,
        samples,
        seed,
        memory_size,
        options,
        workers,
        end_token,
        purpose=EVALUATION,
        watch=None,
        stop=None,
    ):
        self.asked.append({"lengths": list(lengths), "samples": samples, "seed": seed, "cells": memory_size, "tau": options.tau,
                           "gate_tau": options.gate_tau, "purpose": purpose})  # fmt: skip
        exact = self.exact(seed if purpose == JUDGE else None)
        return Evaluation([LengthScore(n, samples, exact, exact, 0.0) for n in lengths])

    def train(self, stop_after: int | None = None, kill_after: int | None = None) -> tuple[str, Progress]:
        """From the run's state if it has one; ``stop_after`` so many steps by a signal, or ``kill_after`` so many."""
        if self.run.path("state.safetensors").exists():
            _, progress = self.run.load()
            self.run.cut_metrics(progress.metrics_bytes)
        else:
            progress = Progress.start(self.config, generator(PARAMETERS, 0))
        already = len(self.lengths)
        with Workers(1) as workers:

            def stop() -> bool:
                made = len(self.lengths) - already
                if made == kill_after:
                    raise Killed
                return stop_after is not None and made >= stop_after

            reason = loop.train(self.run, self.config, TASK, progress, workers, Silent(), stop)
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


@pytest.mark.parametrize("cut", (None, 1, 7, 10, 25))
def test_solved_three_times_in_a_row(monkeypatch, tmp_path, cut):
    """Judged at 10, 20, ..; without a mistake at 10 and 30, 40, 50: the run ends at 50, wherever it was interrupted."""
    given = {"steps": 200, "eval_every": 10, "checkpoint_every": 7, "stop_when_solved": True, "batch_size": 1}
    stage = Stage(monkeypatch, tmp_path, exact=lambda step: float(step != 20), **given)
    if cut is not None:
        assert stage.train(stop_after=cut)[0] == "signal"
    reason, progress = stage.train()
    assert (reason, progress.step, progress.solved) == ("solved", 50, 3)
    assert [a["seed"] for a in stage.asked] == [10, 20, 30, 40, 50], "other problems at every evaluation"
    for asked in stage.asked:
        assert asked["purpose"] == JUDGE and max(asked["lengths"]) == 16 and asked["cells"] == 2 * 16 + 16
        assert asked["tau"] == 0.01 and asked["gate_tau"] == 0 and asked["samples"] * len(asked["lengths"]) >= 100
    rows = [json.loads(line) for line in stage.run.path("metrics.jsonl").read_text().splitlines()]
    assert [row["step"] for row in rows if "by_length" in row] == [10, 20, 30, 40, 50]
    assert [row["step"] for row in rows if "loss" in row] == [1, 10, 20, 30, 40, 50]
    if cut is not None:
        whole = Stage(monkeypatch, tmp_path, exact=lambda step: float(step != 20), **given)
        whole.train()
        assert whole.files() == stage.files()


@pytest.mark.parametrize("cut", (None, 30, 31, 44))
def test_the_last_steps_begin_when_it_is_solved(monkeypatch, tmp_path, cut):
    """Solved at 30, with 25 last steps: they end at 55, with a learning rate that falls as it does at the end of 55
    steps, whatever is found meanwhile and wherever the run was interrupted."""
    given = {"eval_every": 10, "checkpoint_every": 7, "cool_down": 25, "batch_size": 1}
    stage = Stage(
        monkeypatch, tmp_path, exact=lambda step: float(step != 40), steps=200, stop_when_solved=True, **given
    )
    if cut is not None:
        assert stage.train(stop_after=cut)[0] == "signal"
    reason, progress = stage.train()
    assert (reason, progress.step, progress.solved_at, progress.end) == ("solved", 55, 30, 55)
    whole = Stage(monkeypatch, tmp_path, exact=lambda step: float(step != 40), steps=55, **given)
    assert whole.train()[0] == "steps"
    assert np.array_equal(whole.run.load()[1].params, progress.params)
    assert whole.run.path("metrics.jsonl").read_bytes() == stage.run.path("metrics.jsonl").read_bytes()


@pytest.mark.parametrize("killed", (30, 31, 34))
def test_killed_after_it_was_solved_and_before_that_was_saved(monkeypatch, tmp_path, killed):
    """Solved at 30, saved at 28: the evaluation that found it is made again, and the rest are the same bits."""
    given = {"steps": 200, "stop_when_solved": True, "eval_every": 10, "checkpoint_every": 7, "cool_down": 25}
    whole = Stage(monkeypatch, tmp_path, exact=lambda step: 1.0, batch_size=1, **given)
    whole.train()
    stage = Stage(monkeypatch, tmp_path, exact=lambda step: 1.0, batch_size=1, **given)
    with pytest.raises(Killed):
        stage.train(kill_after=killed)
    _, progress = stage.run.load()
    assert (progress.step, progress.solved_at, progress.end) == (28, 0, 0)
    reason, progress = stage.train()
    assert (reason, progress.step, progress.solved_at) == ("solved", 55, 30)
    assert stage.files() == whole.files()


def test_a_run_that_cools_down_already_goes_on_to_its_end(monkeypatch, tmp_path):
    given = {"eval_every": 10, "cool_down": 30, "batch_size": 1, "stop_when_solved": True}
    stage = Stage(monkeypatch, tmp_path, exact=lambda step: 1.0, steps=42, **given)
    reason, progress = stage.train()
    assert (reason, progress.step, progress.solved_at) == ("solved", 42, 30)


def test_the_first_runs_that_were_solved_have_ended(monkeypatch, tmp_path):
    """Their states do not say so: the run is over where it was solved, and no step is made when it is resumed."""
    given = {"steps": 200, "eval_every": 10, "batch_size": 1, "stop_when_solved": True}
    stage = Stage(monkeypatch, tmp_path, exact=lambda step: 1.0, **given)
    assert stage.train()[0] == "solved"
    monkeypatch.setattr("pntm_np.training.run.COUNTERS", ("step", "quiet", "solved", "evaluated", "metrics_bytes"))
    config = replace(stage.config, cool_down=50)
    _, progress = stage.run.load()
    stage.run.save(config, progress)
    monkeypatch.undo()
    stage = Stage(monkeypatch, tmp_path, exact=lambda step: 1.0, cool_down=50, **given)
    stage.run = Run(tmp_path / "run-0")
    reason, progress = stage.train()
    assert (reason, progress.step, progress.end, stage.lengths) == ("solved", 30, 30, [])


def test_displays_follow_the_last_step():
    """Whoever looks on hears of it: the bar, the lines and the time that is left."""
    config = Config.of(TASK, "quick", steps=200, cool_down=25, sizes={"width": 4, "heads": 2, "cell": 2})
    stream = io.StringIO()
    plain, live = display.PlainDisplay(config, "title", stream), display.LiveDisplay(config, "title", stream)
    for shown in (plain, live):
        shown.began(0)
        shown.stepped(30, 100, Report(0.5, 1.0, 0.5))
        assert "at most" in shown.meter.line()
        shown.ends(55)
        shown.stepped(31, 100, Report(0.5, 1.0, 0.5))
        assert "at most" not in shown.meter.line()
    text = stream.getvalue()
    assert "solved; the learning rate falls until step 55" in text and "/200" in text
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
    stage = Stage(monkeypatch, tmp_path, steps=2, batch_size=1, max_length=40, seed=7, exact=lambda step: 0.25)
    result = session.conduct(stage.run, stage.config, TASK, True, 1, Silent(), lambda: False)
    (asked,) = stage.asked
    assert asked == {"lengths": list(range(1, 121)), "samples": 128, "seed": 0, "cells": 256, "tau": 0.01,
                     "gate_tau": 0.0, "purpose": EVALUATION}  # fmt: skip
    assert result["score"] == 0.25 and result["score_lengths"] == [41, 120] and result["memory_size"] == 256
    assert result["evaluation_seed"] == 0 and result["seed"] == 7


def test_the_papers_settings():
    config = Config.of(TASK, "paper")
    assert (config.steps, config.batch_size, config.lr, config.max_length, config.memory_size) == (
        500_000,
        128,
        5e-4,
        40,
        96,
    )
    assert not config.sharpen and not config.sharpen_gates and not config.stop_when_solved and config.end_token
    assert config.model == "pntm" and config.sizes == {} and (config.lengths, config.samples) == ((1, 120), 128)
    quick = Config.of(TASK, "quick")
    assert (quick.batch_size, quick.sharpen, quick.tau, quick.stop_when_solved) == (32, 0.01, "auto", True)
    assert (Config.of(TASK, "quick", model="ntm").sharpen, Config.of(TASK, "quick", model="ntm").tau) == (0, 0.01)
    assert (quick.lr, quick.max_length, quick.memory_size, quick.sizes) == (5e-4, 40, 96, {})


STEP = """
import hashlib, sys
import numpy as np
from threadpoolctl import threadpool_limits
from pntm_np.randomness import PARAMETERS, generator
from pntm_np.training.config import Config
from pntm_np.training.learner import Learner
from pntm_np.training.run import Progress
from pntm_np.workers import Workers
from tasks import TASKS, batch
config = Config.of(TASKS["parity-check"], "paper", batch_size=64)
start = Progress.start(config, generator(PARAMETERS, 0))
with Workers(int(sys.argv[1])) as workers:
    learner = Learner(config, start.params, start.moments, workers)
    learner.step(batch(TASKS["parity-check"], np.random.default_rng(0), 30, 64), 1)
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
