"""The runs of a sweep: every task with every variant and every seed.

A variant is a model with options of ``pntm train``; its name is part of the run's name. A file looks like this:

    tasks = ["parity-check", "reverse-string"]   # default: all six
    seeds = 5                                    # the first five of the ten seeds; or a list of numbers
    [options]                                    # options of every run
    preset = "recipe"
    [variants.quiet]                             # options of one variant
    model = "pntm"
    noise = 0

The plan of a sweep is the file ``sweep.json`` in its directory; later sweeps may add runs, but not change any. The file
is not trusted: it lists the runs, and nothing in it is imported. Of a task in a file of the user's it has the name
alone; the command line, or the grid that it names, has to say each time where this file is.
"""

from __future__ import annotations

import re
import tomllib
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from pntm_np.models import MODELS
from pntm_np.protocol import SEEDS
from pntm_np.runtime.errors import USAGE, PntmError
from pntm_np.runtime.files import json_bytes, locked, write_atomically
from pntm_np.runtime.untrusted import CheckpointError, is_shallow, read_bytes, read_json
from pntm_np.training.config import PRESETS, Config, ConfigError
from pntm_np.training.run import Run
from tasks import TASKS, Task, TaskError, find

FILE = "sweep.json"
FIXED = ("task", "symbols", "seed")  # parts of a configuration that a grid sets in its own way
OPTIONS = tuple(f.name for f in fields(Config) if f.name not in FIXED)
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,60}")  # of a variant, and part of its directories' names
MOST_RUNS = 10_000
DEEPEST = 8  # most levels of nesting in a file
MOST_BYTES, MOST_DOTS = 2**20, 2_000  # of a file: reading a key takes time that grows with the square of its dots


class GridError(PntmError, ValueError):
    exit_code = USAGE


@dataclass(frozen=True)
class Planned:
    """A planned run. Its name is also the name of its directory."""

    variant: str
    config: Config
    source: str = ""  # where the task is, if it is in a file of the user's

    def __post_init__(self) -> None:
        if not isinstance(self.variant, str) or not NAME.fullmatch(self.variant):
            raise GridError(f"variant {self.variant!r:.60}; expected letters, digits, dots, - and _")

    @property
    def task(self) -> str:
        return self.config.task

    @property
    def name(self) -> str:
        return f"{self.task}-{self.variant}-{self.config.seed}"


def read_grid(path: Path) -> list[Planned]:
    if not path.is_file():
        raise GridError(f"--grid {path}: expected a TOML file")
    try:
        text = read_bytes(path).decode()
        for count, most, what in ((len(text), MOST_BYTES, "characters"), (text.count("."), MOST_DOTS, "dots")):
            if count > most:
                raise GridError(f"{path}: it has {count:,} {what}; a grid has at most {most:,}")
        content = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, CheckpointError) as error:
        raise GridError(f"{path}: not readable as TOML: {error}") from None
    except RecursionError:
        content = None
    if content is None or not is_shallow(content, DEEPEST):
        raise GridError(f"{path}: nested more than {DEEPEST} deep, which a grid is not")
    if unknown := content.keys() - {"tasks", "seeds", "options", "variants"}:
        raise GridError(f"{path}: {sorted(unknown)[0]!r:.60}; a grid has tasks, seeds, options and variants")
    variants = content.get("variants", {})
    if not isinstance(variants, dict) or not variants or not all(isinstance(v, dict) for v in variants.values()):
        raise GridError(f'{path}: it needs at least one variant, such as [variants.pntm] with model = "pntm"')
    options = content.get("options", {})
    if not isinstance(options, dict):
        raise GridError(f"{path}: options is {options!r:.60}; expected a table")
    try:
        return grid(_tasks(content.get("tasks", list(TASKS))), variants, seeds_of(content.get("seeds", 1)), options)
    except GridError as error:
        raise GridError(f"{path}: {error}") from None


def _tasks(names: Any) -> list[Task]:
    if not isinstance(names, list) or not names or not all(isinstance(name, str) for name in names):
        raise GridError(f"tasks is {names!r:.60}; expected a list of names")
    try:
        return [find(name) for name in names]
    except TaskError as error:
        raise GridError(f"tasks: {error}") from None


def seeds_of(given: Any) -> tuple[int, ...]:
    """The first ones of the ten seeds, if a number is given, or the seeds in a list."""
    if type(given) is int and 1 <= given <= len(SEEDS):
        return SEEDS[:given]
    if isinstance(given, (list, tuple)) and given and all(type(s) is int and 0 <= s < 2**63 for s in given):
        if len(set(given)) == len(given):
            return tuple(given)
    raise GridError(f"seeds is {given!r:.60}; expected how many of the ten seeds to use, or a list of different seeds")


def grid(
    tasks: Iterable[Task], variants: dict[str, dict[str, Any]], seeds: Iterable[int], options: dict[str, Any]
) -> list[Planned]:
    """All runs, ordered by seed, so that a sweep that is stopped early has some of every kind."""
    tasks, seeds = list(tasks), list(seeds)
    check_count(len(tasks) * len(variants) * len(seeds))
    runs = [
        _planned(task, name, options | own, seed) for seed in seeds for name, own in variants.items() for task in tasks
    ]
    if twice := sorted(name for name, count in Counter(run.name for run in runs).items() if count > 1):
        raise GridError(f"{twice[0]} is listed twice")
    return runs


def check_count(runs: int) -> None:
    if runs > MOST_RUNS:
        raise GridError(f"{runs:,} runs; a sweep has at most {MOST_RUNS:,}")


def _planned(task: Task, variant: str, given: dict[str, Any], seed: int) -> Planned:
    given = {name.replace("-", "_"): value for name, value in given.items()}
    if unknown := given.keys() - set(OPTIONS):
        option = sorted(unknown)[0]
        raise GridError(f"variant {variant}: {option!r:.60}; the options are {', '.join(OPTIONS)}")
    given.setdefault("model", variant if variant in MODELS else "pntm")
    preset = given.pop("preset", "recipe")
    if not isinstance(preset, str) or preset not in PRESETS:
        raise GridError(f"variant {variant}: preset is {preset!r:.60}; expected one of {', '.join(PRESETS)}")
    try:
        return Planned(variant, Config.of(task, preset, seed=seed, **given), task.source)
    except ConfigError as error:
        raise GridError(f"variant {variant}: {error}") from None


def shard(runs: list[Planned], number: int, of: int) -> list[Planned]:
    """Part ``number`` (from 1) of ``of`` parts, each with some runs of every kind."""
    return runs[number - 1 :: of]


def read_plan(directory: Path) -> list[Planned]:
    """The runs in the order in which they were planned; empty if the directory has no sweep."""
    path = directory / FILE
    if not path.exists():
        return []
    content = read_json(path)
    try:
        check_count(len(content["runs"]))
        runs = [_row(row) for row in content["runs"]]
        if len({run.name for run in runs}) < len(runs):
            raise ValueError("a run is listed twice")
    except (ValueError, KeyError, TypeError) as error:
        why = f": {error}" if isinstance(error, ValueError) else ""
        raise CheckpointError(f"{path}: not the plan of a sweep{why}") from None
    return runs


def _row(row: dict[str, Any]) -> Planned:
    run = Planned(row["variant"], Config.from_json(row["config"]))
    if run.task in TASKS and run.config.symbols != TASKS[run.task].symbols:
        raise ValueError(f"{run.name} has other symbols than {run.task}")
    return run


def extend_plan(directory: Path, runs: list[Planned]) -> list[Planned]:
    """The plan with these runs added; refuses a run that was planned or made with another configuration."""
    sources = {(run.task, run.config.symbols): run.source for run in runs}
    before = [replace(run, source=sources.get((run.task, run.config.symbols), "")) for run in read_plan(directory)]
    planned = {run.name: run for run in before}
    for run in runs:
        kept = planned[run.name].config if run.name in planned else _made(directory / run.name)
        if kept is not None and kept != run.config:
            raise GridError(f"{directory / run.name}: {difference(kept, run.config)}; name the variant differently")
    planned |= {run.name: run for run in runs}
    check_count(len(planned))
    return list(planned.values())


def write_plan(directory: Path, runs: list[Planned]) -> None:
    """Add these runs to the plan in the directory; other sweeps may do so at the same time."""
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / FILE
    with locked(directory / ".sweep.lock"):
        rows = [{"variant": r.variant, "config": r.config.as_json()} for r in extend_plan(directory, runs)]
        content = json_bytes({"runs": rows}, indent=1)
        if not path.exists() or read_bytes(path) != content:
            write_atomically(path, content)


def _made(directory: Path) -> Config | None:
    run = Run(directory)
    return run.read_config() if run.path("config.json").exists() else None


def difference(kept: Config, wanted: Config) -> str:
    a, b = kept.as_json(), wanted.as_json()
    name = next(k for k in a if a[k] != b[k])
    value: Any = a[name]
    return f"its {name} is {value!r}, not {b[name]!r}"
