"""What a task is: an alphabet, a rule, and samples that follow it.

A sample is written ``x | y``: the input, a separator, the answer. Tokens number the task's symbols in their order, then
``|``. In the variant made by ``with_end_token``, every answer ends with ``$``, which is the last token.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable
from typing import Self

import numpy as np

SEPARATOR, END = "|", "$"
NOTHING = -1  # the padding after the shorter answers of a batch


class TaskError(ValueError):
    """A text or a length that the task has no answer for, or an invalid task; the message says what is wrong."""


class Task:
    """Base class of all tasks. Your own task has to define ``symbols``, ``inputs``, ``outputs`` and ``solve``."""

    name: str = ""
    symbols: str = ""  # all of them, one character each
    inputs: str = ""  # those that occur in inputs
    outputs: str = ""  # those that occur in answers: a guess is right with probability 1 / len(outputs)
    example: str = ""  # an input for help texts
    source: str = ""  # path/to/file.py:Name, for a task from a user's file
    end_token: bool = False  # if False, an answer ends once it is as long as the right one

    def solve(self, text: str) -> str:
        """The right answer, computed in plain Python."""
        raise NotImplementedError(f"{type(self).__name__} has no solve(text)")

    def sample(self, rng: np.random.Generator, length: int, batch: int) -> tuple[np.ndarray, np.ndarray]:
        """Inputs (B, length) and answers (B, longest) as tokens, where shorter answers are padded with NOTHING.

        Inputs are uniform over all inputs of that length. The default draws arbitrary sequences of ``inputs`` and
        solves them one by one; override it if inputs have a grammar, or for speed.
        """
        allowed = self.encode(self.inputs)
        x = allowed[rng.integers(0, len(allowed), (batch, length))]
        return x, pad([self.encode(self.solve(self.decode(row))) for row in x])

    def check(self, text: str) -> str:
        """Return the text if it is a valid input; otherwise raise a TaskError that says what is wrong."""
        if not text:
            raise TaskError(f"{self.name}: the text is empty; expected symbols of {' '.join(self.inputs)}")
        for place, symbol in enumerate(text, 1):
            if symbol not in self.inputs:
                expected = " ".join(self.inputs)
                raise TaskError(f"{self.name}: symbol {symbol!r} at position {place}; expected only {expected}")
        return text

    def nearest_length(self, length: int) -> int:
        """The length of the inputs that ``sample`` makes when it is asked for ``length``."""
        return length

    def with_end_token(self, end_token: bool = True) -> Self:
        """The same task, in the variant whose answers end with ``$`` or in the one whose answers do not."""
        if end_token == self.end_token:
            return self
        variant = copy.copy(self)
        variant.end_token = end_token
        return variant

    @property
    def known(self) -> str:
        """The character that each token stands for."""
        return self.symbols + SEPARATOR + (END if self.end_token else "")

    @property
    def separator(self) -> int:
        return len(self.symbols)

    @property
    def end(self) -> int | None:
        return len(self.symbols) + 1 if self.end_token else None

    @property
    def vocabulary(self) -> int:
        return len(self.known)

    def encode(self, text: str) -> np.ndarray:
        """The tokens of a text of symbols, ``|``, and ``$`` if the task has an end token."""
        known = self.known
        try:
            return np.array([known.index(symbol) for symbol in text], np.int64)
        except ValueError:
            wrong = next(symbol for symbol in text if symbol not in known)
            raise TaskError(f"{self.name}: {wrong!r} is not one of its symbols {' '.join(self.symbols)}") from None

    def decode(self, tokens: Iterable[int]) -> str:
        known = self.known
        return "".join(known[token] for token in tokens if token != NOTHING)


def pad(rows: list[np.ndarray]) -> np.ndarray:
    """Rows of different lengths as one array, padded with NOTHING."""
    padded = np.full((len(rows), max((len(row) for row in rows), default=0)), NOTHING, np.int64)
    for row, tokens in zip(padded, rows, strict=True):
        row[: len(tokens)] = tokens
    return padded
