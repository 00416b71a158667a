"""Every planted bug still applies: its text is there once, it is a change that Python can read, its tests exist."""

from __future__ import annotations

import ast
import functools
from collections import Counter

import pytest

from tests.mutants.plant import ROOT, chosen, narrowed, planted
from tests.mutants.table import BUGS, Bug

AREAS = dict.fromkeys(bug.area for bug in BUGS)


@functools.cache
def names_in(file: str) -> set[str]:
    """The tests of a file, those of a class as Class::test."""
    found = set()
    for node in ast.parse((ROOT / file).read_text()).body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            found.add(node.name)
            found |= {f"{node.name}::{inner.name}" for inner in node.body if isinstance(inner, ast.FunctionDef)}
    return found


@pytest.mark.parametrize("area", AREAS)
def test_every_bug_applies(area: str):
    for bug in BUGS:
        if bug.area == area:
            check(bug)


def check(bug: Bug) -> None:
    content = planted(bug, ROOT)
    assert content != (ROOT / bug.file).read_text(), bug.effect
    if bug.file.endswith(".py"):
        ast.parse(content)
    assert bug.tests, bug.effect
    for test in bug.tests:
        file, _, name = test.partition("::")
        assert (ROOT / file).is_file() and file.startswith("tests/"), test
        assert not name or name.partition("[")[0] in names_in(file), test


def test_there_are_enough_of_them_and_no_two_are_the_same():
    assert len(BUGS) >= 120
    assert max(Counter((bug.file, bug.text, bug.becomes) for bug in BUGS).values()) == 1
    assert max(Counter(bug.effect for bug in BUGS).values()) == 1


def test_some_can_be_chosen():
    assert chosen([]) == list(BUGS) and {bug.area for bug in chosen(["tasks"])} == {"tasks"}
    assert chosen(["autodiff/backward.py"]) == [bug for bug in BUGS if bug.file == "autodiff/backward.py"]
    assert chosen(["no such thing"]) == []
    assert narrowed(["a.py::x", "b.py::y", "a.py", "b.py::y"]) == ["b.py::y", "a.py"]
