"""Sweeps of runs that take a second each, and the processes that they leave behind."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.limits import LIMIT

GRID = """
tasks = ["parity-check", "reverse-string", "cycle-navigation"]
seeds = [1, 2, 3, 4]
[options]
form = "chunked"
steps = {steps}
batch-size = 4
max-length = 4
lengths = [1, 5]
samples = 2
eval-every = 20
checkpoint-every = 5
stop-when-solved = false
sizes = {{ width = 8, heads = 2, cell = 4 }}
[variants.noisy]
[variants.plain]
noise = 0
"""
SAME = ("model.safetensors", "metrics.jsonl", "config.json", "result.json")
ENVIRONMENT = os.environ | {"OPENBLAS_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"}


def within(seconds: float) -> Callable[[], bool]:
    """To stop what would otherwise wait for ever."""
    until = time.monotonic() + seconds
    return lambda: time.monotonic() > until


def grid_file(directory: Path, steps: int = 12) -> Path:
    path = directory / "grid.toml"
    path.write_text(GRID.format(steps=steps))
    return path


def command(*args: object) -> list[str]:
    return [sys.executable, "-P", "-m", "cli", "sweep", *map(str, args)]


def sweep(*args: object, **more: Any) -> subprocess.CompletedProcess:
    """``more`` is for ``subprocess.run``."""
    given = {"capture_output": True, "text": True, "env": ENVIRONMENT, "timeout": LIMIT} | more
    return subprocess.run(command(*args), **given)


def started(*args: object, log: Path) -> subprocess.Popen:
    with open(log, "a") as sink:
        return subprocess.Popen(command(*args), stdout=sink, stderr=sink, env=ENVIRONMENT)


def files(out: Path) -> dict[str, dict[str, bytes]]:
    """What every run of a sweep left; the same bits every time."""
    places = sorted(path.parent for path in out.glob("*/config.json"))
    return {place.name: {name: (place / name).read_bytes() for name in SAME} for place in places}


@contextmanager
def completed_once(out: Path) -> Iterator[None]:
    """No result that has been written is written again: a run that is killed before may be evaluated twice."""
    seen: dict[Path, int] = {}
    again, over = [], threading.Event()

    def look() -> None:
        for path in out.glob("*/result.json"):
            number = path.stat().st_ino  # another one for every file that is put in place
            if seen.setdefault(path, number) != number:
                again.append(path)

    def watch() -> None:
        while not over.wait(0.05):
            look()

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join(60)
    look()
    assert not again and seen


def ends(place: Path) -> int:
    """How often a run was evaluated to its end: each time is written down, just before its result."""
    rows = [json.loads(line) for line in (place / "timing.jsonl").read_text().splitlines()]
    return sum("evaluation_seconds" in row for row in rows)


def at_work(out: Path) -> list[int]:
    """Processes that have this directory on their command line."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().split(b"\0")
        except OSError:
            continue
        if b"--end-with-parent" in words and any(str(out).encode() in word for word in words):
            found.append(int(path.parent.name))
    return found


def gone(out: Path, seconds: float = 5.0) -> bool:
    until = time.monotonic() + seconds
    while at_work(out):
        if time.monotonic() > until:
            return False
        time.sleep(0.05)
    return True
