"""Find tasks by name: the six of the paper, and those that users define in files of their own."""

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

SIX = (ParityCheck(), CycleNavigation(), ReverseString(), DuplicateString(), ModularArithmetic(), BinaryAddition())
TASKS: dict[str, Task] = {task.name: task for task in SIX}


def find(text: str) -> Task:
    """The task that ``text`` names: a name, an unambiguous prefix of one, or ``path/to/file.py:Name``."""
    path, colon, name = text.rpartition(":")
    if colon and path.endswith(".py"):
        return from_file(Path(path), name)
    return TASKS[full_name(text, list(TASKS), "task")]


def full_name(text: str, names: list[str], kind: str) -> str:
    """The name that equals ``text`` or is the only one to begin with it; if there is none, the error suggests one."""
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
    """The task called ``name`` in a Python file. The file is executed: name only files that you trust."""
    if not path.is_file():
        raise TaskError(f"{path}: no such file")
    spec = importlib.util.spec_from_file_location(f"user_task_{path.stem}", path)
    assert spec and spec.loader  # true for every path that ends with .py
    module = importlib.util.module_from_spec(spec)
    try:
        sys.modules[spec.name] = module  # dataclasses look up the module that they are defined in
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        raise TaskError(f"{path} does not run: {where(error, path)}") from None
    found = getattr(module, name, None)
    if found is None:
        own = [k for k, v in vars(module).items() if isinstance(v, type) and v.__module__ == spec.name]
        raise TaskError(f"{path} has no {name!r}; it has {', '.join(own) or 'no classes'}")
    try:
        task = found() if isinstance(found, type) else found
        if not isinstance(task, Task):
            raise TaskError(f"it is a {type(task).__name__}; expected a subclass of tasks.Task")
        task.name = task.name or re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", name).lower()
        if task.name in TASKS:
            raise TaskError(f"it is called {task.name!r}, like one of the six: give it another name")
        task.source = f"{path}:{name}"
        checked = Checked(task, path)
        check_task(checked)
    except TaskError as error:
        raise TaskError(f"{path}:{name}: {error}") from None
    except (Exception, SystemExit) as error:
        raise TaskError(f"{path}:{name}: {where(error, path)}") from None
    return checked


def where(error: BaseException, path: Path) -> str:
    """Describe an exception in one line, with the line number in the user's file where it was raised."""
    frames = traceback.extract_tb(error.__traceback__)
    lines = [frame.lineno for frame in frames if Path(frame.filename).resolve() == path.resolve()]
    lines += [error.lineno] if isinstance(error, SyntaxError) else []
    message = error.msg if isinstance(error, SyntaxError) else str(error)
    at = f"line {lines[-1]}: " if lines and lines[-1] is not None else ""
    return f"{at}{type(error).__name__}: {(message.splitlines() or [''])[0]}"


class Checked(Task):
    """A user's own task, which is not trusted: everything that it returns is checked, every time."""

    def __init__(self, task: Task, path: Path) -> None:
        self.task, self.path = task, path
        self.name, self.symbols, self.source = task.name, task.symbols, task.source
        self.inputs, self.outputs, self.example = task.inputs, task.outputs, task.example
        self.__doc__ = type(task).__doc__

    def ask(self, method: str, *args: Any) -> Any:
        try:
            return getattr(self.task, method)(*args)
        except TaskError:
            raise
        except (Exception, SystemExit) as error:
            raise TaskError(f"{self.name}: {method} fails: {where(error, self.path)}") from None

    def check(self, text: str) -> str:
        return self.ask("check", text)

    def solve(self, text: str) -> str:
        answer = self.ask("solve", text)
        if not isinstance(answer, str) or not answer or set(answer) - set(self.outputs):
            raise TaskError(f"{self.name}: solve({text!r:.60}) is {answer!r:.60}; expected symbols of {self.outputs!r}")
        return answer

    def nearest_length(self, length: int) -> int:
        return self.ask("nearest_length", length)

    def sample(self, rng: np.random.Generator, length: int, batch: int) -> tuple[np.ndarray, np.ndarray]:
        x, y = self.ask("sample", rng, length, batch)
        for kind, array, allowed in (("inputs", x, self.inputs), ("answers", y, self.outputs)):
            what = f"{self.name}: sample(rng, {length}, {batch}) returns {kind}"
            shaped = isinstance(array, np.ndarray) and array.ndim == 2 and len(array) == batch
            if not shaped or array.dtype.kind not in "iu":
                raise TaskError(f"{what} that are no integer array of {batch} rows")
            known = [self.symbols.index(symbol) for symbol in allowed] + [NOTHING] * (kind == "answers")
            if not np.isin(array, known).all():
                raise TaskError(f"{what} with tokens other than those of {allowed!r}")
        if x.shape[1] != self.nearest_length(length):
            raise TaskError(f"{self.name}: inputs for length {length} have length {x.shape[1]}")
        if np.any(y[:, :1] == NOTHING) or not y.shape[1] or np.any(np.diff((y != NOTHING).astype(int)) > 0):
            raise TaskError(f"{self.name}: an answer is empty or has a gap; expected symbols, then padding")
        return x, y


NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,79}")


def check_name(name: object) -> None:
    """Refuse names that cannot appear in directories, files and messages."""
    if not isinstance(name, str) or not NAME.fullmatch(name):
        raise TaskError(f"its name is {name!r:.60}; expected letters, digits and . _ - only")


def check_symbols(symbols: object, what: str = "symbols") -> None:
    if not isinstance(symbols, str) or not symbols or len(set(symbols)) != len(symbols):
        raise TaskError(f"{what} is {symbols!r:.60}; expected different characters")
    if not symbols.isprintable() or set(symbols) & {SEPARATOR, END, " "}:
        raise TaskError(f"{what} is {symbols!r:.60}; expected printable characters other than | $ and space")


def check_task(task: Task) -> None:
    """Refuse a task with an invalid alphabet, or whose samples disagree with ``solve``."""
    check_name(task.name)
    for attribute in ("symbols", "inputs", "outputs"):
        text = getattr(task, attribute)
        check_symbols(text, attribute)
        if set(text) - set(task.symbols):
            raise TaskError(f"{attribute} is {text!r:.60}; expected only characters of symbols, {task.symbols!r:.60}")
    for length in (1, 2, 5, 12):
        x, y = task.sample(np.random.default_rng(length), length, 4)
        for row, answer in zip(x, y, strict=True):
            text, given = task.decode(row), task.decode(answer)
            if task.solve(task.check(text)) != given:
                raise TaskError(f"sample answers {text!r} with {given!r}, solve with {task.solve(text)!r}")
