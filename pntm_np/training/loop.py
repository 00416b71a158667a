"""The training loop: draw a batch, make a step, evaluate the training lengths now and then, save, and decide to stop.

No input longer than the training lengths is drawn here: they alone decide when training ends.
"""

from __future__ import annotations

import math

import autodiff as ad
from pntm_np import evaluation
from pntm_np.evaluation.context import Context
from pntm_np.evaluation.fit import Fit, fit, training_samples
from pntm_np.models import Options
from pntm_np.models.checkpoint import Model
from pntm_np.protocol import PATIENCE, QUIET
from pntm_np.runtime.errors import DIVERGED, PntmError
from pntm_np.runtime.randomness import BATCHES, EXAMINE, JUDGE, PARAMETERS, generator
from pntm_np.runtime.signals import Stopped
from pntm_np.runtime.untrusted import Json
from pntm_np.training.config import SOLVED, Config
from pntm_np.training.cost import Cost
from pntm_np.training.learner import Learner, Report
from pntm_np.training.rounding import LAST, next_threshold, thresholds
from pntm_np.training.run import Progress, Run, first_parameters
from pntm_np.training.schedule import MOST, is_late, pace
from tasks import Task, batch

METRICS_EVERY = 10  # steps
SAMPLES = 8  # inputs of each training length at every evaluation
EXAMINATION = 64  # inputs of each at the last one: enough to notice one mistake in a thousand answers


class Diverged(PntmError, ArithmeticError):
    """Loss or gradient is not finite; the update was not made."""

    exit_code = DIVERGED

    def __init__(self, step: int, config: Config, length: int, report: Report, parameter: str) -> None:
        where = f"the gradient of {parameter}" if parameter else "the loss"
        at = f"at step {step} (seed {config.seed}, inputs of length {length}, loss {report.loss:g})"
        super().__init__(
            f"training diverged: {where} is not finite {at}; the update was not made, and the last checkpoint is intact"
        )
        loss = report.loss if math.isfinite(report.loss) else str(report.loss)
        self.facts = {"step": step, "seed": config.seed, "length": length, "parameter": parameter or None, "loss": loss}


class Watcher(evaluation.Watcher):
    """An observer of a run, such as a display."""

    def preparing(self) -> None: ...
    def began(self, step: int) -> None: ...
    def ends(self, step: int) -> None: ...
    def stepped(self, step: int, tokens: int, report: Report) -> None: ...
    def judged(self, step: int, found: Fit) -> None: ...
    def restarted(self, step: int) -> None: ...


def train(run: Run, config: Config, task: Task, progress: Progress, cost: Cost, context: Context) -> str:
    """Train from ``progress`` until the run ends or is stopped; the state is saved in either case.

    Returns why it ended: steps, solved, quiet (the paper's early stop), or signal.
    """
    learner = Learner(config, progress.params, progress.moments, context.workers)
    watcher: Watcher = context.watcher
    watcher.began(progress.step)
    if progress.end:
        watcher.ends(progress.end)
    saved = progress.step

    def row(content: Json) -> None:
        progress.metrics_bytes = run.append("metrics.jsonl", {"step": progress.step, **content})

    def save() -> None:
        nonlocal saved
        progress.params = ad.to_host(learner.flat)
        progress.moments = type(progress.moments)(*(ad.to_host(x) for x in learner.moments))
        run.save(config, progress)
        cost.trained(progress.step)
        saved = progress.step

    def measure(samples: int, purpose: int) -> Fit:
        """Evaluate the model on fresh inputs of the training lengths, with the present rounding."""
        model = Model(config.model, task.vocabulary, config.sizes, learner.params)
        drawn = list(training_samples(task, config.max_length, samples, purpose, progress.step))
        cells = config.most_cells(bool(progress.learnt_at))
        options = Options(config.form, *thresholds(progress.rounding))
        found = fit(model, drawn, cells, options, context)
        about = {"rounding": progress.rounding} if config.rounding else {}
        about |= {"certain": found.certain} if purpose == EXAMINE else {}
        row({"exact_match": found.exact_match, "judged_loss": found.token_loss, **about, "by_length": found.right})
        watcher.judged(progress.step, found)
        return found

    def judge() -> None:
        found = measure(SAMPLES, JUDGE)
        progress.evaluated = progress.step
        answers = found.exact_match >= SOLVED[0] and (not config.rounding or progress.rounding == LAST)
        progress.solved = progress.solved + 1 if answers else 0
        if config.rounding and not progress.end:
            progress.rounding = next_threshold(progress.rounding, found.exact_match)
        if found.exact_match >= MOST:
            progress.most_at = progress.most_at or progress.step
        if progress.solved < SOLVED[1] and is_late(config, progress, found.exact_match):
            restart()

    def restart() -> None:
        """Give up these parameters: draw new ones and train for the remaining steps."""
        progress.began, progress.restarts = progress.step, progress.restarts + 1
        progress.rounding, progress.most_at, progress.solved = 0.0, 0, 0
        learner.restart(first_parameters(config, generator(PARAMETERS, config.seed, progress.restarts)))
        row({"restarts": progress.restarts})
        watcher.restarted(progress.step)

    def examine() -> None:
        """Test the model after the last steps; training goes on if the model is not certain."""
        certain = measure(EXAMINATION, EXAMINE).certain
        progress.examined = progress.step
        if not certain:
            progress.solved = progress.solved_at = progress.end = 0
            watcher.ends(config.steps)

    def turn() -> None:
        """Once the training lengths are learnt, change the memory size, if configured, or begin the last steps."""
        if not progress.learnt_at:
            progress.learnt_at = progress.evaluated
            if config.learnt_memory_size:
                progress.solved = 0  # judged anew with that size
                return
        if not config.stop_when_solved:
            return
        progress.solved_at = progress.evaluated
        progress.end = min(progress.solved_at + config.cool_down, config.steps)
        watcher.ends(progress.end)

    while True:
        try:
            if progress.step % config.eval_every == 0 and progress.evaluated != progress.step:
                judge()
            if progress.solved >= SOLVED[1] and not progress.end:
                turn()
            if progress.end and progress.step >= progress.end and progress.examined != progress.step:
                examine()
        except Stopped:
            pass  # the resumed run repeats what was not finished
        reasons = {
            "signal": context.stop(),
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
        samples = batch(task, rng, length, config.batch_size)
        report = learner.step(samples, number, pace(config, number, progress), progress.began)
        if not math.isfinite(report.loss) or not math.isfinite(report.gradient_norm):
            raise Diverged(number, config, length, report, learner.not_finite())
        progress.step = number
        progress.quiet = progress.quiet + 1 if report.gradient_norm < QUIET else 0
        if number % METRICS_EVERY == 0 or number == 1:
            row({"length": length, "loss": report.loss, "gradient_norm": report.gradient_norm})
        watcher.stepped(number, samples.tokens.size, report)
