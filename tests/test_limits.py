"""A test that could wait for ever has a limit of its own; and the limit works."""

from __future__ import annotations

import ast
import os
from pathlib import Path

import pytest

from tests.limits import Hung, limit

TESTS = Path(__file__).parent
WAITING = ("communicate", "wait", "join")  # of processes, threads and events
PROCESSES = ("run", "call", "check_call", "check_output")
BY_NUMBER = ("waitpid", "waitid", "wait3", "wait4")


def unlimited(tree: ast.AST) -> list[str]:
    """Calls that may wait for ever."""
    inside = {
        call
        for block in ast.walk(tree)
        if isinstance(block, ast.With) and any(ast.unparse(item).startswith("limit(") for item in block.items)
        for call in ast.walk(block)
    }
    found = []
    for call in ast.walk(tree):
        if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute) or call in inside:
            continue
        owner, name = ast.unparse(call.func.value), call.func.attr
        limited = any(word.arg in ("timeout", None) for word in call.keywords)  # None: a dict of them
        waits = (name in WAITING and not call.args) or (owner == "subprocess" and name in PROCESSES)
        if (waits and not limited) or (owner == "os" and name in BY_NUMBER):
            found.append(f"line {call.lineno}: {ast.unparse(call)[:60]}")
    return found


@pytest.mark.parametrize("path", sorted(TESTS.rglob("*.py")), ids=lambda path: str(path.relative_to(TESTS)))
def test_every_wait_has_a_limit(path: Path):
    assert not unlimited(ast.parse(path.read_text()))


def test_what_would_be_found():
    lines = ("subprocess.run(x)", "p.wait()", "p.communicate(input=b'')", "os.waitpid(1, 0)")
    assert all(unlimited(ast.parse(line)) for line in lines)
    for line in ("p.wait(3)", "subprocess.run(x, timeout=3)", "with limit(3): os.waitpid(1, 0)", "','.join(x)"):
        assert not unlimited(ast.parse(line))


def test_the_limit_also_ends_what_waits_in_the_operating_system(tmp_path):
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(Hung), limit(1):
        (tmp_path / "fifo").read_bytes()
