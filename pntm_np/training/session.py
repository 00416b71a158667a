"""From a configuration to a result: open or resume the run, train, evaluate as the paper does, and save the result."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

from pntm_np.evaluation.context import Context
from pntm_np.evaluation.score import evaluate, require_memory, tokens_of
from pntm_np.evaluation.settings import Settings
from pntm_np.evaluation.thresholds import Asked, choose_thresholds
from pntm_np.models import DEFAULT, Options
from pntm_np.models.checkpoint import load
from pntm_np.models.footprint import BYTES, training_need
from pntm_np.protocol import evaluation_memory
from pntm_np.runtime import ram
from pntm_np.runtime.files import unusable
from pntm_np.runtime.randomness import PARAMETERS, generator
from pntm_np.runtime.signals import Stopped
from pntm_np.runtime.untrusted import CheckpointError, Json
from pntm_np.scans.forms import require_fused
from pntm_np.training.config import Config, ConfigError
from pntm_np.training.cost import TIMING, Cost
from pntm_np.training.learner import Learner, shard_cuts
from pntm_np.training.loop import Diverged, train
from pntm_np.training.rounding import thresholds
from pntm_np.training.run import Progress, Run, RunError
from tasks import TASKS, Task

PARAMETER_COPIES = 14  # gradients, moments and temporaries at the peak; measured
SAMPLE_BYTES = 22  # for each token of a batch: tokens, targets, mask and temporaries; measured
MAY_CHANGE = ("steps", "checkpoint_every", "tau")  # when resuming: they do not change the numbers of a step
FOUND: tuple[str, ...] = ("score", "score_lengths", "exact_match", "token_accuracy", "chance", "by_length")
FOUND += ("tau", "gate_tau", "memory_size")  # keys that a result copies from the evaluation's report


def require_fit(config: Config, task: Task, threads: int) -> None:
    """Refuse a run whose form cannot run here or that does not fit into memory, before anything is written."""
    if config.form == "fused":
        require_fused("--form", config.backend == "cpu")
    architecture = config.architecture()
    sizes = [b - a for a, b in itertools.pairwise(shard_cuts(config.batch_size, config.backend))]
    steps, cells = tokens_of(task, config.max_length), max(config.most_cells(learnt) for learnt in (False, True))
    need = training_need(architecture, max(sizes), steps, cells, config.form, config.backend)
    what = f"a training step with batches of {config.batch_size:,} and inputs of up to {config.max_length:,} symbols"
    lower = "--batch-size, --max-length, --memory-size or --size"
    parameters = PARAMETER_COPIES * BYTES * architecture.parameter_count()
    samples = SAMPLE_BYTES * config.batch_size * steps
    ram.require(need * min(threads, len(sizes)) + parameters + samples, what, lower, config.backend)
    require_memory(architecture, task, settings(config), threads, "--lengths", config.max_length)


def plan(
    run: Run, task: Task | None, preset: str, given: dict[str, Any], typed: set[str], resume: bool
) -> tuple[Config, Task]:
    """Configuration and task of a new run, or of the run in the directory if it is to be resumed.

    ``typed`` names the options that the user gave, as opposed to defaults."""
    check_run(run, resume)
    if not (resume and run.exists):
        if task is None:
            raise RunError(f"{run.directory} has no run to resume; name a task to start one")
        config = Config.of(task, preset, **given)
        return config, task.with_end_token(config.end_token)
    config = kept_config(run, {name: value for name, value in {**given, "preset": preset}.items() if name in typed})
    if task is None and config.task not in TASKS:
        raise RunError(f"{run.directory}: the task {config.task!r} is in a file of yours; name it again")
    task = task or TASKS[config.task]
    if (task.name, task.symbols) != (config.task, config.symbols):
        raise RunError(f"the run in {run.directory} has the task {config.task}, not {task.name}; choose another --out")
    return config, task.with_end_token(config.end_token)


def check_run(run: Run, resume: bool) -> None:
    """Refuse to overwrite a run."""
    if run.exists and not resume:
        raise RunError(f"{run.directory} has a run already; continue it with --resume, or choose another --out")


def check_directory(run: Run) -> None:
    if why := unusable(run.directory):
        raise RunError(f"--out {run.directory}: {why}")


def kept_config(run: Run, given: dict[str, Any]) -> Config:
    """The configuration of a run to resume; options that the user repeats must have their old values."""
    if run.path("state.safetensors").exists():
        kept, progress = run.load()
        done, end = progress.step, progress.end
        try:  # options that may change were last written there
            written = run.read_config()
            kept = replace(kept, **{name: getattr(written, name) for name in MAY_CHANGE})
        except (CheckpointError, OSError):
            pass
    else:
        kept, done, end = run.read_config(), 0, 0
    for name, value in given.items():
        if name not in MAY_CHANGE and value != getattr(kept, name):
            before = getattr(kept, name)
            before = ":".join(map(str, before)) if isinstance(before, tuple) else repr(before)
            raise ConfigError(name, value, f"expected {before}, as in the run in {run.directory}, or no --resume")
    steps = given.get("steps", kept.steps)
    if steps < done:
        raise ConfigError("steps", steps, f"expected at least {done:,}: the run in {run.directory} has done them")
    if steps != kept.steps and kept.cool_down and (end or done > min(steps, kept.steps) - kept.cool_down):
        why = f"was solved and ended at step {end:,}" if end and done >= end else "is cooling down"
        raise ConfigError("steps", steps, f"expected {kept.steps}: the run in {run.directory} {why}")
    return replace(kept, **{name: given[name] for name in MAY_CHANGE if name in given})


def open_run(run: Run, config: Config, resume: bool) -> Progress:
    """The progress to start from: none, or that of the run to resume."""
    check_run(run, resume)  # again: another process may have been faster
    if resume and run.path("state.safetensors").exists():
        kept, progress = run.load()
        run.cut_metrics(progress.metrics_bytes)
        if run.complete and (config.steps > kept.steps or run.read_result()["config"]["tau"] != config.tau):
            run.path("result.json").unlink()
    else:
        progress = Progress.start(config, generator(PARAMETERS, config.seed))
        if run.complete:  # without its state it cannot be continued
            made = Config.from_json(run.read_result()["config"])
            if config.steps > made.steps or config.tau != made.tau:
                raise RunError(f"{run.directory} has no state.safetensors, without which the run cannot continue")
            return progress
        run.cut_metrics(0)
    if not run.complete:
        run.write_config(config)
    return progress


def settings(config: Config, options: Options = DEFAULT) -> Settings:
    """Settings of the paper's evaluation at the end of a run."""
    first, last = config.lengths
    about: dict[str, Any] = {"options": options, "max_length": config.max_length, "device": config.backend}
    return Settings(range(first, last + 1), config.samples, memory_size=evaluation_memory(last), **about)


def conduct(run: Run, config: Config, task: Task, resume: bool, context: Context) -> Json | None:
    """Train and evaluate; returns the result, or None if the run was stopped before its end."""
    with run.locked(), context.workers as workers:
        progress = open_run(run, config, resume)
        if run.complete:
            return run.read_result()
        context.watcher.preparing()
        Learner(config, progress.params, progress.moments, workers).prepare()  # compiling is not training
        cost = Cost(run, progress.step, workers.threads)
        try:
            reason = train(run, config, task, progress, cost, context)
        except Diverged as error:
            run.append(TIMING, {"diverged": error.facts})
            raise
        if reason == "signal":
            return None
        try:
            result = final_result(run, config, task, progress, reason, context)
        except Stopped:
            return None
        cost.evaluated(progress.step)
        run.write_result(result)
        return result


def final_result(run: Run, config: Config, task: Task, progress: Progress, reason: str, context: Context) -> Json:
    """Choose the thresholds, then evaluate the saved model as the paper does."""
    model, asked = load(run.path("model.safetensors")).to(config.backend), Asked(config.tau)
    if config.tau == "auto" and progress.rounding:  # as in training
        asked = Asked(*thresholds(progress.rounding))
    start = settings(config, asked.options(config.form, None))
    options = choose_thresholds(model, task, start, context, asked.auto)
    run.save_model(config, progress, options.thresholds)
    found = evaluate(model, task, settings(config, options), context).as_json()
    result = {"task": config.task, "model": config.model, "parameters": model.architecture.parameter_count()}
    result |= {"seed": config.seed, "preset": config.preset, "step": progress.step, "stopped_by": reason}
    result |= {"restarts": progress.restarts}
    result |= {name: getattr(progress, name) or None for name in ("learnt_at", "solved_at")}
    result |= {name: found[name] for name in FOUND}
    return result | {"evaluation_seed": found["seed"], "end_token": found["end_token"], "config": config.as_json()}
