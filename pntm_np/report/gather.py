"""What there is to report in a directory: finished runs, evaluations as ``pntm eval --json`` prints them, benches."""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from pntm_np.evaluation.thresholds import TAU
from pntm_np.models.titles import TITLES
from pntm_np.report import paper
from pntm_np.scans import FORMS
from pntm_np.sealed import CheckpointError
from pntm_np.sweep.supervise import failure
from pntm_np.training.config import SOLVED, Config
from pntm_np.training.run import Run

SHARP = "+"  # of a group: trained with sharpened shifts, and evaluated with thresholds that were chosen
OPEN = "~"  # of a group: trained without an end token, and told how long an answer is
MACHINES = ("ntm", "pntm", "pntm" + SHARP)  # those with a memory: what the paper is about
NAMES = TITLES | {"transformer": "Transformer", "pntm" + SHARP: "P-NTM, sharpened"}
NAMES |= {group + OPEN: f"{NAMES[group]}, no end token" for group in MACHINES}
BASELINES = ("lstm", "mingru", "transformer", *(m for m in TITLES if m.startswith("transformer")))
ORDER = [*BASELINES, *MACHINES, *(group + OPEN for group in MACHINES)]
# what has to be the paper's; budgets, the learning rate of NTM and of sharpened machines, how training ends and on how
# many inputs it is judged may differ, and every caption says how
FIXED = {"max_length": 40, "memory_size": 96, "lengths": (1, 120), "sizes": {}}
WAYS = {(False, False): "", (True, True): SHARP}  # sharpened in training, thresholds chosen


class Trained(NamedTuple):
    """A finished run."""

    place: Path
    config: Config
    result: dict[str, Any]

    @property
    def group(self) -> str:
        return group_of(self.config)

    @property
    def score(self) -> float:
        return self.result["score"]

    @property
    def perfect(self) -> bool:
        return self.score == 1.0

    def mean(self, first: int, last: int) -> float:
        """Exact match on these lengths."""
        return statistics.fmean(r["exact_match"] for r in self.result["by_length"] if first <= r["length"] <= last)


class Failed(NamedTuple):
    """A run that was given up."""

    place: Path
    config: Config
    cause: str


class Far(NamedTuple):
    """An evaluation of a machine, of its own."""

    name: str
    found: dict[str, Any]


@dataclass
class Material:
    runs: list[Trained] = field(default_factory=list)
    evaluations: list[Far] = field(default_factory=list)
    benches: list[dict[str, Any]] = field(default_factory=list)
    failed: list[Failed] = field(default_factory=list)
    unfinished: list[Path] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)  # and why

    @property
    def empty(self) -> bool:
        return not (self.runs or self.evaluations or self.benches)

    def given_up(self, group: str) -> int:
        return sum(group_of(run.config) == group for run in self.failed)

    def of(self, group: str, task: str | None = None) -> list[Trained]:
        """Runs of an architecture; "transformer" is all four."""

        def belongs(run: Trained) -> bool:
            return run.group == group or (group == "transformer" and run.group.startswith("transformer-"))

        return [run for run in self.runs if belongs(run) and task in (None, run.config.task)]


def group_of(config: Config) -> str:
    return config.model + WAYS[bool(config.sharpen), config.tau == "auto"] + ("" if config.end_token else OPEN)


def gather(directory: Path) -> Material:
    """Whatever is found below; what cannot be used is left out, with the reason."""
    found = Material()
    for path in sorted(directory.rglob("*.json")):
        if not path.is_file() or path.name in ("result.json", "failure.json"):
            continue
        try:
            if path.name == "config.json":
                _add_run(Run(path.parent), found)
            else:
                _add_other(path, directory, found)
        except CheckpointError as error:
            found.left_out.append(str(error))
    tasks = list(paper.TASKS)
    found.runs = sorted(found.runs, key=lambda r: (ORDER.index(r.group), tasks.index(r.config.task), r.config.seed))
    return found


def _add_run(run: Run, found: Material) -> None:
    place, config = run.directory, run.read_config()
    result = run.read_result() if run.complete else None
    if result:
        config = Config.from_json(result["config"])
        if not _numbers(result, "score", "tau", "gate_tau", "step"):
            raise CheckpointError(f"{run.path('result.json')}: not the result of a run")
    if why := _foreign(config, [r.config for r in found.runs] if result else []):
        found.left_out.append(f"{place}: {why}")
    elif result:
        found.runs.append(Trained(place, config, result))
    elif given_up := failure(place):
        found.failed.append(Failed(place, config, f"{given_up.state}: {given_up.cause}"))
    else:
        found.unfinished.append(place)


def _foreign(config: Config, known: list[Config]) -> str:
    """Why a run does not belong into the paper's tables, if it does not."""
    if config.task not in paper.TASKS:
        return "not one of the paper's tasks"
    for name, value in FIXED.items():
        if getattr(config, name) != value:
            return f"its {name} is {getattr(config, name)!r}, and the paper's {value!r}"
    if config.samples != paper.SAMPLES and config.model in paper.SPREAD:  # whose perfect runs are counted
        return f"its samples is {config.samples}, and the paper's {paper.SAMPLES}"
    if not config.end_token and config.model not in MACHINES:
        return "it has no end token: only machines with a memory are reported without"
    ways = (bool(config.sharpen), config.tau == "auto")
    if config.lr != paper.LEARNING_RATE and not config.sharpen and config.model != "ntm":
        return f"its lr is {config.lr:g}, and the paper's {paper.LEARNING_RATE:g}"
    if ways not in WAYS or (config.tau not in (TAU, "auto")) or (any(ways) and config.model != "pntm"):
        return f"neither the paper's way nor ours: sharpen {config.sharpen:g}, tau {config.tau}"
    for name in ("sharpen_gates", "train_tau", "train_gate_tau"):
        if getattr(config, name) and not config.sharpen:
            return (
                f"neither the paper's way nor ours: {name.replace('_', '-')} {getattr(config, name):g} without sharpen"
            )
    return "there is a run like it already" if config in known else ""


def _add_other(path: Path, directory: Path, found: Material) -> None:
    """An evaluation or a bench, by its keys; other files are none of our business."""
    try:
        content = json.loads(path.read_bytes())
    except (ValueError, RecursionError):
        raise CheckpointError(f"{path}: not readable as JSON") from None
    if not isinstance(content, dict):
        return
    if {"task", "model", "by_length", "tau", "memory_size"} <= content.keys():
        if not _is_evaluation(content):
            raise CheckpointError(f"{path}: not an evaluation as pntm eval --json prints it")
        found.evaluations.append(Far(path.relative_to(directory).with_suffix("").as_posix(), content))
    elif {"machine", "settings", "rows"} <= content.keys():
        if _is_bench(content):
            found.benches.append(content)
        elif not _is_step_bench(content):
            raise CheckpointError(f"{path}: not a bench as pntm bench writes it")


def _numbers(row: Any, *names: str) -> bool:
    return isinstance(row, dict) and all(type(row.get(name)) in (int, float) for name in names)


def _is_evaluation(content: dict[str, Any]) -> bool:
    rows = content["by_length"]
    usable = isinstance(rows, list) and rows and all(_numbers(r, "length", "samples", "exact_match") for r in rows)
    words = isinstance(content["task"], str) and isinstance(content["model"], str)
    return bool(usable and words and _numbers(content, "exact_match", "token_accuracy", "tau", "memory_size", "seed"))


def _is_bench(content: dict[str, Any]) -> bool:
    machine, settings, rows = content["machine"], content["settings"], content["rows"]
    if not (
        isinstance(machine, dict) and isinstance(rows, list) and rows and _numbers(settings, "batch", "runs", "threads")
    ):
        return False
    keys = {"mean", "std", "best", "agrees", "peak_bytes", "speedup_over_ntm"}
    known = ("processor" if settings.get("backend") == "cpu" else "device") in machine

    def usable(row: Any) -> bool:
        return (
            _numbers(row, "length")
            and row.get("model") in ("ntm", "pntm")
            and row.get("form") in FORMS
            and keys <= row.keys()
        )

    return known and all(map(usable, rows))


def _is_step_bench(content: dict[str, Any]) -> bool:
    rows = content["rows"]
    return isinstance(rows, list) and bool(rows) and all(_numbers(row, "ms_mean", "ms_best") for row in rows)


def budgets(material: Material, groups: Iterable[str]) -> str:
    """How these runs were trained and evaluated, in words."""
    alike: dict[str, list[str]] = {}
    for group in groups:
        if runs := material.of(group):
            alike.setdefault(_budget(runs), []).append(NAMES[group])
    return " ".join(f"{'; '.join(names)}: {text}." for text, names in alike.items())


def _budget(runs: list[Trained]) -> str:
    found: dict[str, int] = {}
    for run in runs:
        c = run.config
        text = f"batches of {c.batch_size}, {'at most ' if c.stop_when_solved else ''}{c.steps:,} iterations"
        text += f" with a learning rate of {c.lr:g}" if c.lr != paper.LEARNING_RATE else ""
        solved = f"if {SOLVED} evaluations in a row made no mistake on lengths up to {2 * c.max_length}"
        stopped = run.result["stopped_by"] == "solved" and "solved_at" not in run.result  # the rule of the first runs
        begins = c.stop_when_solved and c.cool_down and not stopped
        text += f", the last {c.cool_down:,} with a falling learning rate" if c.cool_down else ""
        text += f", which begin earlier {solved}" if begins else ""
        text += f", gradients scaled down to an infinity norm of {c.clip:g}" if c.clip else ""
        text += f", weight {c.sharpen:g} on the entropy of shifts" if c.sharpen else ""
        text += f" and {c.sharpen_gates:g} on undecided gates" if c.sharpen_gates else ""
        text += f", growing over the first {c.sharpen_rise:,}" if c.sharpen and c.sharpen_rise else ""
        if c.train_tau or c.train_gate_tau:
            text += f", thresholds up to {c.train_tau:g} (shifts) and {c.train_gate_tau:g} (gates) in training"
        text += ", thresholds chosen on lengths 1 to 40" if c.tau == "auto" else ""
        text += f", stopped before {solved}" if c.stop_when_solved and not begins else ""
        text += f", judged on {c.samples} inputs of each length" if c.samples != paper.SAMPLES else ""
        found[text] = found.get(text, 0) + 1
    if len(found) == 1:
        return next(iter(found))
    return "; ".join(
        f"{text} ({count} run{'s' if count > 1 else ''})"
        for text, count in sorted(found.items(), key=lambda item: -item[1])
    )
