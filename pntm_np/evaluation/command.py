"""An evaluation as a whole: a machine on its device, its task, thresholds, and what one sees while it runs."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from autodiff import array_module
from pntm_np.checkpoint import Model
from pntm_np.evaluation.score import Evaluation, evaluate, evaluation_memory
from pntm_np.evaluation.shown import share
from pntm_np.evaluation.thresholds import GATE_TAUS, TAU, TAUS, choose_thresholds
from pntm_np.evaluation.trained import Trained
from pntm_np.models import Options
from pntm_np.progress import Progress
from pntm_np.scans import default_form
from pntm_np.workers import Workers
from tasks import Task

SILENCE = 1.5  # seconds of preparing after which one is told why nothing happens


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
                self.model, self.task, every, samples, seed, cells, options, self.workers, self.trained.end_token,
                watch=lambda score: shown.advance(f"{score.length}: exact match {share(score.exact_match, 2)}"),
                stop=self.stop,
            )  # fmt: skip


def prepare(model: Model, options: Options, say: Callable[[str], None]) -> None:
    """One step ahead of the others: it loads compiled kernels, or compiles and keeps them, which is said."""
    timer = threading.Timer(SILENCE, say, ["compiling, for some seconds; this is kept for the next time"])
    timer.start()
    try:
        token = array_module(model.params["embed.weight"]).zeros(1, "int64")
        model.step(model.initial_state(1, 2), token, options)
    finally:
        timer.cancel()


def thresholds(evaluating: Evaluating, tau: Any, gate_tau: Any, say: Callable[[str], None]) -> Options:
    """The options of an evaluation; what is ``auto`` is chosen on lengths up to the training length."""
    if gate_tau is None:
        gate_tau = tau if tau == "auto" else 0.0
    tau_now, gate_tau_now = (TAU if tau == "auto" else tau), (0.0 if gate_tau == "auto" else gate_tau)
    options = Options(evaluating.form, tau_now, gate_tau_now)
    prepare(evaluating.model, options, say)
    if "auto" not in (tau, gate_tau):
        return options
    trained = evaluating.trained
    with Progress("threshold", len(TAUS) + len(GATE_TAUS)) as shown:
        options = choose_thresholds(
            evaluating.model,
            evaluating.task,
            trained.max_length,
            evaluation_memory(trained.max_length),
            options,
            evaluating.workers,
            trained.end_token,
            tau == "auto",
            gate_tau == "auto",
            lambda name, value, fit: shown.advance(
                f"{name} {value:g}: exact match {share(fit.exact_match, 3)}, loss {fit.loss:.1e}"
            ),
            evaluating.stop,
        )
    say(f"chosen on lengths up to {trained.max_length}: tau {options.tau:g}, gate-tau {options.gate_tau:g}")
    return options
