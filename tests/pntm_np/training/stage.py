"""The training loop on a stage: a learner that only reports, and evaluations that answer as they are told."""

from __future__ import annotations

import json

import numpy as np

from pntm_np.evaluation import Context, Evaluation, LengthScore
from pntm_np.evaluation.fit import Fit
from pntm_np.runtime.randomness import PARAMETERS, generator
from pntm_np.runtime.workers import Workers
from pntm_np.training import Config, Run, loop, session
from pntm_np.training.learner import Report
from pntm_np.training.run import Progress
from tasks import TASKS

TASK = TASKS["parity-check"]


class Killed(BaseException):
    """As by SIGKILL: nothing is saved."""


class Silent:
    def __getattr__(self, name):
        return lambda *args: None


def alone(stop=lambda: False) -> Context:
    """One worker, whom nobody watches."""
    return Context(Workers(1), Silent(), stop)


class Stage:
    """The loop with a learner that does nothing but report, and an evaluation that answers as it is told."""

    def __init__(self, monkeypatch, tmp_path, norm=lambda step: 1.0, exact=lambda step: 0.0, **given) -> None:
        self.lengths, self.paces, self.asked, self.evaluated, self.exact = [], [], [], [], exact
        self.run = Run(tmp_path / f"run-{len(list(tmp_path.iterdir()))}")
        self.run.directory.mkdir()
        self.config = Config.of(TASK, "paper", sizes={"width": 4, "heads": 2, "cell": 2}, **({"max_length": 8} | given))

        def step(learner, batch, number, pace, began):
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

    def fit(self, model, samples, cells, options, context):
        self.asked[-1] |= {"cells": cells, "thresholds": options.thresholds}
        exact = self.exact(self.asked[-1]["step"])
        return Fit({1: exact}, 0.0 if exact == 1 else 9.0, 100, 100)

    def evaluate(self, model, task, settings, context):
        lengths, samples = list(settings.lengths), settings.samples
        self.evaluated.append({"lengths": lengths, "samples": samples, "seed": settings.seed,
                               "cells": settings.memory_size, "thresholds": settings.options.thresholds})  # fmt: skip
        rows = [LengthScore(n, samples, 0.25, 0.25, 0.0) for n in lengths]
        return Evaluation(task.name, model.name, task.end_token, settings, rows)

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

            context = Context(workers, Silent(), stop)
            reason = loop.train(self.run, self.config, TASK, progress, Silent(), context)
        return reason, progress

    def files(self) -> list[bytes]:
        return [self.run.path(n).read_bytes() for n in ("state.safetensors", "model.safetensors", "metrics.jsonl")]


def rows_of(run: Run) -> list[dict]:
    return [json.loads(line) for line in run.path("metrics.jsonl").read_text().splitlines()]
