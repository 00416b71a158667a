"""Answers to single texts, compared with the right answers; and facts and samples of tasks."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from pntm_np.evaluation.decode import Watch, decode
from pntm_np.evaluation.trained import Trained
from pntm_np.models import Options
from pntm_np.models.checkpoint import Model
from pntm_np.runtime.untrusted import Json
from tasks import NOTHING, Task


class Answer(NamedTuple):
    text: str
    answer: str
    expected: str | None  # None if the task is not known
    ended: bool  # whether the end token was written, if there is one
    differs_at: list[int]  # positions, counted from 1

    @property
    def right(self) -> bool | None:
        return None if self.expected is None else not self.differs_at and self.ended

    @property
    def verdict(self) -> str:
        if self.right is None:
            return ""
        if self.right:
            return "  right"
        if not self.differs_at:
            return "  WRONG: right so far, but the answer does not end there"
        places = ", ".join(map(str, self.differs_at[:5])) + (", .." if len(self.differs_at) > 5 else "")
        return f"  WRONG: {self.expected} is right; differs at {places}"


def answer(
    model: Model,
    task: Task,
    texts: list[str],
    memory_size: int,
    options: Options,
    answer_length: int | None = None,
    stop: Callable[[], bool] = lambda: False,
    watch: Watch = lambda token, before, after, logits: None,
) -> list[Answer]:
    """The model's answer to each text: as many tokens as the right answer has, or up to the end token.

    If the right answer is not known, the answer has ``answer_length`` symbols, or ends by itself.
    """
    found, end_token = [], task.end_token
    for text in texts:
        try:
            expected = task.solve(text)
        except NotImplementedError:
            expected = None
        limit = len(expected) + end_token if expected is not None else answer_length or longest_answer(text)
        prompt = np.append(task.encode(text), task.separator)
        tokens = decode(model, [prompt], np.array([limit]), task.end, memory_size, options, stop, watch)[0]
        tokens = tokens[tokens != NOTHING]
        ended = not end_token or bool(len(tokens) and tokens[-1] == task.end)
        given = task.decode(tokens[:-1] if end_token and ended else tokens)
        places = max(len(given), len(expected)) if expected is not None else 0
        if expected is not None and not ended:
            places = len(expected)  # the next token takes the place of the missing end
        differs = [k + 1 for k in range(places) if given[k : k + 1] != (expected or "")[k : k + 1]]
        found.append(Answer(text, given, expected, ended, differs))
    return found


def longest_answer(text: str) -> int:
    """The number of symbols after which an answer without an end is cut."""
    return 4 * len(text) + 16


class SymbolsOnly(Task):
    """A task without a rule: the user did not name its file, so only its symbols are known."""

    def __init__(self, name: str, symbols: str) -> None:
        self.name, self.symbols = name, symbols
        self.inputs = self.outputs = symbols


def symbols_only(trained: Trained) -> Task:
    return SymbolsOnly(trained.task, trained.symbols).with_end_token(trained.end_token)


def samples(task: Task, length: int, count: int, seed: int) -> list[tuple[str, str]]:
    x, y = task.sample(np.random.default_rng(seed), length, count)
    return [(task.decode(a), task.decode(b)) for a, b in zip(x, y, strict=True)]


def example(task: Task) -> str:
    return task.example or samples(task, 6, 1, 0)[0][0]


def facts(task: Task) -> Json:
    rule = (task.__doc__ or "").strip().splitlines()
    text = example(task)
    about = {name: getattr(task, name) for name in ("name", "symbols", "inputs", "outputs")}
    return about | {"rule": rule[0] if rule else "", "example": f"{text} -> {task.solve(text)}"}
