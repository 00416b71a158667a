"""The six rules, each beside a second implementation that shares nothing with the first."""

from __future__ import annotations

import collections
import doctest
import itertools
import re

import numpy as np
import pytest

import tasks
from tasks import NOTHING, TASKS, TaskError

NAMES = list(TASKS)


def parity(text: str) -> str:
    state, out = True, []
    for symbol in text:
        state ^= symbol == "a"
        out.append("1" if state else "0")
    return "".join(out)


def cycle(text: str) -> str:
    places = itertools.accumulate(((symbol == "i") - (symbol == "d") for symbol in text), initial=0)
    return "".join(str(place % 5) for place in list(places)[1:])


def modular(text: str) -> str:
    """By evaluating prefixes of the expression with Python's own arithmetic."""
    out, terms = "", re.split(r"(?=[+-])", text)
    for k, term in enumerate(terms):
        sign, factors = ("+", term) if k == 0 else (term[0], term[1:])
        before = eval("".join(terms[:k]) or "0")
        digits = factors.split("*")
        for j in range(len(digits)):
            out += f"{sign}{eval('*'.join(digits[: j + 1])) % 5}{before % 5}"
    return out + str(eval(text) % 5)


def addition(text: str) -> str:
    """By hand, column by column."""
    a, b = text.split("+")
    out, carry = "", 0
    for k in range(max(len(a), len(b)) + 1):
        column = int(a[k : k + 1] or 0) + int(b[k : k + 1] or 0) + carry
        out, carry = out + str(column % 2), column // 2
    return out.rstrip("0") or "0"


SECOND = {
    "parity-check": parity,
    "cycle-navigation": cycle,
    "reverse-string": lambda text: "".join(reversed(text)),
    "duplicate-string": lambda text: text + text,
    "modular-arithmetic": modular,
    "binary-addition": addition,
}


@pytest.mark.parametrize("name", NAMES)
def test_ten_thousand_samples_agree_with_solve_and_with_a_second_implementation(name: str):
    task, second, seen = TASKS[name], SECOND[name], 0
    for length in range(1, 121):
        x, y = task.sample(np.random.default_rng([7, length]), length, 84)
        assert x.shape == (84, task.nearest_length(length)) and x.dtype == y.dtype == np.int64
        for given, answer in zip(x, y, strict=True):
            text, found = task.decode(given), task.decode(answer)
            assert found == task.solve(text) == second(text), text
            assert not np.any(np.diff((answer == NOTHING).astype(int)) < 0), "symbols after the end"
            assert set(text) <= set(task.inputs) and set(found) <= set(task.outputs)
            seen += 1
    assert seen >= 10_000


@pytest.mark.parametrize("name", NAMES)
def test_long_samples_agree_with_solve(name: str):
    """Results are reported at 500 and 1,000 symbols."""
    task, second = TASKS[name], SECOND[name]
    for length in (121, 128, 129, 255, 256, 500, 1000):
        x, y = task.sample(np.random.default_rng([8, length]), length, 24)
        assert x.shape == (24, task.nearest_length(length))
        for given, answer in zip(x, y, strict=True):
            text = task.decode(given)
            assert task.decode(answer) == task.solve(text) == second(text), text


@pytest.mark.parametrize(
    ("name", "text", "answer"),
    [
        ("parity-check", "aaabba", "010001"),
        ("cycle-navigation", "siidis", "012122"),
        ("reverse-string", "aabba", "abbaa"),
        ("duplicate-string", "aabba", "aabbaaabba"),
        ("modular-arithmetic", "1+2-4", "+10+21-434"),
        ("modular-arithmetic", "1*2+4", "+10+20+421"),
        ("modular-arithmetic", "0-4*2+3", "+00-40-30+320"),
        ("binary-addition", "01101+101", "11011"),
        ("binary-addition", "0+0", "0"),
        ("binary-addition", "111+1000", "0001"),
    ],
)
def test_the_papers_examples(name: str, text: str, answer: str):
    assert TASKS[name].solve(text) == answer


@pytest.mark.parametrize("name", NAMES)
def test_worked_examples_in_the_docstring(name: str):
    module = __import__(f"tasks.{name.replace('-', '_')}", fromlist=["*"])
    found = doctest.testmod(module)
    assert found.attempted >= 2 and not found.failed


def all_inputs(task: tasks.Task, length: int) -> set[str]:
    def is_input(text: str) -> bool:
        try:
            return bool(task.check(text))
        except TaskError:
            return False

    return set(filter(is_input, map("".join, itertools.product(task.inputs, repeat=length))))


@pytest.mark.parametrize("name", NAMES)
def test_inputs_of_a_length_are_equally_likely(name: str):
    task, draws = TASKS[name], 60_000
    for length in (3, 5) if name != "modular-arithmetic" else (3,):
        expected = all_inputs(task, length)
        x, _ = task.sample(np.random.default_rng(5), length, draws)
        counts = collections.Counter(map(task.decode, x))
        assert set(counts) == expected, "an input never comes, or what comes is none"
        mean = draws / len(expected)
        chi_square = sum((n - mean) ** 2 / mean for n in counts.values())
        # mean k and deviation sqrt(2k) for k degrees of freedom; five deviations, for a fixed seed
        k = len(expected) - 1
        assert chi_square < k + 5 * np.sqrt(2 * k)


def test_lengths_that_have_no_input_become_the_next():
    assert [TASKS["modular-arithmetic"].nearest_length(n) for n in (1, 2, 3, 40)] == [1, 3, 3, 41]
    assert [TASKS["binary-addition"].nearest_length(n) for n in (1, 2, 3, 40)] == [3, 3, 3, 40]


BAD_TEXTS = {
    "parity-check": {"": "is empty", "abc": "'c' at position 3", "ab0": "'0' at position 3"},
    "cycle-navigation": {"s1": "'1' at position 2"},
    "reverse-string": {"a b": "' ' at position 2"},
    "duplicate-string": {"a|b": "'|' at position 2"},
    "modular-arithmetic": {"1+": "ends with '+'", "12": "position 2; expected one of + - *", "+1": "expected a digit"},
    "binary-addition": {"11": "not a sum", "+1": "not a sum", "1+": "not a sum", "1+1+1": "not a sum", "1+2": "'2'"},
}


@pytest.mark.parametrize("name", NAMES)
def test_texts_that_are_no_input(name: str):
    for text, words in BAD_TEXTS[name].items():
        with pytest.raises(TaskError, match=re.escape(words)) as caught:
            TASKS[name].solve(text)
        assert str(caught.value).startswith(name)


@pytest.mark.parametrize("name", NAMES)
def test_a_batch_predicts_the_answer_and_nothing_else(name: str):
    for end_token, length in itertools.product((True, False), (1, 2, 7)):
        task = TASKS[name].with_end_token(end_token)
        found = tasks.batch(task, np.random.default_rng(1), length, 9)
        assert all(part.shape == found.tokens.shape for part in found)
        for tokens, targets, mask in zip(*found, strict=True):
            read = task.decode(tokens)
            text = read[: read.index("|")]
            answer = task.solve(text) + ("$" if end_token else "")
            assert task.decode(targets[mask]) == answer
            first = int(np.argmax(mask))
            assert mask[first : first + mask.sum()].all(), "the answer and its end are asked for without a gap"
            assert tokens[first] == task.separator, "the separator asks for the first symbol"
            assert (text + "|" + answer).startswith(read[: first + mask.sum()])
            assert np.array_equal(tokens[1:], targets[:-1])
        assert found.mask[:, -1].any(), "a column that nobody needs"


def test_tokens_are_symbols_then_separator_then_an_end_if_there_is_one():
    task = TASKS["parity-check"]
    assert task.encode("ab01|").tolist() == [0, 1, 2, 3, 4] and task.vocabulary == 5 and task.end is None
    with pytest.raises(TaskError, match=r"'\$' is not one of its symbols"):
        task.encode("a$")
    ending = task.with_end_token()
    assert not task.end_token and task.vocabulary == 5, "a reading of its own"
    assert ending.encode("ab01|$").tolist() == [0, 1, 2, 3, 4, 5] and ending.vocabulary == 6 and ending.end == 5
    assert ending.decode(np.array([0, 5, NOTHING])) == "a$" and ending.solve("ab") == task.solve("ab")
    assert task.with_end_token(False) is task and ending.with_end_token() is ending
    with pytest.raises(TaskError, match="'x' is not one of its symbols"):
        task.encode("ax")
