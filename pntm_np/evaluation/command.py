"""An evaluation as a whole: a machine on its device, its task, thresholds, and what one sees while it runs."""

from __future__ import annotations

import threading
from collections.abc import Callable

import numpy as np

from autodiff import array_module, backend, to_host
from pntm_np.evaluation.score import Evaluation, evaluate
from pntm_np.evaluation.shown import share
from pntm_np.evaluation.thresholds import CANDIDATES, choose_thresholds
from pntm_np.evaluation.trained import Trained
from pntm_np.models import PAPER, Options
from pntm_np.models.checkpoint import Model
from pntm_np.protocol import memory_for
from pntm_np.runtime.progress import PREPARING, Progress
from pntm_np.runtime.untrusted import CheckpointError
from pntm_np.runtime.workers import Workers
from pntm_np.scans import default_form
from tasks import Task

SILENCE = 1.5  # seconds of preparing after which one is told why nothing happens
Asked = float | str | None  # a threshold as it was asked for: a number, auto, or nothing: the machine's own


class Evaluating:
    def __init__(
        self, trained: Trained, task: Task, device: str, workers: Workers, stop: Callable[[], bool] = lambda: False
    ) -> None:
        self.trained, self.task, self.workers, self.stop = trained, task, workers, stop
        self.model, self.form = trained.model.to(device), default_form(device)

    def run(self, lengths: tuple[int, int], samples: int, seed: int, cells: int, options: Options) -> Evaluation:
        every = range(lengths[0], lengths[1] + 1)
        with Progress("length", len(every)) as shown:
            return evaluate(
                self.model, self.task, every, samples, seed, cells, options, self.workers,
                watch=lambda score: shown.advance(f"{score.length}: exact match {share(score.exact_match, 2)}"),
                stop=self.stop,
            )  # fmt: skip


def prepare(model: Model, options: Options, say: Callable[[str], None]) -> None:
    """One step ahead of the others: it loads compiled kernels, or compiles and keeps them, which is said."""
    timer = threading.Timer(SILENCE, say, [PREPARING])
    timer.start()
    try:
        xp = array_module(model.params["embed.weight"])
        with np.errstate(all="ignore"):  # what is not finite is said below
            _, logits = model.step(model.initial_state(1, 2), xp.zeros(1, "int64"), options)
    finally:
        timer.cancel()
    if why := backend.unkept():
        say(f"what was compiled is not kept for the next time: {why}")
    if not to_host(xp.isfinite(logits)).all():
        raise CheckpointError("what the machine computes is not finite: its parameters are damaged, or it diverged")


def thresholds(evaluating: Evaluating, tau: Asked, gate_tau: Asked, say: Callable[[str], None]) -> Options:
    """The options of an evaluation: the machine's own thresholds but for those that were asked for.

    What is ``auto`` is chosen on inputs of the training lengths; ``auto`` for the shifts is for the gates as well. A
    machine whose training has not ended has none of its own, and is run with the paper's.
    """
    if gate_tau is None and tau == "auto":
        gate_tau = "auto"
    trained, asked = evaluating.trained, {"tau": tau, "gate_tau": gate_tau}
    own = (evaluating.model.thresholds or PAPER)._asdict()
    start = {name: value if isinstance(value, float) else own[name] for name, value in asked.items()}
    options = Options(evaluating.form, **start)
    prepare(evaluating.model, options, say)
    names = tuple(name for name, value in asked.items() if value == "auto")
    if not names:
        return options
    with Progress("threshold", sum(len(CANDIDATES[name]) for name in names)) as shown:
        options = choose_thresholds(
            evaluating.model,
            evaluating.task,
            trained.max_length,
            memory_for(trained.max_length),
            options,
            evaluating.workers,
            names,
            lambda name, value, fit: shown.advance(
                f"{name} {value:g}: exact match {share(fit.exact_match, 3)}, loss {fit.token_loss:.1e}"
            ),
            evaluating.stop,
        )
    say(f"chosen on lengths up to {trained.max_length}: tau {options.tau:g}, gate-tau {options.gate_tau:g}")
    return options
