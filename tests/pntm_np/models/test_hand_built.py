"""P-NTM layers with weights set by hand that reverse and duplicate strings of length 1,000: the machine is right.

Input of a step: the current token, the previous token, and whether the separator has been seen. The first output is due
at the separator's step; what is read decides the token, and an empty cell means the end.
"""

from __future__ import annotations

import numpy as np
import pytest

from pntm_np.models import PNTM, Options

A, B, SEPARATOR, END = range(4)
NONE = 4  # in place of a previous token, at the first step
SURE = np.float32(1000)  # a difference of logits after which softmax and sigmoid are exactly 0 and 1
WIDTH = 4 + 5 + 1
SEEN = WIDTH - 1  # where the feature stands


def features(token: np.ndarray, previous: np.ndarray, seen: np.ndarray) -> np.ndarray:
    return np.concatenate([np.eye(4)[token], np.eye(5)[previous], seen[:, None]], axis=-1).astype(np.float32)


def row(always: float = 0.0, seen: float = 0.0, at_start: float = 0.0, **tokens: float) -> np.ndarray:
    """One row of a weight matrix: a number for every condition. Exactly one token is current, so "always" is possible."""
    w = np.zeros(WIDTH, np.float32)
    w[:4] = always
    w[SEEN], w[4 + NONE] = seen, at_start
    for name, value in tokens.items():
        w[{"a": A, "b": B}[name]] += value
    return w


def writes_token_until_the_separator(token: str) -> np.ndarray:
    """u = 1/2, so that g(u) = 1, for this token before the separator; otherwise so small that g(u) = 0."""
    return row(always=-SURE, seen=-SURE, **{token: float(SURE) + 0.5})


NOWHERE = row()
RIGHT_THEN_STAY = [NOWHERE, row(seen=2 * SURE), row(always=SURE)]  # left, stay, right
LEFT_THEN_STAY = [row(always=SURE), row(seen=2 * SURE), NOWHERE]
STAY_THEN_RIGHT = [NOWHERE, row(always=SURE), row(seen=2 * SURE)]
RIGHT_THEN_LEFT = [row(seen=2 * SURE), NOWHERE, row(always=SURE)]
ONE_BEHIND_THEN_LEFT = [row(seen=3 * SURE), row(at_start=2 * SURE), row(always=SURE)]
VALUES = [writes_token_until_the_separator("a"), writes_token_until_the_separator("b")]


def reverser() -> tuple[PNTM, dict]:
    """The write head lays the string out to the right; the read head follows one cell behind, then walks back."""
    W_o = np.zeros((WIDTH, 2), np.float32)
    W_o[A, 0] = W_o[B, 1] = 1
    weights = {
        "W_r": np.array([ONE_BEHIND_THEN_LEFT]),
        "W_w": np.array([RIGHT_THEN_STAY]),
        "W_u": np.array(VALUES),
        "W_m": np.eye(2, dtype=np.float32),
        "W_o": W_o,
    }
    return PNTM(1, 2), weights


def duplicator() -> tuple[PNTM, dict]:
    """Two tapes. The first is laid out to the right and read from its start, as soon as the separator comes. The second
    is laid out to the left, while its read head walks right; then that turns round, needs as long to come back to the
    start as the first copy takes, and goes on to the left, where it finds the string once more."""
    W_o = np.zeros((WIDTH, 8), np.float32)
    W_o[A, 0] = W_o[B, 1] = 1  # read head 1 in the first tape
    W_o[A, 4 + 2] = W_o[B, 4 + 3] = 1  # read head 2 in the second
    weights = {
        "W_r": np.array([STAY_THEN_RIGHT, RIGHT_THEN_LEFT]),
        "W_w": np.array([RIGHT_THEN_STAY, LEFT_THEN_STAY]),
        "W_u": np.array(VALUES + VALUES),
        "W_m": np.eye(4, dtype=np.float32),
        "W_o": W_o,
    }
    return PNTM(2, 4), weights


def decide(y: np.ndarray) -> np.ndarray:
    """The token that was read, or the end where the cell is empty."""
    return np.where(y[..., A] > 0.5, A, np.where(y[..., B] > 0.5, B, END))


def solve(layer: PNTM, weights: dict, strings: np.ndarray, cells: int, limit: int) -> np.ndarray:
    """Answers by the recurrent step, fed with its own outputs: (batch, limit) tokens."""
    batch = len(strings)
    state = layer.start(np, batch, WIDTH, cells, np.float32)
    previous, seen = np.full(batch, NONE), np.zeros(batch)
    answers = []
    for token in [*strings.T, np.full(batch, SEPARATOR)]:
        seen = np.maximum(seen, token == SEPARATOR)
        y, state = layer.step(weights, features(token, previous, seen), state, Options())
        previous = token
    for _ in range(limit):
        token = decide(y)
        answers.append(token)
        y, state = layer.step(weights, features(token, previous, seen), state, Options())
        previous = token
    return np.stack(answers, axis=1)


MACHINES = {"reverse": (reverser, lambda s: s[:, ::-1]), "duplicate": (duplicator, lambda s: np.concatenate([s, s], 1))}


@pytest.mark.parametrize("name", MACHINES)
@pytest.mark.parametrize("length", [1, 2, 3, 40, 1000])
def test_by_the_recurrent_step(name: str, length: int):
    make, rule = MACHINES[name]
    strings = np.random.default_rng(length).integers(0, 2, (4, length))
    expected = np.concatenate([rule(strings), np.full((4, 1), END)], axis=1)
    found = solve(*make(), strings, 2 * length + 8, expected.shape[1])
    assert np.array_equal(found, expected)


@pytest.mark.parametrize("name", MACHINES)
@pytest.mark.parametrize("form", ["sequential", "chunked"])
@pytest.mark.parametrize("length", [1, 7, 1000])
def test_in_parallel(name: str, form: str, length: int):
    """The whole sequence at once, the right answers as inputs: every next token is right."""
    make, rule = MACHINES[name]
    layer, weights = make()
    strings = np.random.default_rng(length).integers(0, 2, (2, length))
    answers = rule(strings)
    tokens = np.concatenate([strings, np.full((2, 1), SEPARATOR), answers], axis=1)
    previous = np.concatenate([np.full((2, 1), NONE), tokens[:, :-1]], axis=1)
    seen = np.cumsum(tokens == SEPARATOR, axis=1) > 0
    x = np.stack([features(tokens[:, t], previous[:, t], seen[:, t]) for t in range(tokens.shape[1])], axis=1)
    y, _ = layer.sequence(weights, x, layer.start(np, 2, WIDTH, 2 * length + 8, np.float32), Options(form=form))
    assert y.dtype == np.float32
    assert np.array_equal(decide(y[:, length:]), np.concatenate([answers, np.full((2, 1), END)], axis=1))
