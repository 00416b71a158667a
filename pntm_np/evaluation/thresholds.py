"""Thresholds that keep a model exact, chosen on inputs of the training lengths.

Shifts and minGRU gates are never quite 0 or 1, and what they leak adds up over a long input. A threshold removes the
leak; one that is too large removes what the model needs. The rule takes the largest threshold whose effect is not
noticeable on the training lengths: the joint probability of all right answers is at least half of that with the best
threshold. It is applied to the shifts first, then to the gates.

A single answer that becomes wrong costs more than that half; on Kass and Raftery's scale, a likelihood ratio of two is
"not worth more than a bare mention". An earlier rule was set by looking at longer inputs; this ratio was not.
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
SAMPLES = 64  # inputs of each length
DOUBT = math.log(2)  # in nats: half as probable


class Asked(NamedTuple):
    """Thresholds that the user asks for: a number, ``auto``, or None for the model's own."""

    tau: float | str | None = None
    gate_tau: float | str | None = None

    @property
    def auto(self) -> tuple[str, ...]:
        """The thresholds to choose; ``auto`` for the shifts applies to the gates as well, unless they are given."""
        asked = self._replace(gate_tau="auto") if self.gate_tau is None and self.tau == "auto" else self
        return tuple(name for name, value in asked._asdict().items() if value == "auto")

    def options(self, form: str, own: Thresholds | None) -> Options:
        """Options for a model until its thresholds are chosen; one whose training has not ended uses the paper's."""
        start = (own or PAPER)._asdict()
        start |= {name: float(value) for name, value in self._asdict().items() if value not in (None, "auto")}
        return Options(form, **start)


def choose_thresholds(
    model: Model, task: Task, settings: Settings, context: Context, names: tuple[str, ...] = tuple(CANDIDATES)
) -> Options:
    """Choose the named thresholds that the model has; the observer hears of the fit with every candidate."""
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
    """The largest value whose loss is near the least, below the first one that costs more."""
    values = sorted(losses)
    least = min((loss for loss in losses.values() if loss == loss), default=math.nan)  # not NaN
    near = [losses[value] <= least + DOUBT for value in values]
    if True not in near:
        return values[0]
    first = near.index(True)
    return values[first + next((k for k, is_near in enumerate(near[first:]) if not is_near), len(near) - first) - 1]
