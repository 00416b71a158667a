"""Tasks by name, and tasks of the user's own."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from tasks import TASKS, Task, TaskError, check_task, find, full_name

OWN = """
from tasks import Task

class Shout(Task):
    '''Every a as b, every b as a.'''
    symbols = inputs = outputs = "ab"

    def solve(self, text):
        return self.check(text).translate(str.maketrans("ab", "ba"))
"""


def test_names_and_beginnings_of_names():
    assert find("parity-check") is find("parity") is find("p") is find("PARITY") is TASKS["parity-check"]
    assert find("reverse").name == "reverse-string"
    with pytest.raises(TaskError, match="unknown task 'partiy'; did you mean parity-check"):
        find("partiy")
    with pytest.raises(TaskError, match="unknown task ''"):
        find("")


def test_a_beginning_that_is_ambiguous():
    names = ["transformer-nope", "transformer-rope", "lstm", "lstm-wide"]
    with pytest.raises(TaskError, match="model 'trans' is ambiguous: transformer-nope, transformer-rope"):
        full_name("trans", names, "model")
    assert full_name("transformer-r", names, "model") == "transformer-rope"
    assert full_name("lstm", names, "model") == "lstm", "a whole name is never ambiguous"


def test_a_task_of_ones_own(tmp_path: Path):
    (tmp_path / "mine.py").write_text(OWN)
    task = find(f"{tmp_path}/mine.py:Shout")
    assert task.name == "shout" and task.solve("aab") == "bba"
    x, y = task.sample(np.random.default_rng(0), 5, 3)
    assert x.shape == y.shape == (3, 5) and np.array_equal(x, 1 - y)


def own(tmp_path: Path, *changes: tuple[str, str], name: str = "Shout") -> str:
    text = OWN
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    (tmp_path / "mine.py").write_text(text)
    return f"{tmp_path}/mine.py:{name}"


SAMPLE = "        return self.check"
BAD = {
    "no such class": ([], "Shoot", "has no 'Shoot'; it has Shout"),
    "a syntax error": ([("class", "clas")], "Shout", "line 4: SyntaxError"),
    "an exception": ([("from tasks import Task", "from tasks import Task\n1 / 0")], "Shout", "line 3: ZeroDivisionError"),
    "not a task": ([("(Task)", "")], "Shout", "expected a subclass of tasks.Task"),
    "a double symbol": ([('"ab"\n', '"aba"\n')], "Shout", "expected different characters"),
    "no symbols": ([('"ab"\n', '""\n')], "Shout", "expected different characters"),
    "a separator as symbol": ([('"ab"\n', '"a|"\n')], "Shout", "other than | $ and space"),
    "foreign outputs": ([("outputs = ", "outputs = 'xy'; symbols = inputs = ")], "Shout", "outputs is 'xy'"),
    "no rule": ([("def solve", "def resolve")], "Shout", "has no solve(text)"),
    "a failing rule": ([(SAMPLE, "        text[99]\n" + SAMPLE)], "Shout", "line 9: IndexError"),
    "an empty answer": ([("return self.check", "return ''\n        self.check")], "Shout", "is empty or has a gap"),
    "a chance rule": ([(SAMPLE, "        import random\n        return random.choice('ab') * 40\n" + SAMPLE)], "Shout", "sample answers"),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_what_is_no_task(case: str, tmp_path: Path):
    changes, name, words = BAD[case]
    with pytest.raises(TaskError, match=re.escape(words)) as caught:
        find(own(tmp_path, *changes, name=name))
    assert "mine.py" in str(caught.value) and "\n" not in str(caught.value)


def test_no_such_file(tmp_path: Path):
    with pytest.raises(TaskError, match="no such file"):
        find(f"{tmp_path}/none.py:X")


LATE = """
    def sample(self, rng, length, batch):
        x = rng.integers(0, 2, (batch, length))
        if length < 20:
            return x, 1 - x
        return LATER
"""


@pytest.mark.parametrize(
    ("later", "words"),
    [
        ("1 / 0", "line 15: ZeroDivisionError"),
        ("x, None", "no integer array of 8 rows"),
        ("x[:4], x[:4]", "no integer array of 8 rows"),
        ("x * 1.0, x", "no integer array"),
        ("x, x + 1", "tokens other than those of 'ab'"),
        ("x, x - 1", "is empty or has a gap"),
        ("x[:, :7], x", "have length 7"),
        ("x, x[:, :0]", "is empty or has a gap"),
        ("x, 0 * x - (x[0] * 0 + range(length) == 3)", "is empty or has a gap"),
        ("exit(0)", "SystemExit"),
    ],
)
def test_a_task_that_goes_wrong_later(later: str, words: str, tmp_path: Path):
    """What passes at first is checked every time."""
    (tmp_path / "mine.py").write_text(OWN + LATE.replace("LATER", later))
    task = find(f"{tmp_path}/mine.py:Shout")
    task.sample(np.random.default_rng(0), 5, 8)
    with pytest.raises(TaskError, match=re.escape(words)):
        task.sample(np.random.default_rng(0), 30, 8)


@pytest.mark.parametrize("answer", ("1 / 0", "None", "''", "'xyz'", "exit(0)"))
def test_a_rule_that_goes_wrong_later(answer: str, tmp_path: Path):
    changed = OWN.replace(
        "        return self", f"        if len(text) > 20:\n            return {answer}\n        return self"
    )
    (tmp_path / "mine.py").write_text(changed)
    task = find(f"{tmp_path}/mine.py:Shout")
    assert task.solve("ab") == "ba"
    with pytest.raises(TaskError, match="shout: solve"):
        task.solve("ab" * 20)


@pytest.mark.parametrize("name", ("a\\0b", "../x", "a b", "", "x" * 200, "parity-check", "a\\nb"))
def test_names_that_a_task_cannot_have(name: str, tmp_path: Path):
    (tmp_path / "mine.py").write_text(OWN.replace("    symbols", f'    name = "{name}"\n    symbols'))
    if name == "":
        assert find(f"{tmp_path}/mine.py:Shout").name == "shout"
    else:
        with pytest.raises(TaskError, match=r"its name is|one of the six"):
            find(f"{tmp_path}/mine.py:Shout")


def test_the_line_of_an_error_also_for_a_relative_path(tmp_path: Path, monkeypatch):
    (tmp_path / "mine.py").write_text("x = 1\nraise ValueError('one\\ntwo')\n")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(TaskError, match=r"line 2: ValueError: one$"):
        find("mine.py:Shout")
    (tmp_path / "mine.py").write_bytes(b"x = '\0'")
    with pytest.raises(TaskError, match="does not run"):
        find("mine.py:Shout")
    (tmp_path / "mine.py").write_text("raise SystemExit(0)")
    with pytest.raises(TaskError, match="SystemExit"):
        find("mine.py:Shout")


def test_samples_that_do_not_fit_their_own_rule():
    class Wrong(Task):
        name, symbols, inputs, outputs = "wrong", "ab", "ab", "ab"

        def solve(self, text: str) -> str:
            return text

        def sample(self, rng, length, batch):
            x = rng.integers(0, 2, (batch, length))
            return x, 1 - x

    with pytest.raises(TaskError, match=r"sample answers '.*' with"):
        check_task(Wrong())
