"""Find what a directory has to report: runs, evaluations (the output of ``pntm eval --json``) and benchmarks."""

from __future__ import annotations

import statistics
from collections import Counter
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

OURS = "+"  # suffix of a group trained by our recipe, where the paper has its own
END = "$"  # suffix of a group whose answers end with a token
MACHINES = ("ntm", "ntm" + OURS, "pntm", "pntm" + OURS)  # the models with a memory, which the paper is about
NAMES = TITLES | {"transformer": "Transformer", "ntm" + OURS: "NTM, our recipe", "pntm" + OURS: "P-NTM, our recipe"}
NAMES |= {group + END: f"{NAMES[group]}, end token" for group in MACHINES}
BASELINES = ("lstm", "mingru", "transformer", *(m for m in TITLES if m.startswith("transformer")))
ORDER = [*BASELINES, *MACHINES, *(group + END for group in MACHINES)]
# Options in which a run may differ from its preset and still be in the tables; the captions say how it differs.
ANYWHERE = {"form", "backend", "checkpoint_every", "steps", "cool_down", "samples"}
LONGEST = 200  # characters that a name in a file may have
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
        """Processor time of training and evaluation together; empty if unknown."""
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
    left_out: list[str] = field(default_factory=list)  # with the reasons

    def of(self, group: str, task: str | None = None) -> list[Trained]:
        """The runs of a group; "transformer" stands for all four positional encodings."""

        def belongs(run: Trained) -> bool:
            return run.group == group or (group == "transformer" and run.group.startswith("transformer-"))

        return [run for run in self.runs if belongs(run) and task in (None, run.config.task)]


def group_of(config: Config) -> str:
    ours = OURS if config.preset == "recipe" and config.model + OURS in MACHINES else ""
    return config.model + ours + (END if config.end_token else "")


def gather(directory: Path) -> Material:
    """Collect everything usable below ``directory``; list the rest in ``left_out`` with the reason."""
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
        raise CheckpointError(f"{place}: it was not evaluated on inputs longer than in training")
    if why := _foreign(config, [r.config for r in found.runs] if result else []):
        found.left_out.append(f"{place}: {why}")
    elif result:
        found.runs.append(Trained(place, config, result, cost))
    elif cause:
        found.failed.append(Failed(place, config, cause))
    else:
        found.unfinished.append(place)


def _foreign(config: Config, known: list[Config]) -> str:
    """Why a run does not belong in the paper's tables; empty if it does."""
    if config.task not in paper.TASKS:
        return "its task is not one of the paper's"
    if group_of(config) not in ORDER:
        return f"{config.model}{' with an end token' * config.end_token} has no place in the paper's tables"
    same = {name: getattr(config, name) for name in ("model", "seed", "end_token")}
    rules = Config.of(TASKS[config.task], config.preset, **same)
    for name in (f.name for f in fields(Config) if f.name not in BUDGETS[config.preset]):
        here, there = getattr(config, name), getattr(rules, name)
        if here != there:
            return f"its {name} is {here!r}; --preset {config.preset} has {there!r}"
    if config.samples != SAMPLES and config.model in paper.SPREAD:  # the share of perfect runs depends on it
        return f"its samples is {config.samples}; the paper has {SAMPLES}"
    return "another run has the same configuration" if config in known else ""


def _add_other(path: Path, directory: Path, found: Material) -> None:
    """Add a collected run, an evaluation or a benchmark, told apart by their keys; ignore other files."""
    content = read_json(path)
    if not isinstance(content, dict):
        return
    if content.get("pntm") == KIND:
        run = collected(content)
        if run is None:
            raise CheckpointError(f"{path}: expected a run in the format of pntm sweep collect")
        cause = f"{run.failure.get('state')}: {run.failure.get('cause')}" if run.failure else None
        _add(path, run.config, run.result, run.cost, cause, found)
    elif {"task", "model", "by_length", "tau", "memory_size"} <= content.keys():
        if not _is_evaluation(content):
            raise CheckpointError(f"{path}: expected an evaluation in the format of pntm eval --json")
        found.evaluations.append(Far(path.relative_to(directory).with_suffix("").as_posix(), content))
    elif {"machine", "settings", "rows"} <= content.keys():
        if _is_bench(content):
            found.benches.append(content)
        elif not _is_step_bench(content):
            raise CheckpointError(f"{path}: expected a benchmark in the format of pntm bench")


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

    def timed(row: Any) -> bool:
        return isinstance(row, dict) and is_number(row.get("ms_mean")) and is_number(row.get("ms_best"))

    return isinstance(rows, list) and bool(rows) and all(map(timed, rows))


def budgets(material: Material, groups: Iterable[str]) -> str:
    """How our runs of these groups were trained, in sentences; groups that were trained alike are named together."""
    alike: dict[str, list[str]] = {}
    for group in groups:
        found = Counter(_training(run.config) for run in material.of(group)).most_common()
        for text, count in found:
            of_several = f" ({count} run{'s' if count > 1 else ''})" if len(found) > 1 else ""
            alike.setdefault(text, []).append(NAMES[group] + of_several)
    return " ".join(f"{'; '.join(names)}: {text}" for text, names in alike.items())


def _training(c: Config) -> str:
    share, times = SOLVED
    solved = f"once {share:.0%} of the inputs of lengths up to {c.max_length} were answered correctly"
    solved += f" in {times} progress tests in a row"
    later = f"once {ANSWERS:.0%} of the inputs were answered correctly" if c.rounding else "once the task was solved"
    steps = f"We trained for {'at most ' if c.stop_when_solved else ''}{c.steps:,} steps with batches of {c.batch_size}"
    steps += f" and a memory of {_cells(c.memory_size)} cells" if c.memory_size != TRAINING_MEMORY else ""
    steps += f", and of {_cells(c.learnt_memory_size)} cells once the task was solved" if c.learnt_memory_size else ""
    rate = f"rose to {c.lr:g} over {c.warm_up:,} steps" if c.warm_up else f"was {c.lr:g}"
    rate += f" and fell to 0 over the last {c.cool_down:,} steps" if c.cool_down else ""
    rate += ", which began early once the task was solved" if c.cool_down and c.stop_when_solved else ""
    noise = f"Normal noise of standard deviation {c.noise:g} ({LATER_NOISE * c.noise:g} {later}) was added"
    blur = f"a share of {c.blur:g} ({LATER_NOISE * c.blur:g} once the task was solved) of every shift was spread"
    sentences = (
        (True, steps),
        (c.lr != LEARNING_RATE or c.warm_up or c.cool_down, f"The learning rate {rate}"),
        (c.stop_when_solved and not c.cool_down, "Training stopped once the task was solved"),
        (c.stop_when_solved or c.learnt_memory_size, f"A task counts as solved {solved}"),
        (c.start == "flax", "Initial weights were drawn as in Flax"),
        (c.head_gain != 1, f"The initial shift weights of half of the heads were multiplied by {c.head_gain:g}"),
        (c.restart_after, f"A run started over with new weights if it did not {in_words(c.restart_after)}"),
        (c.clip, f"Gradients were scaled down to an infinity norm of at most {c.clip:g}"),
        (c.noise, f"{noise} to the logits of shifts and gates in half of every batch"),
        (c.blur, f"In half of every batch, {blur} over all three"),
        (c.rounding, f"In the other half, shifts and gates were rounded by growing thresholds {later}"),
        (c.tau == "auto" and not c.rounding, f"The thresholds were chosen on lengths 1 to {c.max_length}"),
        (c.samples != SAMPLES, f"The evaluation had {c.samples} inputs of each length"),
    )
    return " ".join(f"{sentence}." for holds, sentence in sentences if holds)


def _cells(size: Any) -> str:
    return str(size) if isinstance(size, int) else f"{size[0]} to {size[1]}"
