"""Thresholds that keep a machine exact, chosen on lengths that it was trained on.

The heads' shifts and minGRU's gates are never quite 0 or 1, and what they leak adds up over a long input. A threshold
cuts the leak off; one that is too large breaks the machine, and that shows within the training length. So the largest
is taken up to which exact match there stays at its best: first for the shifts, then for the gates.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace

from pntm_np.checkpoint import Model
from pntm_np.evaluation.score import evaluate
from pntm_np.models import Options
from pntm_np.randomness import THRESHOLDS
from pntm_np.workers import Workers
from tasks import Task

TAU = 0.01  # the paper's
TAUS = (0.0, 0.001, 0.003, 0.01, 0.03, 0.1, 0.2, 0.3, 0.5)
GATE_TAUS = (0.0, 0.001, 0.003, 0.01, 0.03, 0.1, 0.2)
COUNT, SAMPLES = 8, 32  # lengths, and samples of each


def spread(longest: int, count: int) -> list[int]:
    """At most ``count`` lengths, evenly spread up to the longest."""
    return sorted({max(1, round(longest * k / count)) for k in range(1, count + 1)})


def choose_thresholds(
    model: Model,
    task: Task,
    max_length: int,
    memory_size: int,
    options: Options,
    workers: Workers,
    end_token: bool = True,
    choose_tau: bool = True,
    choose_gate_tau: bool = True,
    watch: Callable[[str, float, float], None] = lambda name, value, score: None,
    stop: Callable[[], bool] = lambda: False,
) -> Options:
    """``options`` with the thresholds chosen; ``watch`` sees the exact match of every candidate.

    A machine that answers nothing right keeps those of ``options``: there is nothing to choose by.
    """
    lengths = spread(max_length, COUNT)

    def score(candidate: Options) -> float:
        found = evaluate(
            model, task, lengths, SAMPLES, 0, memory_size, candidate, workers, end_token, THRESHOLDS, stop=stop
        )
        return found.mean("exact_match")

    measured = model.architecture.measured
    searches = (
        ("tau", TAUS, choose_tau and "shift_entropy" in measured),
        ("gate_tau", GATE_TAUS, choose_gate_tau and "gate_uncertainty" in measured),
    )
    for name, values, wanted in searches:
        if not wanted:
            continue
        scores = {}
        for value in values:
            scores[value] = score(replace(options, **{name: value}))
            watch(name, value, scores[value])
        if any(scores.values()):
            options = replace(options, **{name: last_best(scores)})
    return options


def last_best(scores: dict[float, float]) -> float:
    """The largest value up to which the score stays at its best; beyond a drop nothing is trusted."""
    best = max(scores.values())
    values = itertools.dropwhile(lambda v: scores[v] < best, sorted(scores))
    return list(itertools.takewhile(lambda v: scores[v] == best, values))[-1]
