"""Plant the bugs of the table, one at a time in a copy of the project, and see whether the tests notice.

    make test-mutants               all of them, which takes an hour or more
    make test-mutants ONLY=scans    those of an area, or with that in their file or description

A bug that no test notices is a missing test. So is an entry whose text is not found exactly once, for it guards nothing.
"""

from __future__ import annotations

import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path

from tests.mutants.table import BUGS, Bug

ROOT = Path(__file__).resolve().parents[2]
LEFT_OUT = (".git", ".venv*", "runs", "build", "*.egg-info", ".hypothesis", ".pytest_cache", ".ruff_cache")
LIMIT = 300  # seconds of a processor for the tests of one bug, which may never end; and ten times that by the clock
PASSED, FAILED = 0, 1  # exit codes of pytest


def chosen(only: list[str]) -> list[Bug]:
    """The bugs that are asked for; all of them if nothing is."""
    areas = {bug.area for bug in BUGS}

    def asked(bug: Bug, word: str) -> bool:
        return word == bug.area if word in areas else word in bug.file or word in bug.effect

    return [bug for bug in BUGS if not only or any(asked(bug, word) for word in only)]


def planted(bug: Bug, root: Path) -> str:
    """The content of its file with the bug in it."""
    content = (root / bug.file).read_text()
    if content.count(bug.text) != 1:
        raise LookupError(f"{bug.file}: {bug.text!r} is there {content.count(bug.text)} times; expected once")
    return content.replace(bug.text, bug.becomes)


def copy(source: Path, place: Path) -> None:
    """With the times of all files, by which Numba tells whether kernels that are kept beside them can be used."""
    shutil.copytree(source, place, ignore=shutil.ignore_patterns(*LEFT_OUT))


def narrowed(tests: Iterable[str]) -> list[str]:
    """Each once, and none whose whole file is named as well."""
    every = dict.fromkeys(tests)
    return [test for test in every if "::" not in test or test.partition("::")[0] not in every]


def run(tests: list[str], place: Path, limit: int | None = LIMIT) -> int | None:
    """The exit code of the tests in that copy; None if they took too long."""

    def restrict() -> None:
        if limit:
            resource.setrlimit(resource.RLIMIT_CPU, (limit, limit))

    command = [sys.executable, "-m", "pytest", "-x", "-n0", "-p", "no:cacheprovider", *tests]
    environment = {name: value for name, value in os.environ.items() if name != "NUMBA_CACHE_DIR"}
    environment["PYTHONPATH"] = str(place)  # before the sources that are installed
    with open(place / "tests.log", "w") as log:
        process = subprocess.Popen(
            command,
            cwd=place,
            env=environment,
            stdout=log,
            stderr=log,
            stdin=subprocess.DEVNULL,
            process_group=0,
            preexec_fn=restrict,
        )
        try:
            code = process.wait(10 * limit if limit else None)
            return None if code == -signal.SIGKILL else code
        except subprocess.TimeoutExpired:
            return None
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)  # with all that the tests have started
                process.wait(60)


def outcome(bug: Bug, clean: Path, place: Path) -> str:
    try:
        content = planted(bug, clean)
    except LookupError as error:
        return f"DOES NOT APPLY: {error}"
    copy(clean, place)
    (place / bug.file).write_text(content)
    code = run(list(bug.tests), place)
    if code in (FAILED, None):
        return "caught" if code else "caught by the time limit"
    return "SURVIVED" if code == PASSED else f"DOES NOT APPLY: pytest ends with {code}\n{tail(place)}"


def tail(place: Path) -> str:
    return "\n".join((place / "tests.log").read_text().splitlines()[-15:])


def main(only: list[str]) -> int:
    bugs, wrong = chosen(only), []
    if not bugs:
        print(f"there is no such bug; areas are {', '.join(dict.fromkeys(bug.area for bug in BUGS))}")
        return 2
    with tempfile.TemporaryDirectory(prefix="pntm-mutants-") as folder:
        clean = Path(folder) / "clean"
        copy(ROOT, clean)
        tests = narrowed(test for bug in bugs for test in bug.tests)
        print(f"{len(bugs)} bugs; first their tests without any of them", flush=True)
        if run(tests, clean, limit=None) != PASSED:
            print(f"the tests fail without a bug:\n{tail(clean)}")
            return 2
        for number, bug in enumerate(bugs, 1):
            began, place = time.monotonic(), Path(folder) / "planted"
            found = outcome(bug, clean, place)
            if not found.startswith("caught"):
                wrong.append(bug)
            shutil.rmtree(place, ignore_errors=True)
            seconds = time.monotonic() - began
            print(f"{number:3} {seconds:5.0f} s  {found}  {bug.file}: {bug.effect}", flush=True)
    print(f"{len(bugs)} bugs: {len(bugs) - len(wrong)} caught, {len(wrong)} not")
    for bug in wrong:
        print(f"\n{bug.file}: {bug.effect}\n- {bug.text}\n+ {bug.becomes}\nby {' '.join(bug.tests)}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main([word for argument in sys.argv[1:] for word in argument.split(",")]))
