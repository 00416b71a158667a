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
from dataclasses import replace
from typing import Any, NamedTuple

from pntm_np.evaluation.context import Context
from pntm_np.evaluation.fit import fit, training_samples
from pntm_np.evaluation.settings import Settings
from pntm_np.models import PAPER, Options, Thresholds
from pntm_np.models.checkpoint import Model
from pntm_np.protocol import memory_for
from pntm_np.runtime.randomness import THRESHOLDS
from tasks import Task

CANDIDATES = dict.fromkeys(("tau", "gate_tau"), (0.0, 0.001, 0.003, 0.01, 0.03, 0.1, 0.2, 0.3, 0.5))
SAMPLES = 64  # of each length
DOUBT = math.log(2)  # nats: half as probable


class Asked(NamedTuple):
    """Thresholds as they are asked for: a number, ``auto``, or None, which is the machine's own."""

    tau: float | str | None = None
    gate_tau: float | str | None = None

    @property
    def auto(self) -> tuple[str, ...]:
        """Those that are to be chosen; ``auto`` for the shifts is for the gates as well, unless they have their own."""
        asked = self._replace(gate_tau="auto") if self.gate_tau is None and self.tau == "auto" else self
        return tuple(name for name, value in asked._asdict().items() if value == "auto")

    def options(self, form: str, own: Thresholds | None) -> Options:
        """How to run a machine until some are chosen. One whose training has not ended has none of its own, and is run
        with the paper's."""
        start = (own or PAPER)._asdict()
        start |= {name: float(value) for name, value in self._asdict().items() if value not in (None, "auto")}
        return Options(form, **start)


def choose_thresholds(
    model: Model, task: Task, settings: Settings, context: Context, names: tuple[str, ...] = tuple(CANDIDATES)
) -> Options:
    """The options with those of the thresholds chosen that are named and that the machine has; the watcher hears how
    well every candidate does."""
    options, cells = settings.options, memory_for(settings.max_length)
    wanted = [name for name in CANDIDATES if name in names and name in model.architecture.thresholds]
    samples = list(training_samples(task, settings.max_length, SAMPLES, THRESHOLDS, 0)) if wanted else []
    for name in wanted:
        losses = {}
        for value in CANDIDATES[name]:
            found = fit(model, samples, cells, _with(options, **{name: value}), context)
            losses[value] = found.loss
            context.watcher.tried(name, value, found)
        options = _with(options, **{name: largest(losses)})
    return options


def _with(options: Options, **thresholds: Any) -> Options:
    return replace(options, **thresholds)


def largest(losses: dict[float, float]) -> float:
    """The largest value whose loss is near the least; beyond one that costs more nothing is trusted."""
    values = sorted(losses)
    least = min((loss for loss in losses.values() if loss == loss), default=math.nan)  # not NaN
    near = [losses[value] <= least + DOUBT for value in values]
    if True not in near:
        return values[0]
    first = near.index(True)
    return values[first + next((k for k, is_near in enumerate(near[first:]) if not is_near), len(near) - first) - 1]
