from __future__ import annotations

import numpy as np

from tasks.task import Task, TaskError

PLUS, MINUS, TIMES = 5, 6, 7  # their tokens; the token of a digit is the digit


class ModularArithmetic(Task):
    """The value of an expression modulo 5, step by step.

    Terms are products of digits. The answer has three symbols for every digit (the sign of its term, the product of
    that term so far, and the sum of the terms before it) and ends with the value of the whole expression.

    >>> ModularArithmetic().solve("1+2-4")
    '+10+21-434'
    >>> ModularArithmetic().solve("1*2+4")
    '+10+20+421'
    >>> ModularArithmetic().solve("0-4*2+3")
    '+00-40-30+320'
    """

    name = "modular-arithmetic"
    symbols = inputs = "01234+-*"
    outputs = "01234+-"
    example = "1+2-4"

    def check(self, text: str) -> str:
        super().check(text)
        for place, symbol in enumerate(text, 1):
            if symbol.isdigit() != (place % 2 == 1):
                expected = "a digit" if place % 2 else "one of + - *"
                raise TaskError(f"{self.name}: symbol {symbol!r} at position {place}; expected {expected}")
        if len(text) % 2 == 0:
            raise TaskError(f"{self.name}: the text ends with {text[-1]!r}; expected a digit after it")
        return text

    def nearest_length(self, length: int) -> int:
        return length + (length % 2 == 0)

    def solve(self, text: str) -> str:
        self.check(text)
        steps, sign, product, before = "", "+", 1, 0
        for operator, digit in zip("*" + text[1::2], text[::2], strict=True):
            if operator != "*":  # the term is complete
                before = (before + product if sign == "+" else before - product) % 5
                sign, product = operator, 1
            product = product * int(digit) % 5
            steps += f"{sign}{product}{before}"
        return steps + str((before + product if sign == "+" else before - product) % 5)

    def sample(self, rng: np.random.Generator, length: int, batch: int) -> tuple[np.ndarray, np.ndarray]:
        x = np.empty((batch, self.nearest_length(length)), np.int64)
        x[:, ::2] = rng.integers(0, 5, x[:, ::2].shape)
        x[:, 1::2] = rng.integers(PLUS, TIMES + 1, x[:, 1::2].shape)
        y = np.empty((batch, 3 * x[:, ::2].shape[1] + 1), np.int64)
        sign, product, before = np.full(batch, PLUS), np.ones(batch, np.int64), np.zeros(batch, np.int64)
        for k in range(x[:, ::2].shape[1]):
            if k:
                operator = x[:, 2 * k - 1]
                ends = operator != TIMES
                before = np.where(ends, (before + signed(sign, product)) % 5, before)
                sign, product = np.where(ends, operator, sign), np.where(ends, 1, product)
            product = product * x[:, 2 * k] % 5
            y[:, 3 * k], y[:, 3 * k + 1], y[:, 3 * k + 2] = sign, product, before
        y[:, -1] = (before + signed(sign, product)) % 5
        return x, y


def signed(sign: np.ndarray, product: np.ndarray) -> np.ndarray:
    return np.where(sign == PLUS, product, -product)
