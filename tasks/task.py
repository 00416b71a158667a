"""What a task is: an alphabet, a rule, and samples of it.

A sample is written ``x | y``: the input, a separator, the answer. A task's tokens are its symbols in their order, then
``|``. In the other reading, ``with_end_token``, an answer ends with ``$``, the last token.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable
from typing import Self

import numpy as np

SEPARATOR, END = "|", "$"
NOTHING = -1  # in an array of answers: after the end of one that is shorter than the longest


class TaskError(ValueError):
    """A text or a length that the task has no answer for, or a task that is none; the message says what is wrong."""


class Task:
    """Base of all tasks. One of your own needs ``symbols``, ``inputs``, ``outputs`` and ``solve``."""

    name: str = ""
    symbols: str = ""  # all of them, one character each
    inputs: str = ""  # those that an input is made of
    outputs: str = ""  # those that an answer is made of: chance is 1 / len(outputs) for each symbol
    example: str = ""  # an input to show
    source: str = ""  # of a task in a file of the user's own: path/to/file.py:Name
    end_token: bool = False  # whether an answer ends with $, or where it has as many symbols as the right one

    def solve(self, text: str) -> str:
        """The right answer, by plain Python."""
        raise NotImplementedError(f"{type(self).__name__} has no solve(text)")

    def sample(self, rng: np.random.Generator, length: int, batch: int) -> tuple[np.ndarray, np.ndarray]:
        """Inputs (B, length) and answers (B, longest), as tokens; after the end of an answer stands NOTHING.

        Inputs are uniform over all inputs of that length. This one draws any sequence of ``inputs`` and solves them
        one by one; a task whose inputs have a form, or that is to be fast, has its own.
        """
        allowed = self.encode(self.inputs)
        x = allowed[rng.integers(0, len(allowed), (batch, length))]
        return x, pad([self.encode(self.solve(self.decode(row))) for row in x])

    def check(self, text: str) -> str:
        """The text itself, if it is an input; what is wrong with it otherwise."""
        if not text:
            raise TaskError(f"{self.name}: the text is empty; expected symbols of {' '.join(self.inputs)}")
        for place, symbol in enumerate(text, 1):
            if symbol not in self.inputs:
                expected = " ".join(self.inputs)
                raise TaskError(f"{self.name}: symbol {symbol!r} at place {place}; expected only {expected}")
        return text

    def nearest_length(self, length: int) -> int:
        """The length of the inputs that ``sample`` makes when asked for ``length``."""
        return length

    def with_end_token(self, end_token: bool = True) -> Self:
        """The same task in the reading in which answers end with ``$``, or in the one in which they do not."""
        if end_token == self.end_token:
            return self
        reading = copy.copy(self)
        reading.end_token = end_token
        return reading

    # between text and tokens
    @property
    def known(self) -> str:
        """What stands for each token."""
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
        """Tokens of a text made of symbols, ``|``, and ``$`` if there is an end token."""
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
    """Rows of different lengths as one array, with NOTHING at their ends."""
    padded = np.full((len(rows), max((len(row) for row in rows), default=0)), NOTHING, np.int64)
    for row, tokens in zip(padded, rows, strict=True):
        row[: len(tokens)] = tokens
    return padded
