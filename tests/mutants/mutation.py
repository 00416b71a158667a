"""Small changes of every kind that cosmic-ray knows, all over some modules: how many do the tests notice?

    make mutation                       every module of mutation.toml; takes hours
    make mutation MODULE=optimizer      those with that in their name

Changes are made in a copy of the project. The tests of each run in a process that is forked from this one, which has the
libraries loaded already. ``mutation.toml`` names modules and tests; ``set_aside.toml`` says of changes that change
nothing why that is so. At least ``ENOUGH`` of the others must be noticed.
"""

from __future__ import annotations

import ast
import difflib
import importlib
import os
import re
import signal
import sys
import tempfile
import time
import tomllib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from tests.limits import Hung, limit
from tests.mutants.plant import ROOT, copy

ENOUGH = 0.9
HERE = Path(__file__).parent
LIBRARIES = ("pytest", "numpy", "scipy.special", "numba.extending", "numba.core.caching", "hypothesis.extra.numpy")
LIBRARIES += ("click.testing", "safetensors.numpy", "threadpoolctl", "tracemalloc", "concurrent.futures")
GUARDS = {
    "strict": "it says that two lengths agree, which they do",
    "frozen": "it says that nothing is assigned, and nothing is",
}
OURS = ("tests", "autodiff", "pntm_np", "tasks", "cli")


class Change(NamedTuple):
    operator: str
    line: int
    text: str  # the line as it is
    becomes: str
    source: str  # the whole module with it


def changes(path: Path, operators: str) -> Iterator[Change]:
    """Every change of a module by an operator whose name the pattern matches; none that is there twice."""
    from cosmic_ray.mutating import mutate_code
    from cosmic_ray.plugins import get_operator, operator_names

    source, seen = path.read_text(), {path.read_text()}
    for name in operator_names():
        operator = get_operator(name)
        if operator.arguments() or not re.fullmatch(operators, name.removeprefix("core/")):
            continue
        occurrence = 0
        while True:
            try:
                changed = mutate_code(source, operator(), occurrence)
            except AttributeError:  # an exception with a dot in its name: cosmic-ray cannot replace it
                changed = source
            if changed is None:
                break
            occurrence += 1
            if changed not in seen and is_python(changed):
                seen.add(changed)
                yield described(name.removeprefix("core/"), source, changed)


def is_python(source: str) -> bool:
    """A ** of keywords is taken for a power, and what becomes of it need not be."""
    try:
        ast.parse(source)
    except SyntaxError:
        return False
    return True


def described(operator: str, source: str, changed: str) -> Change:
    before, after = source.splitlines(), changed.splitlines()
    for tag, a, b, c, d in difflib.SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        if tag != "equal":
            old, new = (" ".join(line.strip() for line in part) for part in (before[a:b], after[c:d]))
            return Change(operator, a + 1, old, new, changed)
    raise AssertionError("nothing has changed")


def executed(source: str) -> str:
    """The code without what is never evaluated: annotations, as all files import them from the future."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.arg):
            node.annotation = None
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            node.returns = None
        elif isinstance(node, ast.AnnAssign):
            node.annotation = ast.Constant(None)
    return ast.dump(tree)


def reason(change: Change, file: str, aside: list[dict[str, Any]], plain: str) -> str:
    """Why a change is set aside; empty if it is not."""
    if executed(change.source) == plain:
        return "an annotation, which is never evaluated"
    for word, why in GUARDS.items():
        if change.becomes == change.text.replace(f"{word}=True", f"{word}=False"):
            return why
    for entry in aside:
        if entry["file"] == file and entry["text"] == change.text and change.becomes in entry["becomes"]:
            return entry["reason"]
    return ""


def passes(place: Path, tests: list[str], seconds: int) -> bool | None:
    """Whether the tests pass in that copy, by a process of their own; None if they take too long."""
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        os.setpgid(0, 0)
        log = os.open(place / "tests.log", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        for stream in (1, 2):
            os.dup2(log, stream)
        code = 99
        try:
            code = _test(place, tests)
        finally:
            sys.stdout.flush()
            os._exit(code)
    try:
        with limit(seconds):
            _, status = os.waitpid(child, 0)
    except Hung:
        os.killpg(child, signal.SIGKILL)
        with limit(60):
            os.waitpid(child, 0)
        return None
    return os.waitstatus_to_exitcode(status) == 0


def _test(place: Path, tests: list[str]) -> int:
    import pytest

    os.chdir(place)
    os.environ["PYTHONPATH"] = str(place)
    sys.dont_write_bytecode = True  # two changes in a second would be taken for one
    for name in [name for name in sys.modules if name.partition(".")[0] in OURS]:
        del sys.modules[name]
    sys.path[:] = [str(place), *(entry for entry in sys.path if Path(entry).resolve() != ROOT)]
    known = ["-W", "ignore:Module already imported"]  # of pytest: it would rather load libraries itself
    return int(pytest.main(["-x", "-n0", "-p", "no:cacheprovider", *known, *tests]))


def examine(file: str, tests: list[str], operators: str, aside: list[dict[str, Any]], place: Path) -> Counter:
    """How many changes of a module there are, are noticed, and are set aside; the others are shown."""
    path, counts = place / file, Counter()
    source = path.read_text()
    plain = executed(source)
    for cached in path.parent.glob(f"__pycache__/{path.stem}.*.pyc"):
        cached.unlink()
    began = time.monotonic()
    if not passes(place, tests, 3600):
        raise SystemExit(f"{file}: its tests fail without a change\n{(place / 'tests.log').read_text()[-2000:]}")
    seconds = max(60, round(10 * (time.monotonic() - began)))
    for change in changes(path, operators):
        counts["changes"] += 1
        if reason(change, file, aside, plain):
            counts["set aside"] += 1
            continue
        path.write_text(change.source)
        passed = passes(place, tests, seconds)
        counts["survived" if passed else "noticed"] += 1
        if passed:
            print(f"  {file}:{change.line} {change.operator}\n  - {change.text}\n  + {change.becomes}", flush=True)
    path.write_text(source)
    return counts


def main(only: list[str]) -> int:
    settings = tomllib.loads((HERE / "mutation.toml").read_text())
    aside = tomllib.loads((HERE / "set_aside.toml").read_text()).get("change", [])
    modules = {m["file"]: m["tests"] for m in settings["module"] if not only or any(word in m["file"] for word in only)}
    for library in LIBRARIES:
        importlib.import_module(library)
    rows = []
    with tempfile.TemporaryDirectory(prefix="pntm-mutation-") as folder:
        place = Path(folder) / "copy"
        copy(ROOT, place)
        for file, tests in modules.items():
            began = time.monotonic()
            counts = examine(file, tests, "|".join(settings["operators"]), aside, place)
            share = counts["noticed"] / max(1, counts["changes"] - counts["set aside"])
            rows.append((file, counts["changes"], counts["set aside"], counts["noticed"], counts["survived"], share))
            print(f"{file}: {share:.1%} noticed, in {time.monotonic() - began:.0f} s", flush=True)
    print("\n| module | changes | set aside | noticed | survived | noticed of the rest |\n|---|---|---|---|---|---|")
    for *row, share in rows:
        print("| " + " | ".join(map(str, row)) + f" | {share:.1%} |")
    return 0 if rows and all(row[-1] >= ENOUGH for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
