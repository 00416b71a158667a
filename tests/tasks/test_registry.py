"""Tasks by name, and tasks of the user's own."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from tasks import TASKS, Task, TaskError, check_task, find

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

    class Short(Wrong):
        def sample(self, rng, length, batch):
            x = rng.integers(0, 2, (batch, 1))
            return x, x

    with pytest.raises(TaskError, match="inputs of length 1; expected 2"):
        check_task(Short())

    class Floats(Wrong):
        def sample(self, rng, length, batch):
            x = np.zeros((batch, length))
            return x, x

    with pytest.raises(TaskError, match="no integer array of 4 rows"):
        check_task(Floats())

    class Foreign(Wrong):
        def sample(self, rng, length, batch):
            x = np.full((batch, length), 2)
            return x, x

    with pytest.raises(TaskError, match="other tokens than those of 'ab'"):
        check_task(Foreign())
