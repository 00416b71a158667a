"""Thresholds that keep a machine exact, chosen on inputs of the training lengths.

The heads' shifts and minGRU's gates are never quite 0 or 1, and what they leak adds up over a long input. A threshold
cuts the leak off; one that is too large cuts off what the machine needs. The rule: the largest threshold with which the
answers of the training lengths do not tell the machine from itself, that is, with which all right answers together are
at least half as probable as with the best one. First for the shifts, then for the gates.

One answer that is no longer right costs more than that half; on Kass and Raftery's scale a ratio of likelihoods of two
is "not worth more than a bare mention". An earlier rule was set by looking at longer inputs; this ratio was not.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

from pntm_np.evaluation.fit import Fit, fit, training_samples
from pntm_np.models import Options
from pntm_np.models.checkpoint import Model
from pntm_np.runtime.randomness import THRESHOLDS
from pntm_np.runtime.workers import Workers
from tasks import Task

CANDIDATES = {
    "tau": (0.0, 0.001, 0.003, 0.01, 0.03, 0.1, 0.2, 0.3, 0.5),
    "gate_tau": (0.0, 0.001, 0.003, 0.01, 0.03, 0.1, 0.2, 0.3, 0.5),
}
SAMPLES = 64  # of each length
DOUBT = math.log(2)  # nats: half as probable


def choose_thresholds(
    model: Model,
    task: Task,
    max_length: int,
    memory_size: int,
    options: Options,
    workers: Workers,
    names: tuple[str, ...] = tuple(CANDIDATES),
    watch: Callable[[str, float, Fit], None] = lambda name, value, fit: None,
    stop: Callable[[], bool] = lambda: False,
) -> Options:
    """``options`` with those of the thresholds chosen that are named and that the machine has; ``watch`` sees how well
    every candidate does."""
    samples = list(training_samples(task, max_length, SAMPLES, THRESHOLDS, 0))
    for name, values in CANDIDATES.items():
        if name not in names or name not in model.architecture.thresholds:
            continue
        losses = {}
        for value in values:
            found = fit(model, samples, memory_size, replace(options, **{name: value}), workers, stop)
            losses[value] = found.loss
            watch(name, value, found)
        options = replace(options, **{name: largest(losses)})
    return options


def largest(losses: dict[float, float]) -> float:
    """The largest value whose loss is near the least; beyond one that costs more nothing is trusted."""
    values = sorted(losses)
    least = min((loss for loss in losses.values() if loss == loss), default=math.nan)  # not NaN
    near = [losses[value] <= least + DOUBT for value in values]
    if True not in near:
        return values[0]
    first = near.index(True)
    return values[first + next((k for k, is_near in enumerate(near[first:]) if not is_near), len(near) - first) - 1]
