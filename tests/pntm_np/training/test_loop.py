"""The protocol: what is drawn, what is saved and evaluated and when, and when training ends without being solved."""

from __future__ import annotations

import collections
import io
import os
import subprocess
import sys
from dataclasses import replace

import pytest

from pntm_np.evaluation import evaluate
from pntm_np.runtime.randomness import BATCHES, generator
from pntm_np.training import Config, Run, display, loop, session
from pntm_np.training.learner import Report
from tests.limits import LIMIT
from tests.pntm_np.training.stage import TASK, Stage, alone, rows_of


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
    result = session.conduct(stage.run, stage.config, TASK, True, alone())
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

    def final(model, drawn, settings, context):
        reached.append(max(settings.lengths))
        Bounded.allowed = 10**9
        return evaluate(model, drawn, replace(settings, samples=1), context)

    monkeypatch.setattr(session, "evaluate", final)
    monkeypatch.setattr(Bounded, "allowed", 6)
    monkeypatch.setattr(loop, "SOLVED", (0.0, 1))  # learnt at every look, however it answers
    monkeypatch.setattr("pntm_np.training.rounding.ANSWERS", 0.0)
    monkeypatch.setattr("pntm_np.training.rounding.GROWTH", 100.0)
    sizes = {"width": 8, "heads": 2, "cell": 4} if name == "pntm" else {}
    given = {"max_length": 6, "steps": 40, "cool_down": 5, "eval_every": 2, "sizes": sizes, "batch_size": 2}
    config = Config.of(task, "recipe", model=name, **given)
    session.require_fit(config, task, 1)
    result = session.conduct(run, config, task, False, alone())
    assert reached == [18] and result["step"] == 40 and result["learnt_at"]
    assert any("certain" in row for row in rows_of(run)), "it was examined"


STEP = """
import hashlib, sys
import numpy as np
from threadpoolctl import threadpool_limits
from pntm_np.runtime.randomness import PARAMETERS, generator
from pntm_np.training.config import Config
from pntm_np.training.learner import Learner
from pntm_np.training.run import Progress
from pntm_np.training.schedule import Pace
from pntm_np.runtime.workers import Workers
from tasks import TASKS, batch
config = Config.of(TASKS["parity-check"], "paper", batch_size=64)
start = Progress.start(config, generator(PARAMETERS, 0))
with Workers(int(sys.argv[1])) as workers:
    learner = Learner(config, start.params, start.moments, workers)
    like = Pace(5e-4, 1.0, 0.0, 96, (0.01, 0.5))
    learner.step(batch(TASKS["parity-check"], np.random.default_rng(0), 30, 64), 1, like)
print(hashlib.sha256(learner.flat.tobytes()).hexdigest())
"""


def test_bits_depend_neither_on_our_threads_nor_on_those_of_the_blas():
    """At the paper's size, where a BLAS with several threads rounds otherwise than with one."""
    found = set()
    for threads, blas in (("1", "1"), ("2", "2"), ("3", "4")):
        environment = os.environ | {"OPENBLAS_NUM_THREADS": blas, "MKL_NUM_THREADS": blas}
        given = {"capture_output": True, "text": True, "env": environment, "timeout": LIMIT}
        done = subprocess.run([sys.executable, "-c", STEP, threads], **given)
        assert done.returncode == 0, done.stderr
        found.add(done.stdout)
    assert len(found) == 1
