"""A P-NTM layer with weights set by hand that adds binary numbers of a thousand symbols: what the paper's task asks for.

Input of a step: the current token, and whether it is the first one, whether + and | have been seen. Write head 1 lays
the first operand out to the right and parks when + comes; write head 2 waits for + and lays the second one out over the
same cells, in its own share. Read head 1 stands on cell 0 until |, and then walks: at cell k it sees the bits a_k and
b_k. Read head 2 is one cell behind it, and sees those before. With them the bit that was answered last tells the carry:
a sum bit s = a + b + c mod 2 has carried exactly if a + b - s >= 1.
"""

from __future__ import annotations

import numpy as np
import pytest

from pntm_np.models import PNTM, Options
from tasks import TASKS

TASK = TASKS["binary-addition"]
ZERO, ONE, PLUS, SEPARATOR = range(4)
SURE = np.float32(1000)  # a difference of logits after which softmax is exactly 0 and 1
FIRST, AFTER_PLUS, AFTER_SEPARATOR, WIDTH = 4, 5, 6, 7


def features(tokens: np.ndarray) -> np.ndarray:
    """(B, T) tokens -> (B, T, WIDTH): what a minGRU can know, for its gates can be open at a token and closed else."""
    seen = [np.cumsum(tokens == symbol, axis=1) > 0 for symbol in (PLUS, SEPARATOR)]
    first = np.zeros(tokens.shape, bool)
    first[:, 0] = True
    return np.concatenate([np.eye(4)[tokens], np.stack([first, *seen], axis=-1)], axis=-1).astype(np.float32)


def row(always: float = 0.0, **conditions: float) -> np.ndarray:
    """One row of a weight matrix: a number for every condition. Exactly one token is current, so "always" is possible."""
    w, places = np.zeros(WIDTH, np.float32), {"first": FIRST, "plus": AFTER_PLUS, "separator": AFTER_SEPARATOR}
    w[:4] = always
    for name, value in conditions.items():
        w[places[name]] = value
    return w


NOWHERE = row()
RIGHT_UNTIL_PLUS = [NOWHERE, row(plus=2 * SURE), row(always=SURE)]  # left, stay, right
WAIT = row(always=SURE)
# where + itself stands the head still waits: the first bit after it goes to cell 0
RIGHT_BETWEEN_PLUS_AND_SEPARATOR = [NOWHERE, WAIT + row(separator=4 * SURE), row(plus=2 * SURE)]
RIGHT_BETWEEN_PLUS_AND_SEPARATOR[1][PLUS] += 4 * SURE
RIGHT_AFTER_SEPARATOR = [NOWHERE, WAIT, row(separator=2 * SURE)]
ONE_BEHIND = [row(first=2 * SURE), WAIT, row(separator=2 * SURE)]


def adder() -> tuple[PNTM, dict]:
    bit = np.full(WIDTH, 0, np.float32)
    bit[:4] = -SURE
    bit[ONE] = 0.5  # g(1/2) = 1, g(-1000) = 0
    before_plus, after_plus = bit.copy(), bit.copy()
    before_plus[AFTER_PLUS] = -2 * SURE
    after_plus[AFTER_PLUS], after_plus[AFTER_SEPARATOR] = SURE, -3 * SURE
    after_plus[:4] -= SURE
    W_o = np.zeros((WIDTH, 4), np.float32)
    W_o[:4] = np.eye(4)  # a_k, b_k, a_{k-1}, b_{k-1}
    weights = {
        "W_r": np.array([RIGHT_AFTER_SEPARATOR, ONE_BEHIND]),
        "W_w": np.array([RIGHT_UNTIL_PLUS, RIGHT_BETWEEN_PLUS_AND_SEPARATOR]),
        "W_u": np.array([before_plus, after_plus]),
        "W_m": np.eye(2, dtype=np.float32),
        "W_o": W_o,
    }
    return PNTM(2, 2), weights


def decide(y: np.ndarray, token: np.ndarray) -> np.ndarray:
    """The next bit of the sum, from what was read and the token that is read now, the last bit if it is one."""
    a, b, a_before, b_before = np.moveaxis(y[..., :4], -1, 0)
    carry = a_before + b_before - (token == ONE) >= 1
    return (np.rint(a + b).astype(int) + carry) % 2


def drawn(length: int) -> tuple[np.ndarray, np.ndarray]:
    return TASK.sample(np.random.default_rng(length), length, 8)


@pytest.mark.parametrize("length", [3, 4, 5, 12, 41, 120, 1000])
def test_by_the_recurrent_step(length: int):
    x, answers = drawn(length)
    (layer, weights), batch = adder(), len(x)
    state = layer.start(np, batch, WIDTH, 2 * length + 8, np.float32)
    given = np.concatenate([x, np.full((batch, 1), SEPARATOR)], axis=1)
    for now in range(given.shape[1] + answers.shape[1] - 1):
        y, state = layer.step(weights, features(given)[:, now], state, Options())
        if now >= length:  # it reads what it wrote itself
            given = np.concatenate([given, decide(y, given[:, now])[:, None]], axis=1)
    found = given[:, length + 1 :]
    assert np.array_equal(np.where(answers >= 0, found, -1), answers)


@pytest.mark.parametrize("form", ["sequential", "chunked"])
@pytest.mark.parametrize("length", [3, 7, 1000])
def test_in_parallel(form: str, length: int):
    """The whole sequence at once, the right answers as inputs: every next bit is right."""
    x, answers = drawn(length)
    layer, weights = adder()
    tokens = np.concatenate([x, np.full((len(x), 1), SEPARATOR), np.maximum(answers, 0)], axis=1)
    start = layer.start(np, len(x), WIDTH, 2 * length + 8, np.float32)
    y, _ = layer.sequence(weights, features(tokens), start, Options(form=form))
    found = decide(y, tokens)[:, length:-1]
    assert y.dtype == np.float32 and np.array_equal(np.where(answers >= 0, found, -1), answers)
