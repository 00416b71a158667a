"""Estimate how long runs take on this computer, from a few steps of each kind."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from pntm_np.evaluation.score import tokens_of
from pntm_np.evaluation.settings import ROWS
from pntm_np.experiments.bench.clock import time_once
from pntm_np.experiments.bench.train_step import Step
from pntm_np.experiments.sweep.grid import Planned
from pntm_np.models import Options
from pntm_np.protocol import TAU, evaluation_memory
from pntm_np.runtime.workers import Workers
from pntm_np.training.config import Config
from tasks import TASKS, Task, find

TOKENS = (16, 64)  # lengths of the timed sequences; other lengths are on a straight line through them
STEPS = 3


class Forecast:
    """Seconds of a run that takes all its steps; a run that stops once the task is solved takes less."""

    def __init__(self, threads: int, watch: Callable[[str], None]) -> None:
        self.threads, self.watch = threads, watch
        self.step: dict[str, tuple[float, float]] = {}
        self.decoding: dict[str, float] = {}
        self.alike: dict[str, float] = {}

    def seconds(self, planned: Planned) -> float:
        """Seconds of one run, which are the same for all seeds."""
        key = repr(vars(planned.config) | {"seed": 0})
        if key not in self.alike:
            self.alike[key] = self._seconds(planned)
        return self.alike[key]

    def _seconds(self, planned: Planned) -> float:
        config = planned.config
        task = find(planned.source) if planned.source else TASKS[planned.task]
        short: dict[str, Any] = {"steps": 1, "cool_down": 0}  # the number of steps does not change the time of one
        kind = replace(config, task="parity-check", symbols=TASKS["parity-check"].symbols, seed=0, **short)
        key = repr(kind)
        if key not in self.step:
            self.watch(f"{planned.variant}: timing a few steps")
            self.step[key] = self._line(kind)
            self.decoding[key] = self._decoding(kind)
        at_0, per_token = self.step[key]
        mean = statistics.fmean(tokens_of(task, n) for n in range(1, config.max_length + 1))
        return config.steps * (at_0 + per_token * mean) + self._evaluation(config, task, self.decoding[key])

    def _line(self, config: Config) -> tuple[float, float]:
        times = []
        with Workers(self.threads) as workers:
            for tokens in TOKENS:
                step = Step(config, tokens, workers)
                step()
                times.append(min(time_once(step) for _ in range(STEPS)))
        per_token = (times[1] - times[0]) / (TOKENS[1] - TOKENS[0])
        return times[0] - per_token * TOKENS[0], per_token

    def _decoding(self, config: Config) -> float:
        """Seconds per token of one sequence in one thread."""
        architecture, rows = config.architecture(), ROWS
        params = architecture.init(np.random.default_rng(0))
        state = architecture.initial_state(rows, evaluation_memory(config.lengths[1]))
        token, options = np.zeros(rows, "int64"), Options(form=config.form, tau=TAU)
        with Workers(1):
            state, _ = architecture.step(params, state, token, options)
            began = time.perf_counter()
            for _ in range(10):
                state, _ = architecture.step(params, state, token, options)
        return (time.perf_counter() - began) / 10 / rows

    def _evaluation(self, config: Config, task: Task, per_token: float) -> float:
        first, last = config.lengths
        ends = [tokens_of(task, n, config.max_length) for n in (first, last)]  # without drawing the longest inputs
        tokens = (last - first + 1) * sum(ends) / 2
        return per_token * tokens * config.samples / self.threads
