"""What there is to report in a directory: runs, evaluations as ``pntm eval --json`` prints them, benches."""

from __future__ import annotations

import statistics
from collections.abc import Iterable
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, NamedTuple

from pntm_np.experiments.bench.record import LARGE, is_row
from pntm_np.experiments.report import paper
from pntm_np.experiments.sweep.collect import KIND, collected
from pntm_np.experiments.sweep.supervise import failure
from pntm_np.models.titles import TITLES
from pntm_np.protocol import LEARNING_RATE, SAMPLES, TRAINING_MEMORY
from pntm_np.runtime.untrusted import CheckpointError, Json, is_count, is_number, read_json
from pntm_np.scans import FORMS
from pntm_np.training.config import SOLVED, Config
from pntm_np.training.cost import total
from pntm_np.training.rounding import ANSWERS
from pntm_np.training.run import Run
from pntm_np.training.schedule import LATER_NOISE, in_words
from tasks import TASKS

OURS = "+"  # of a group: by our recipe, where the paper has one of its own
END = "$"  # of a group: answers end with a token
MACHINES = ("ntm", "ntm" + OURS, "pntm", "pntm" + OURS)  # those with a memory: what the paper is about
NAMES = TITLES | {"transformer": "Transformer", "ntm" + OURS: "NTM, our recipe", "pntm" + OURS: "P-NTM, our recipe"}
NAMES |= {group + END: f"{NAMES[group]}, end token" for group in MACHINES}
BASELINES = ("lstm", "mingru", "transformer", *(m for m in TITLES if m.startswith("transformer")))
ORDER = [*BASELINES, *MACHINES, *(group + END for group in MACHINES)]
# In what a run may differ from its preset and still stand in the tables; every caption says how. The rest are rules.
ANYWHERE = {"form", "backend", "checkpoint_every", "steps", "cool_down", "samples"}
LONGEST = 200  # characters of a name in a file
BUDGETS = {"paper": ANYWHERE | {"batch_size", "eval_every"}, "recipe": ANYWHERE}


class Trained(NamedTuple):
    place: Path
    config: Config
    result: Json
    cost: Json

    @property
    def group(self) -> str:
        return group_of(self.config)

    @property
    def score(self) -> float:
        return self.result["score"]

    @property
    def perfect(self) -> bool:
        return self.score == 1.0

    @property
    def core_minutes(self) -> str:
        """Of the processor, in training and evaluation; empty if it is not known."""
        spent: list[Any] = [self.cost.get(f"{kind}_cpu_seconds") for kind in ("training", "evaluation")]
        return "" if None in spent else f"{sum(spent) / 60:.1f}"

    def mean(self, first: int, last: int) -> float:
        return statistics.fmean(r["exact_match"] for r in self.result["by_length"] if first <= r["length"] <= last)


class Failed(NamedTuple):
    place: Path
    config: Config
    cause: str


class Far(NamedTuple):
    name: str
    found: Json


@dataclass
class Material:
    runs: list[Trained] = field(default_factory=list)
    evaluations: list[Far] = field(default_factory=list)
    benches: list[Json] = field(default_factory=list)
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
    ours = OURS if config.preset == "recipe" and config.model + OURS in MACHINES else ""
    return config.model + ours + (END if config.end_token else "")


def gather(directory: Path) -> Material:
    """Whatever is found below; what cannot be used is left out, with the reason."""
    found = Material()
    for path in sorted(directory.rglob("*.json")):
        if path.is_dir() or not path.exists() or path.name in ("result.json", "failure.json"):
            continue
        try:
            if path.name == "config.json":
                _add_run(Run(path.parent), found)
            else:
                _add_other(path, directory, found)
        except (CheckpointError, OSError) as error:
            found.left_out.append(str(error))
    tasks = list(paper.TASKS)
    found.runs = sorted(found.runs, key=lambda r: (ORDER.index(r.group), tasks.index(r.config.task), r.config.seed))
    return found


def _add_run(run: Run, found: Material) -> None:
    config = run.read_config()
    if run.complete:
        result = run.read_result()
        _add(run.directory, Config.from_json(result["config"]), result, total(run), None, found)
    else:
        given_up = failure(run.directory)
        _add(run.directory, config, None, {}, f"{given_up.state}: {given_up.cause}" if given_up else None, found)


def _add(place: Path, config: Config, result: Json | None, cost: Json, cause: str | None, found: Material) -> None:
    if result and result["score"] is None:
        raise CheckpointError(f"{place}: it was not judged on lengths longer than those of its training")
    if why := _foreign(config, [r.config for r in found.runs] if result else []):
        found.left_out.append(f"{place}: {why}")
    elif result:
        found.runs.append(Trained(place, config, result, cost))
    elif cause:
        found.failed.append(Failed(place, config, cause))
    else:
        found.unfinished.append(place)


def _foreign(config: Config, known: list[Config]) -> str:
    """Why a run does not belong into the paper's tables, if it does not."""
    if config.task not in paper.TASKS:
        return "not one of the paper's tasks"
    if group_of(config) not in ORDER:
        return f"{config.model} with an end token has no place in the tables"
    rules = Config.of(
        TASKS[config.task], config.preset, model=config.model, seed=config.seed, end_token=config.end_token
    )
    for name in (f.name for f in fields(Config) if f.name not in BUDGETS[config.preset]):
        here, there = getattr(config, name), getattr(rules, name)
        if here != there:
            return f"its {name} is {here!r}, and {there!r} by --preset {config.preset}"
    if config.samples != SAMPLES and config.model in paper.SPREAD:  # whose perfect runs are counted
        return f"its samples is {config.samples}, and the paper's {SAMPLES}"
    return "there is a run like it already" if config in known else ""


def _add_other(path: Path, directory: Path, found: Material) -> None:
    """An evaluation or a bench, by its keys; other files are none of our business."""
    content = read_json(path)
    if not isinstance(content, dict):
        return
    if content.get("pntm") == KIND:
        run = collected(content)
        if run is None:
            raise CheckpointError(f"{path}: not a run as pntm sweep collect keeps it")
        cause = f"{run.failure.get('state')}: {run.failure.get('cause')}" if run.failure else None
        _add(path, run.config, run.result, run.cost, cause, found)
    elif {"task", "model", "by_length", "tau", "memory_size"} <= content.keys():
        if not _is_evaluation(content):
            raise CheckpointError(f"{path}: not an evaluation as pntm eval --json prints it")
        found.evaluations.append(Far(path.relative_to(directory).with_suffix("").as_posix(), content))
    elif {"machine", "settings", "rows"} <= content.keys():
        if _is_bench(content):
            found.benches.append(content)
        elif not _is_step_bench(content):
            raise CheckpointError(f"{path}: not a bench as pntm bench writes it")


def _numbers(row: Any, *names: str) -> bool:
    return isinstance(row, dict) and all(is_number(row.get(name)) for name in names)


def _is_name(value: Any) -> bool:
    return isinstance(value, str) and 0 < len(value) <= LONGEST


def _is_evaluation(content: Json) -> bool:
    rows = content["by_length"]

    def usable(row: Any) -> bool:
        counted = isinstance(row, dict) and is_count(row.get("length"), 1) and is_count(row.get("samples"), 1)
        return counted and is_number(row.get("exact_match"), 0, 1)

    return (
        isinstance(rows, list)
        and bool(rows)
        and all(map(usable, rows))
        and all(_is_name(content[name]) for name in ("task", "model"))
        and all(is_number(content.get(name), 0, 1) for name in ("exact_match", "token_accuracy", "tau"))
        and is_number(content.get("gate_tau", 0), 0, 1)
        and all(is_count(content.get(name)) for name in ("memory_size", "seed"))
    )


def _is_bench(content: Json) -> bool:
    machine, settings, rows = content["machine"], content["settings"], content["rows"]
    if not (isinstance(machine, dict) and isinstance(settings, dict) and isinstance(rows, list) and rows):
        return False
    counted = all(is_count(settings.get(name), 1) for name in ("batch", "runs", "threads"))
    known = _is_name(machine.get("processor" if settings.get("backend") == "cpu" else "device"))

    def usable(row: Any) -> bool:
        return is_row(row) and row.get("ntm_form") in FORMS and is_ratio(row.get("speedup_over_ntm"))

    def is_ratio(value: Any) -> bool:
        return value is None or is_number(value, 1 / LARGE, LARGE)

    return counted and known and all(map(usable, rows))


def _is_step_bench(content: Json) -> bool:
    rows = content["rows"]
    return isinstance(rows, list) and bool(rows) and all(_numbers(row, "ms_mean", "ms_best") for row in rows)


def budgets(material: Material, groups: Iterable[str]) -> str:
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
        text += f" with a learning rate of {c.lr:g}" if c.lr != LEARNING_RATE else ""
        text += f", which it reaches after {c.warm_up:,}" if c.warm_up else ""
        text += ", initial weights as in Flax" if c.start == "flax" else ""
        text += f", half of the heads with initial shift weights times {c.head_gain:g}" if c.head_gain != 1 else ""
        text += f", begun again where milestones are missed ({in_words(c.restart_after)})" if c.restart_after else ""
        share, times = SOLVED
        learnt = f"once {share:.0%} of inputs of lengths up to {c.max_length} were answered {times} times in a row"
        begins = f", which begin {learnt}" if c.stop_when_solved else ""
        text += f", the last {c.cool_down:,} with a falling learning rate{begins}" if c.cool_down else ""
        text += f", gradients scaled down to an infinity norm of {c.clip:g}" if c.clip else ""
        most = f"once {ANSWERS:.0%} of the inputs are answered"
        noise = f", noise of deviation {c.noise:g} on the logits of shifts and gates in half of every batch"
        text += f"{noise}, {LATER_NOISE * c.noise:g} {most if c.rounding else 'once learnt'}" if c.noise else ""
        blur = f", {c.blur:g} of every shift spread over all three there, {LATER_NOISE * c.blur:g} once learnt"
        text += blur if c.blur else ""
        rounded = f", shifts and gates rounded in the other half, ever more, {most}"
        text += rounded if c.rounding else ""
        text += f", memories of {_cells(c.memory_size)} cells" if c.memory_size != TRAINING_MEMORY else ""
        text += f", memories of {_cells(c.learnt_memory_size)} cells once learnt" if c.learnt_memory_size else ""
        text += f", thresholds chosen on lengths 1 to {c.max_length}" if c.tau == "auto" and not c.rounding else ""
        text += f", stopped {learnt}" if c.stop_when_solved and not c.cool_down else ""
        text += f", judged on {c.samples} inputs of each length" if c.samples != SAMPLES else ""
        found[text] = found.get(text, 0) + 1
    if len(found) == 1:
        return next(iter(found))
    return "; ".join(
        f"{text} ({count} run{'s' if count > 1 else ''})"
        for text, count in sorted(found.items(), key=lambda item: -item[1])
    )


def _cells(size: Any) -> str:
    return str(size) if isinstance(size, int) else f"{size[0]} to {size[1]}"
