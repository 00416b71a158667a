from __future__ import annotations

import numpy as np

from tasks.task import NOTHING, Task, TaskError

PLUS = 2  # the token of +; the tokens of the bits are 0 and 1


class BinaryAddition(Task):
    """The sum of two binary numbers, lowest bit first. It is written without leading zeros; zero is ``0``.

    >>> BinaryAddition().solve("01101+101")
    '11011'
    >>> BinaryAddition().solve("00+000")
    '0'
    """

    name = "binary-addition"
    symbols = inputs = "01+"
    outputs = "01"
    example = "01101+101"

    def check(self, text: str) -> str:
        super().check(text)
        if text.count("+") != 1 or text[0] == "+" or text[-1] == "+":
            raise TaskError(f"{self.name}: {text!r:.60} is not a sum; expected bits, one +, bits")
        return text

    def nearest_length(self, length: int) -> int:
        return max(length, 3)  # each operand has at least one bit

    def solve(self, text: str) -> str:
        first, second = (int(bits[::-1], 2) for bits in self.check(text).split("+"))
        return f"{first + second:b}"[::-1]

    def sample(self, rng: np.random.Generator, length: int, batch: int) -> tuple[np.ndarray, np.ndarray]:
        length = self.nearest_length(length)
        x = rng.integers(0, 2, (batch, length))
        plus = rng.integers(1, length - 1, (batch, 1))  # wherever it is, length - 1 bits remain: inputs are uniform
        np.put_along_axis(x, plus, PLUS, axis=1)

        places = np.arange(length)  # one more than the longest sum has
        first = np.where(places < plus, x, 0)
        second = np.take_along_axis(x, np.minimum(plus + 1 + places, length - 1), axis=1)
        second = np.where(plus + 1 + places < length, second, 0)
        y, carry = first + second, np.zeros(batch, np.int64)
        for k in places:
            y[:, k] += carry
            carry = y[:, k] >> 1
        y &= 1
        digits = np.maximum(length - np.argmax(y[:, ::-1], axis=1), 1)
        digits[~y.any(axis=1)] = 1
        y[places >= digits[:, None]] = NOTHING
        return x, y[:, : digits.max()]
