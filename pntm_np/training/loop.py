"""The training loop: draw a batch, step, evaluate now and then, save, and know when to stop."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import autodiff as ad
from pntm_np.checkpoint import Model
from pntm_np.evaluation.decode import Stopped
from pntm_np.evaluation.score import Evaluation, LengthScore, evaluate
from pntm_np.evaluation.thresholds import spread
from pntm_np.models import Options
from pntm_np.randomness import BATCHES, JUDGE, generator
from pntm_np.training.config import PATIENCE, QUIET, Config
from pntm_np.training.learner import Learner, Report
from pntm_np.training.run import Progress, Run
from pntm_np.workers import Workers
from tasks import Task, batch

METRICS_EVERY = 10  # steps
TAU = 0.01  # the paper's threshold at inference
JUDGED, JUDGE_SAMPLES = 16, 16  # lengths up to twice the training length, and samples of each
SOLVED = 3  # evaluations in a row without a mistake: a machine that has just got there fails on longer inputs


class Diverged(ArithmeticError):
    """Loss or gradient is not finite. The update was not made."""

    def __init__(self, step: int, config: Config, length: int, report: Report, parameter: str) -> None:
        where = f"the gradient of {parameter}" if parameter else "the loss"
        at = f"at step {step} (seed {config.seed}, inputs of length {length}, loss {report.loss:g})"
        super().__init__(f"{where} is not finite {at}")
        self.facts = {
            "step": step,
            "seed": config.seed,
            "length": length,
            "parameter": parameter or None,
            "loss": report.loss if math.isfinite(report.loss) else str(report.loss),
        }


@dataclass
class Outcome:
    """Why training ended."""

    reason: str  # steps, solved, quiet, signal
    step: int


class Watcher(Protocol):
    """Who looks on; a display."""

    def began(self, step: int) -> None: ...
    def stepped(self, step: int, length: int, tokens: int, report: Report) -> None: ...
    def judging(self, score: LengthScore) -> None: ...
    def judged(self, step: int, evaluation: Evaluation) -> None: ...
    def saved(self, step: int) -> None: ...
    def evaluated(self, score: LengthScore) -> None: ...


def train(
    run: Run,
    config: Config,
    task: Task,
    progress: Progress,
    workers: Workers,
    watcher: Watcher,
    stop: Callable[[], bool],
) -> Outcome:
    """Train from where ``progress`` stands until the end, or until ``stop()``; the state is saved in either case."""
    learner = Learner(config, progress.params, progress.moments, workers)
    saved = progress.step if run.path("state.safetensors").exists() else -1

    def row(content: dict[str, Any]) -> None:
        progress.metrics_bytes = run.append("metrics.jsonl", {"step": progress.step, **content})

    def save() -> None:
        nonlocal saved
        progress.params = ad.to_host(learner.flat)
        progress.moments = type(progress.moments)(*(ad.to_host(x) for x in learner.moments))
        run.save(config, progress)
        saved = progress.step
        watcher.saved(progress.step)

    def judge() -> None:
        found = evaluate(
            Model(config.model, task.vocabulary, config.sizes, learner.params),
            task,
            spread(2 * config.max_length, JUDGED),
            JUDGE_SAMPLES,
            0,
            2 * (2 * config.max_length) + 16,
            Options(form=config.form, tau=TAU),
            workers,
            config.end_token,
            JUDGE,
            watcher.judging,
            stop,
        )
        progress.evaluated = progress.step
        progress.solved = progress.solved + 1 if found.mean("exact_match") == 1 else 0
        by_length = {score.length: score.exact_match for score in found.by_length}
        row({"exact_match": found.mean("exact_match"), "by_length": by_length})
        watcher.judged(progress.step, found)

    while True:
        at_end = progress.step >= config.steps or progress.quiet >= PATIENCE
        due = progress.step > 0 and (progress.step % config.eval_every == 0 or at_end)
        try:
            if due and progress.evaluated != progress.step:
                judge()
        except Stopped:
            pass  # the evaluation is made again when the run is resumed
        solved = config.stop_when_solved and progress.solved >= SOLVED
        stopped = stop()
        if stopped or at_end or solved or progress.step - saved >= config.checkpoint_every:
            save()
        if stopped:
            return Outcome("signal", progress.step)
        if at_end or solved:
            reason = "solved" if solved else "quiet" if progress.quiet >= PATIENCE else "steps"
            return Outcome(reason, progress.step)
        number = progress.step + 1
        rng = generator(BATCHES, config.seed, number)
        length = int(rng.integers(1, config.max_length + 1))
        samples = batch(task, rng, length, config.batch_size, config.end_token)
        report = learner.step(samples, number)
        if not math.isfinite(report.objective) or not math.isfinite(report.gradient_norm):
            raise Diverged(number, config, length, report, learner.not_finite())
        progress.step = number
        progress.quiet = progress.quiet + 1 if report.gradient_norm < QUIET else 0
        if number % METRICS_EVERY == 0 or number == 1:
            row({"length": length, "loss": report.loss, "gradient_norm": report.gradient_norm})
        watcher.stepped(number, length, samples.tokens.size, report)
