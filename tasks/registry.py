"""Tasks by name: the six of the paper, and those in a file of the user's own."""

from __future__ import annotations

import difflib
import importlib.util
import re
import sys
import traceback
from pathlib import Path
from typing import Any

import numpy as np

from tasks.binary_addition import BinaryAddition
from tasks.cycle_navigation import CycleNavigation
from tasks.duplicate_string import DuplicateString
from tasks.modular_arithmetic import ModularArithmetic
from tasks.parity_check import ParityCheck
from tasks.reverse_string import ReverseString
from tasks.task import END, NOTHING, SEPARATOR, Task, TaskError

TASKS: dict[str, Task] = {
    task.name: task
    for task in (
        ParityCheck(),
        CycleNavigation(),
        ReverseString(),
        DuplicateString(),
        ModularArithmetic(),
        BinaryAddition(),
    )
}


def find(text: str) -> Task:
    """The task called ``text``: a name or an unambiguous beginning of one, or ``path/to/file.py:Name``."""
    path, colon, name = text.rpartition(":")
    if colon and path.endswith(".py"):
        return from_file(Path(path), name)
    return TASKS[full_name(text, list(TASKS), "task")]


def full_name(text: str, names: list[str], kind: str) -> str:
    """The one of ``names`` that is, or begins with, ``text``; the nearest one is suggested if there is none."""
    if text in names:
        return text
    meant = [name for name in names if text and name.startswith(text.lower())]
    if len(meant) == 1:
        return meant[0]
    if meant:
        raise TaskError(f"{kind} {text!r} is ambiguous: {', '.join(meant)}")
    near = difflib.get_close_matches(text[:60].lower(), names, 1, 0.0) or names[:1]
    raise TaskError(f"unknown {kind} {text!r:.60}; did you mean {near[0]}? There are {', '.join(names)}")


def from_file(path: Path, name: str) -> Task:
    """The task called ``name`` in a Python file. The file is run: name only files that you trust."""
    if not path.is_file():
        raise TaskError(f"{path}: no such file")
    spec = importlib.util.spec_from_file_location(f"user_task_{path.stem}", path)
    module = importlib.util.module_from_spec(spec)
    try:
        sys.modules[spec.name] = module  # dataclasses look their own module up
        spec.loader.exec_module(module)
    except Exception as error:
        raise TaskError(f"{path} does not run: {_where(error, path)}") from None
    found = getattr(module, name, None)
    if found is None:
        own = [k for k, v in vars(module).items() if isinstance(v, type) and v.__module__ == spec.name]
        raise TaskError(f"{path} has no {name!r}; it has {', '.join(own) or 'no classes'}")
    try:
        task = found() if isinstance(found, type) else found
        if not getattr(task, "name", ""):
            task.name = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", name).lower()
        if task.name in TASKS:
            raise TaskError(f"it is called {task.name!r}, as one of the six: give it another name")
        check_task(task)
        task.source = f"{path}:{name}"
    except TaskError as error:
        raise TaskError(f"{path}:{name}: {error}") from None
    except Exception as error:
        raise TaskError(f"{path}:{name}: {_where(error, path)}") from None
    return task


def _where(error: Exception, path: Path) -> str:
    """An exception in one line, with the line of the user's file that it came from."""
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if Path(frame.filename) == path]
    lines += [error.lineno] if isinstance(error, SyntaxError) else []
    message = error.msg if isinstance(error, SyntaxError) else str(error)
    return f"{f'line {lines[-1]}: ' if lines else ''}{type(error).__name__}: {message}"


def check_task(task: Any) -> None:
    """Whether it is a task: its alphabet is one, and its samples are what ``solve`` says."""
    if not isinstance(task, Task):
        raise TaskError(f"it is a {type(task).__name__}; expected a subclass of tasks.Task")
    for attribute in ("symbols", "inputs", "outputs"):
        text = getattr(task, attribute)
        if not isinstance(text, str) or not text or len(set(text)) != len(text):
            raise TaskError(f"{attribute} is {text!r}; expected different characters")
        if not text.isprintable() or set(text) & {SEPARATOR, END, " "}:
            raise TaskError(f"{attribute} is {text!r}; expected printable characters other than | $ and space")
        if set(text) - set(task.symbols):
            raise TaskError(f"{attribute} is {text!r}; expected only characters of symbols, {task.symbols!r}")
    for length in (1, 2, 5, 12):
        x, y = task.sample(np.random.default_rng(length), length, 4)
        for kind, array, allowed in (("inputs", x, task.inputs), ("answers", y, task.outputs)):
            what = f"sample(rng, {length}, 4) gives {kind}"
            if not isinstance(array, np.ndarray) or array.ndim != 2 or len(array) != 4 or array.dtype.kind not in "iu":
                raise TaskError(f"{what} that are no integer array of 4 rows")
            known = [task.symbols.index(symbol) for symbol in allowed] + [NOTHING] * (kind == "answers")
            if not np.isin(array, known).all():
                raise TaskError(f"{what} with other tokens than those of {allowed!r}")
        if x.shape[1] != task.nearest_length(length):
            raise TaskError(f"sample(rng, {length}, 4) gives inputs of length {x.shape[1]}; expected {length}")
        for row, answer in zip(x, y, strict=True):
            text, given = task.decode(row), task.decode(answer)
            if not given or np.any(np.diff((answer != NOTHING).astype(int)) > 0):
                raise TaskError(f"the answer to {text!r} is empty or has a gap; expected symbols, then nothing")
            if task.solve(task.check(text)) != given:
                raise TaskError(f"sample answers {text!r} with {given!r}, solve with {task.solve(text)!r}")
