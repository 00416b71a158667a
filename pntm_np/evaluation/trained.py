"""A trained model with its task and training lengths, as its checkpoint records them; loading imports no code."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np

from autodiff import array_module, backend, to_host
from pntm_np.evaluation.context import Context
from pntm_np.evaluation.settings import Settings
from pntm_np.evaluation.thresholds import CANDIDATES, Asked, choose_thresholds
from pntm_np.models import Options
from pntm_np.models.checkpoint import Model, load
from pntm_np.runtime.errors import USAGE, PntmError
from pntm_np.runtime.progress import PREPARING, Progress
from pntm_np.runtime.untrusted import CheckpointError
from pntm_np.scans import default_form
from tasks import TASKS, Task, TaskError, check_name, check_symbols

LONGEST = 10**5  # largest training length that a checkpoint may state
SILENCE = 1.5  # seconds of preparing after which a message explains the delay


class Trained(NamedTuple):
    model: Model
    task: str
    symbols: str
    max_length: int
    end_token: bool
    lengths: tuple[int, int]  # first and last length of the evaluation at the end of training
    samples: int  # inputs of each of these lengths


class TaskNeeded(PntmError, ValueError):
    """The task is in a file of the user, which only the user can name."""

    exit_code = USAGE


def load_trained(path: Path) -> Trained:
    file = path / "model.safetensors" if path.is_dir() else path
    if path.is_dir() and not file.exists():
        raise CheckpointError(f"{path} has no model.safetensors: it is not a run, or has not saved a model yet")
    model = load(file)
    for name, weights in model.params.items():
        if not array_module(weights).isfinite(weights).all():
            raise CheckpointError(f"{file}: {name} is not finite: the model is damaged, or its training diverged")
    training = model.training or {}
    kinds = {"task": str, "symbols": str, "max_length": int, "end_token": bool, "lengths": list, "samples": int}
    for name, kind in kinds.items():
        if type(training.get(name)) is not kind:
            raise CheckpointError(f"{file} does not record its training: {name!r} is missing")
    lengths, samples = training["lengths"], training["samples"]
    try:
        check_name(training["task"])
        check_symbols(training["symbols"])
    except TaskError as error:
        raise CheckpointError(f"{file} records an unusable task: {error}") from None
    if len(training["symbols"]) + 1 + training["end_token"] != model.vocabulary:
        raise CheckpointError(f"{file} records symbols that do not fit its vocabulary of {model.vocabulary}")
    if not 1 <= training["max_length"] <= LONGEST:
        raise CheckpointError(f"{file} records training on lengths up to {training['max_length']}; expected 1 to 10^5")
    usable = len(lengths) == 2 and all(type(n) is int for n in lengths) and 1 <= lengths[0] <= lengths[1] <= LONGEST
    if not usable or not 1 <= samples <= LONGEST:
        raise CheckpointError(f"{file} records an unusable evaluation: {samples} samples of lengths {lengths!r:.60}")
    about = {name: training[name] for name in ("task", "symbols", "max_length", "end_token", "samples")}
    return Trained(model, lengths=(lengths[0], lengths[1]), **about)


def task_of(trained: Trained, named: Task | None) -> Task:
    """The task of the model, with its end token if it has one; ``named`` is the task that the user named, if any."""
    task = named or TASKS.get(trained.task)
    if task is None:
        raise TaskNeeded(
            f"the model was trained on {trained.task!r:.60}, which is in a file of yours; "
            "name it again: --task path/to/file.py:Name"
        )
    if (task.name, task.symbols) != (trained.task, trained.symbols):
        raise CheckpointError(
            f"the model was trained on {trained.task!r:.60} with symbols {trained.symbols!r:.60}, "
            f"not on {task.name!r:.60} with {task.symbols!r:.60}"
        )
    return task.with_end_token(trained.end_token)


def prepare(model: Model, options: Options, say: Callable[[str], None]) -> None:
    """Make one step in advance: it loads the compiled kernels, or compiles and caches them; ``say`` explains delays."""
    timer = threading.Timer(SILENCE, say, [PREPARING])
    timer.start()
    try:
        xp = array_module(model.params["embed.weight"])
        with np.errstate(all="ignore"):  # values that are not finite are reported below
            _, logits = model.step(model.initial_state(1, 2), xp.zeros(1, "int64"), options)
    finally:
        timer.cancel()
    if why := backend.unkept():
        say(f"compiled kernels cannot be cached for the next time: {why}")
    if not to_host(xp.isfinite(logits)).all():
        raise CheckpointError("the model's output is not finite: its parameters are damaged, or its training diverged")


def ready(
    trained: Trained, task: Task, asked: Asked, device: str, context: Context, say: Callable[[str], None]
) -> tuple[Model, Options]:
    """The model on its device, and its options: its own thresholds, except those that the user asks for."""
    model = trained.model.to(device)
    options = asked.options(default_form(device), model.thresholds)
    prepare(model, options, say)
    if asked.auto:
        settings = Settings(options=options, max_length=trained.max_length, device=device)
        with Progress("threshold", sum(len(CANDIDATES[name]) for name in asked.auto)) as shown:
            options = choose_thresholds(model, task, settings, context.on(shown), asked.auto)
        say(f"chosen on lengths up to {trained.max_length}: tau {options.tau:g}, gate-tau {options.gate_tau:g}")
    return model, options
