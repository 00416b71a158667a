"""The training loop: draw a batch, step, evaluate now and then, save, and know when to stop."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Protocol

import autodiff as ad
from pntm_np.checkpoint import Model
from pntm_np.evaluation.score import Evaluation, LengthScore, evaluate, paper_cells
from pntm_np.evaluation.thresholds import TAU, spread
from pntm_np.models import Options
from pntm_np.randomness import BATCHES, JUDGE, generator
from pntm_np.signals import Stopped
from pntm_np.training.config import PATIENCE, QUIET, SOLVED, Config
from pntm_np.training.learner import Learner, Report
from pntm_np.training.run import Progress, Run
from pntm_np.workers import Workers
from tasks import Task, batch

METRICS_EVERY = 10  # steps
JUDGED, JUDGE_SAMPLES = 16, 16  # lengths up to twice the training length, and samples of each


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


class Watcher(Protocol):
    """Who looks on; a display."""

    def preparing(self) -> None: ...
    def began(self, step: int) -> None: ...
    def ends(self, step: int) -> None: ...
    def stepped(self, step: int, tokens: int, report: Report) -> None: ...
    def judging(self, score: LengthScore) -> None: ...
    def judged(self, step: int, evaluation: Evaluation) -> None: ...
    def evaluated(self, score: LengthScore) -> None: ...


def train(
    run: Run,
    config: Config,
    task: Task,
    progress: Progress,
    workers: Workers,
    watcher: Watcher,
    stop: Callable[[], bool],
) -> str:
    """Train from where ``progress`` stands until the end, or until ``stop()``; the state is saved in either case.

    The reason of the end: steps, solved, quiet (the paper's early stop), or signal.
    """
    learner = Learner(config, progress.params, progress.moments, workers)
    watcher.began(progress.step)
    if progress.end:
        watcher.ends(progress.end)
    saved = progress.step

    def row(content: dict[str, Any]) -> None:
        progress.metrics_bytes = run.append("metrics.jsonl", {"step": progress.step, **content})

    def save() -> None:
        nonlocal saved
        progress.params = ad.to_host(learner.flat)
        progress.moments = type(progress.moments)(*(ad.to_host(x) for x in learner.moments))
        run.save(config, progress)
        saved = progress.step

    def judge() -> None:
        found = evaluate(
            Model(config.model, task.vocabulary, config.sizes, learner.params),
            task,
            spread(2 * config.max_length, JUDGED),
            JUDGE_SAMPLES,
            seed=progress.step,  # other problems every time
            memory_size=paper_cells(2 * config.max_length),
            options=Options(form=config.form, tau=TAU),
            workers=workers,
            end_token=config.end_token,
            purpose=JUDGE,
            watch=watcher.judging,
            stop=stop,
        )
        progress.evaluated = progress.step
        progress.solved = progress.solved + 1 if found.mean("exact_match") == 1 else 0
        by_length = {score.length: score.exact_match for score in found.by_length}
        row({"exact_match": found.mean("exact_match"), "by_length": by_length})
        watcher.judged(progress.step, found)

    while True:
        try:
            if progress.step % config.eval_every == 0 and progress.evaluated != progress.step:
                judge()
        except Stopped:
            pass  # the evaluation is made again when the run is resumed
        if config.stop_when_solved and progress.solved >= SOLVED and not progress.end:
            progress.solved_at = progress.evaluated  # the last steps begin now, if they have not begun
            progress.end = min(progress.solved_at + config.cool_down, config.steps)
            watcher.ends(progress.end)
        reasons = {
            "signal": stop(),
            "solved": progress.end and progress.step >= progress.end,
            "quiet": progress.quiet >= PATIENCE,
            "steps": progress.step >= config.steps,
        }
        reason = next((name for name, holds in reasons.items() if holds), "")
        if reason or (progress.step % config.checkpoint_every == 0 and progress.step != saved):
            save()
        if reason:
            return reason
        number = progress.step + 1
        rng = generator(BATCHES, config.seed, number)
        length = int(rng.integers(1, config.max_length + 1))
        samples = batch(task, rng, length, config.batch_size, config.end_token)
        report = learner.step(samples, number, progress.end)
        if not math.isfinite(report.objective) or not math.isfinite(report.gradient_norm):
            raise Diverged(number, config, length, report, learner.not_finite())
        progress.step = number
        progress.quiet = progress.quiet + 1 if report.gradient_norm < QUIET else 0
        if number % METRICS_EVERY == 0 or number == 1:
            row({"length": length, "loss": report.loss, "gradient_norm": report.gradient_norm})
        watcher.stepped(number, samples.tokens.size, report)
