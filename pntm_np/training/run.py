"""A run's directory: everything needed to resume the run, and its results.

    config.json         the configuration
    metrics.jsonl       loss and gradient every few steps, exact match at every evaluation; the same bits every time
    timing.jsonl        when, how long, with which versions
    state.safetensors   all that training needs to continue: parameters, moments, step
    model.safetensors   the model, for evaluation and everything else
    result.json         written last: the run is complete

A resumed run starts from ``state``, which is replaced atomically; the metrics are cut to the length recorded there.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np

from pntm_np.evaluation.report import LengthScore
from pntm_np.models import Thresholds, decide_heads
from pntm_np.models.checkpoint import Model, save
from pntm_np.runtime.errors import USAGE, PntmError
from pntm_np.runtime.files import FULL, clear_partial, hold, json_bytes, open_own, write_all, write_atomically
from pntm_np.runtime.sealed import Shapes, pack, unpack
from pntm_np.runtime.untrusted import CheckpointError, Json, is_count, is_number, read_json
from pntm_np.training.config import Config
from pntm_np.training.optimizer import Moments, join, views

KIND = "state-4"  # the version of the file
FILES = ("config.json", "metrics.jsonl", "timing.jsonl", "state.safetensors", "model.safetensors", "result.json")


class RunError(PntmError, ValueError):
    """The directory cannot be used for this run: it has another run, none to resume, or one in progress."""

    exit_code = USAGE


class RunBusy(RunError):
    """Another process holds the lock of the run."""


@dataclass
class Progress:
    params: np.ndarray
    moments: Moments
    step: int = 0
    began: int = 0  # the step after which the parameters were last drawn
    restarts: int = 0
    quiet: int = 0  # steps in a row with a gradient below the bound of the early stop
    solved: int = 0  # evaluations in a row with the exact match of SOLVED
    evaluated: int = 0  # the step of the last evaluation
    examined: int = 0  # the step of the last examination, which decides whether training may end
    rounding: float = 0.0  # the largest threshold by which half of a batch is rounded; 0: no rounding
    most_at: int = 0  # the step at which most answers on the training lengths were first right
    learnt_at: int = 0  # the step at which the training lengths were learnt
    solved_at: int = 0  # the step at which the task was solved and the last steps began
    end: int = 0  # the last step, once the task is solved
    metrics_bytes: int = 0

    @classmethod
    def start(cls, config: Config, rng: np.random.Generator) -> Progress:
        params = first_parameters(config, rng)
        return cls(params, Moments(np.zeros_like(params), np.zeros_like(params)))


def first_parameters(config: Config, rng: np.random.Generator) -> np.ndarray:
    architecture = config.architecture()
    return join(decide_heads(architecture.init(rng, start=config.start), config.head_gain), architecture.shapes())


REASONS = ("solved", "quiet", "steps")  # why training ended
COUNTERS = tuple(f.name for f in fields(Progress) if f.type == "int")


class Run:
    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def path(self, name: str) -> Path:
        return self.directory / name

    @property
    def files(self) -> list[Path]:
        return [self.path(name) for name in FILES]

    @property
    def exists(self) -> bool:
        return any(path.exists() for path in self.files)

    @property
    def complete(self) -> bool:
        return self.path("result.json").exists()

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Make the directory and lock it against other processes; the lock ends with the process."""
        try:
            self.directory.mkdir(parents=True, exist_ok=True)
            lock = open_own(self.path(".lock"), os.O_RDWR | os.O_CREAT)
        except OSError as error:
            if error.errno in FULL:
                raise
            raise RunError(f"--out {self.directory} cannot be written to: {error.strerror}") from None
        try:
            if not hold(lock, wait=False):
                raise RunBusy(f"{self.directory}: another process is at work on this run; wait until it has ended")
            clear_partial(self.files)
            yield
        finally:
            os.close(lock)

    @property
    def at_work(self) -> bool:
        try:
            lock = open_own(self.path(".lock"), os.O_RDWR)
        except (OSError, CheckpointError):
            return False
        try:
            return not hold(lock, wait=False)
        finally:
            os.close(lock)

    # configuration and result
    def write_config(self, config: Config) -> None:
        self._write_json("config.json", config.as_json())

    def read_config(self) -> Config:
        try:
            return Config.from_json(self._read_json("config.json"))
        except (ValueError, TypeError) as error:
            if isinstance(error, CheckpointError):
                raise
            raise CheckpointError(f"{self.path('config.json')}: not a usable configuration: {error}") from None

    def write_result(self, result: Json) -> None:
        self._write_json("result.json", result)

    def read_result(self) -> Json:
        result = self._read_json("result.json")
        if not is_result(result):
            raise CheckpointError(f"{self.path('result.json')}: not the result of a run")
        return result

    def _write_json(self, name: str, content: Json) -> None:
        write_atomically(self.path(name), json_bytes(content, indent=1))

    def _read_json(self, name: str) -> Json:
        content = read_json(self.path(name))
        if not isinstance(content, dict):
            raise CheckpointError(f"{self.path(name)}: not readable as JSON: not an object")
        return content

    # rows
    def append(self, name: str, row: Json) -> int:
        """Add a row to a .jsonl file, and return the file's new length."""
        file = open_own(self.path(name), os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        try:
            write_all(file, json_bytes(row))
            return os.lseek(file, 0, os.SEEK_END)
        except OSError as error:
            error.filename = error.filename or str(self.path(name))  # errors of write do not name the file
            raise
        finally:
            os.close(file)

    # state
    def save(self, config: Config, progress: Progress) -> None:
        """Sync the metrics, then write the state, which records their length, then the model."""
        if self.path("metrics.jsonl").exists():
            file = open_own(self.path("metrics.jsonl"), os.O_RDWR)
            try:
                os.fsync(file)
            finally:
                os.close(file)
        counters = {name: getattr(progress, name) for name in (*COUNTERS, "rounding")}
        arrays = {"params": progress.params, "adam.m": progress.moments.m, "adam.v": progress.moments.v}
        content = pack(arrays, KIND, {"config": config.as_json(), **counters})
        write_atomically(self.path("state.safetensors"), content)
        self.save_model(config, progress)

    def save_model(self, config: Config, progress: Progress, thresholds: Thresholds | None = None) -> None:
        """Write the model; its thresholds are chosen once training has ended."""
        architecture = config.architecture()
        params = views(progress.params, architecture.shapes())
        training = {**config.as_json(), "step": progress.step}
        model = Model(config.model, architecture.vocabulary, config.sizes, params, training, thresholds)
        save(self.path("model.safetensors"), model)

    def load(self) -> tuple[Config, Progress]:
        path = self.path("state.safetensors")
        kept, arrays = unpack(path, KIND, _expected)
        config = Config.from_json(kept["config"])
        progress = Progress(arrays["params"], Moments(arrays["adam.m"], arrays["adam.v"]))
        for name in (*COUNTERS, "rounding"):
            setattr(progress, name, kept[name])
        return config, progress

    def cut_metrics(self, length: int) -> None:
        """Remove the rows that were written after the state was saved."""
        path = self.path("metrics.jsonl")
        size = path.stat().st_size if path.exists() else 0
        if size < length:
            raise CheckpointError(f"{path} has {size:,} bytes; expected at least {length:,}, as in the run's state")
        if size > length:
            file = open_own(path, os.O_RDWR)
            try:
                os.ftruncate(file, length)
            finally:
                os.close(file)


def is_result(result: Any) -> bool:
    """Whether ``result`` is the result of a run, in all that other code relies on."""
    try:
        config = Config.from_json(result["config"])
        rows = [LengthScore(**row) for row in result["by_length"]]
        first, last = config.lengths
        longer = [max(first, config.max_length + 1), last] if last > config.max_length else None
        shares = [share for row in rows for share in (row.exact_match, row.token_accuracy, row.chance)]
        shares += [result[name] for name in ("exact_match", "tau", "gate_tau", *(["score"] if longer else []))]
        counts = [row.samples for row in rows] + [result["step"], result["restarts"]]
        return (
            [row.length for row in rows] == list(range(first, last + 1))
            and all(is_number(share, 0, 1) for share in shares)
            and all(is_count(count) for count in counts)
            and (result["solved_at"] is None or is_count(result["solved_at"]))
            and result["score_lengths"] == longer
            and (longer is not None or result["score"] is None)
            and result["stopped_by"] in REASONS
            and result["task"] == config.task
        )
    except (KeyError, TypeError, ValueError):
        return False


def _expected(kept: Json) -> Shapes:
    try:
        config = Config.from_json(kept.get("config"))
    except (ValueError, TypeError) as error:
        raise CheckpointError(f"its configuration is not usable: {error}") from None
    counted = all(type(kept.get(name)) is int and kept[name] >= 0 for name in COUNTERS)
    if not counted or type(kept.get("rounding")) is not float or not 0 <= kept["rounding"] <= 1:
        raise CheckpointError("its counters are not readable")
    count = config.architecture().parameter_count()
    return {"params": (count,), "adam.m": (count,), "adam.v": (count,)}
