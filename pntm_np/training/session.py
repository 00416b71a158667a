"""From a configuration to a result: open or resume the run, train, evaluate as the paper does, write it all down."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from pntm_np import memory
from pntm_np.checkpoint import load
from pntm_np.evaluation.decode import Stopped
from pntm_np.evaluation.score import ROWS, LengthScore, evaluate, evaluation_memory
from pntm_np.models import Options
from pntm_np.randomness import PARAMETERS, generator
from pntm_np.training.config import Config, ConfigError
from pntm_np.training.learner import shards_of
from pntm_np.training.loop import TAU, Diverged, Outcome, Watcher, train
from pntm_np.training.run import Progress, Run, RunError
from pntm_np.workers import Workers
from tasks import Task, batch

EVALUATION_SEED = 0
MAY_CHANGE = ("steps", "checkpoint_every")  # on resuming: they change no number of a step


def require_memory(config: Config, task: Task, threads: int) -> None:
    """Refuse a run that cannot fit, before anything is made."""
    architecture = config.architecture()
    small = batch(task, np.random.default_rng(0), config.max_length, 1, config.end_token)
    rows = np.zeros((config.batch_size, 1), bool)
    shards = shards_of(type(small)(rows, rows, rows), config.backend)
    steps, biggest = small.tokens.shape[1], max(len(shard.tokens) for shard in shards)
    need = memory.training_need(architecture, biggest, steps, config.memory_size, config.form)
    what = f"a training step with batches of {config.batch_size:,} and inputs of up to {config.max_length:,} symbols"
    lower = "--batch-size, --max-length or --memory-size"
    memory.require(need * min(threads, len(shards)), what, lower, config.backend)
    longest = config.lengths[1]
    steps = batch(task, np.random.default_rng(0), longest, 1, config.end_token).tokens.shape[1]
    rows_together = min(ROWS, config.samples * (longest - config.lengths[0] + 1))
    need = memory.decoding_need(architecture, rows_together, steps, evaluation_memory(longest))
    memory.require(need * threads, f"evaluating inputs of {longest:,} symbols", "--lengths", config.backend)


def check_run(run: Run, resume: bool) -> None:
    """A run is never written over."""
    if run.exists and not resume:
        raise RunError(f"{run.directory} has a run already; go on with it by --resume, or choose another --out")


def check_directory(run: Run) -> None:
    """Whether the run's files can be written, found out without writing any."""
    directory = run.directory
    while not directory.exists() and directory != directory.parent:
        directory = directory.parent
    if not directory.is_dir():
        raise RunError(f"--out {run.directory}: {directory} is not a directory")
    if not os.access(directory, os.W_OK | os.X_OK):
        raise RunError(f"--out {run.directory}: {directory} cannot be written to")


def kept_config(run: Run, given: dict[str, Any]) -> Config:
    """The configuration of a run to be resumed; what the user gives again must be the same."""
    kept = run.load()[0] if run.path("state.safetensors").exists() else run.read_config()
    for name, value in given.items():
        if name not in MAY_CHANGE and value != getattr(kept, name):
            raise ConfigError(
                name, value, f"expected {getattr(kept, name)!r}, as the run in {run.directory} began, or no --resume"
            )
    return replace(kept, **{name: given[name] for name in MAY_CHANGE if name in given})


def open_run(run: Run, config: Config, resume: bool) -> Progress:
    """Where to start: at the beginning, or where a run that is to be resumed stands."""
    check_run(run, resume)  # again: another process may have been faster
    if resume and run.path("state.safetensors").exists():
        kept, progress = run.load()
        run.cut_metrics(progress.metrics_bytes)
        if config.steps != kept.steps:
            run.path("result.json").unlink(missing_ok=True)
    else:
        progress = Progress.start(config, generator(PARAMETERS, config.seed))
        run.cut_metrics(0)
    run.write_config(config)
    return progress


def conduct(
    run: Run,
    config: Config,
    task: Task,
    resume: bool,
    threads: int,
    watcher: Watcher,
    stop: Callable[[], bool],
) -> dict[str, Any] | None:
    """The run's result; None if it was stopped before its end."""
    with run.locked(), Workers(threads) as workers:
        progress = open_run(run, config, resume)
        if run.complete:
            return run.read_result()
        watcher.began(progress.step)
        began, first = time.perf_counter(), progress.step
        versions = {"python": platform.python_version(), "numpy": np.__version__}
        run.append("timing.jsonl", {"from_step": first, "threads": threads, "started": time.time(), **versions})
        try:
            outcome = train(run, config, task, progress, workers, watcher, stop)
        except Diverged as error:
            run.append("timing.jsonl", {"diverged": error.facts})
            raise
        seconds = time.perf_counter() - began
        run.append("timing.jsonl", {"from_step": first, "step": progress.step, "training_seconds": round(seconds, 3)})
        if outcome.reason == "signal":
            return None
        try:
            result = final_result(run, config, task, outcome, workers, watcher.evaluated, stop)
        except Stopped:
            return None
        run.write_result(result)
        return result


def final_result(
    run: Run,
    config: Config,
    task: Task,
    outcome: Outcome,
    workers: Workers,
    watch: Callable[[LengthScore], None],
    stop: Callable[[], bool],
) -> dict[str, Any]:
    """The paper's evaluation of the machine as it was written to disk."""
    model = load(run.path("model.safetensors")).to(config.backend)
    first, last = config.lengths
    cells = evaluation_memory(last)
    options = Options(form=config.form, tau=TAU)
    lengths = range(first, last + 1)
    found = evaluate(
        model, task, lengths, config.samples, EVALUATION_SEED, cells, options, workers, config.end_token,
        watch=watch, stop=stop,
    )  # fmt: skip
    return {
        "task": config.task,
        "model": config.model,
        "parameters": model.architecture.parameter_count(),
        "seed": config.seed,
        "preset": config.preset,
        "step": outcome.step,
        "stopped_by": outcome.reason,
        **found.as_json(config.max_length),
        "tau": TAU,
        "gate_tau": 0.0,
        "memory_size": cells,
        "evaluation_seed": EVALUATION_SEED,
        "config": config.as_json(),
    }
