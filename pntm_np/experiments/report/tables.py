"""The tables: ours and the paper's, one beside the other."""

from __future__ import annotations

import csv
import io
import math
import statistics
from dataclasses import dataclass
from typing import Any

from pntm_np.evaluation.report import share
from pntm_np.experiments.bench.clock import duration
from pntm_np.experiments.bench.forward import AGREE
from pntm_np.experiments.bench.plot import conditions
from pntm_np.experiments.bench.record import partner
from pntm_np.experiments.report import paper
from pntm_np.experiments.report.gather import END, MACHINES, NAMES, ORDER, Far, Material, Trained, budgets
from pntm_np.protocol import BATCH, BENCH_LENGTHS, EVALUATION_SEED, LONGEST, MAX_LENGTH, SAMPLES, SEEDS, STEPS
from pntm_np.runtime.untrusted import Json, printable

ARCHITECTURES = ("lstm", "mingru", "transformer", *MACHINES)
TRANSFORMERS = ("transformer-nope", "transformer-rope", "transformer-alibi", "transformer-fire")
BUDGET = (
    f"The paper trained ten runs each with batches of {BATCH} for up to {STEPS:,} iterations, and did "
    f"not look beyond length {MAX_LENGTH} meanwhile"
)
LONGER = f"{MAX_LENGTH + 1} to {LONGEST}"  # the lengths of the score
FAR = tuple(range(2 * MAX_LENGTH, LONGEST + 1, MAX_LENGTH))  # single lengths to look at
TIME = 4096  # steps of NTM whose time P-NTM is given


@dataclass(frozen=True)
class Table:
    name: str  # of its files
    title: str
    columns: list[str]
    rows: list[list]  # text, numbers or None
    caption: str
    marked: bool = False  # perfect scores in bold, for the eye

    def __post_init__(self) -> None:
        """Some of the text was read from files."""
        object.__setattr__(self, "caption", printable(self.caption))
        rows = [[printable(value) if isinstance(value, str) else value for value in row] for row in self.rows]
        object.__setattr__(self, "rows", rows)

    def as_csv(self) -> str:
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerows([self.columns, *self.rows])
        return text.getvalue()

    def shown(self, value: Any) -> str:
        if value is None:
            return "-"
        if isinstance(value, float):
            return share(value, 2)
        return f"{value:,}" if isinstance(value, int) else str(value)

    def as_markdown(self) -> str:
        def bold(row: list[Any], k: int) -> str:
            text = self.shown(row[k])
            return f"**{text}**" if self.marked and isinstance(row[k], float) and row[k] == 1 else text

        lines = ["| " + " | ".join(self.columns) + " |", "|---" * len(self.columns) + "|"]
        lines += ["| " + " | ".join(in_markdown(bold(row, k)) for k in range(len(row))) + " |" for row in self.rows]
        return "\n".join(lines) + f"\n\n{in_markdown(self.caption)}\n"


def in_markdown(text: str) -> str:
    """Text that opens neither a column nor a tag."""
    return text.replace("|", "\\|").replace("<", "&lt;")


def best(runs: list[Trained]) -> float | None:
    return max((run.score for run in runs), default=None)


def all_tables(material: Material) -> list[Table]:
    found: list[Table] = []
    if material.runs:
        ending = [group + END for group in MACHINES if material.of(group + END)]
        found += [best_scores(material, (*ARCHITECTURES, *ending)), spread(material)]
        if material.of("transformer"):
            found.append(best_scores(material, TRANSFORMERS))
        found.append(every_run(material))
    if material.evaluations:
        found.append(far(material.evaluations))
    for bench in material.benches[:1]:
        found += [timings(bench), same_time(bench)]
    return found


def best_scores(material: Material, groups: tuple[str, ...]) -> Table:
    rows: list[list] = []
    for group in groups:
        runs = [material.of(group, task) for task in paper.TASKS]
        counts = sorted({len(of_task) for of_task in runs})
        each = f"{counts[0]}" if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
        rows.append([NAMES[group], "ours", *map(best, runs), each])
        if group in paper.BEST:
            rows.append(["", "paper", *paper.BEST[group], str(len(SEEDS) * (4 if group == "transformer" else 1))])
    encodings = groups == TRANSFORMERS
    shown = ORDER if "transformer" in groups else groups
    return Table(
        "transformers" if encodings else "best",
        "Best score of the Transformers by positional encoding" if encodings else "Best score by architecture and task",
        ["architecture", "", *paper.TASKS.values(), "runs each"],
        rows,
        f"Exact match on lengths {LONGER}, the best of the runs of each task"
        f"{'' if encodings else ', for Transformers of all four positional encodings'}. {BUDGET}. "
        f"Ours: {budgets(material, [g for g in shown if g != 'transformer'])}",
        marked=True,
    )


def spread(material: Material) -> Table:
    rows: list[list] = []
    for group in ORDER:
        runs, failed = material.of(group), material.given_up(group)
        if not runs or group == "transformer":
            continue
        scores = [run.score for run in runs]
        perfect = sum(run.perfect for run in runs) / (len(runs) + failed)
        trained = statistics.fmean(run.mean(1, MAX_LENGTH) for run in runs)
        tasks = len({run.config.task for run in runs})
        row = [NAMES[group], tasks, len(runs), failed, perfect]
        row += [statistics.fmean(scores), statistics.pstdev(scores), trained]
        rows.append([*row, *paper.SPREAD.get(group, (None, None, None))])
    columns = ["architecture", "tasks", "runs", "failed", "perfect", "mean", "deviation", f"mean on 1 to {MAX_LENGTH}"]
    return Table(
        "spread",
        "How many runs are perfect",
        [*columns, "paper: perfect", "paper: mean", "paper: deviation"],
        rows,
        f"The share of runs, over all tasks and seeds, that answered all inputs of lengths {LONGER} exactly, "
        f"{(LONGEST - MAX_LENGTH) * SAMPLES:,} if nothing else is said; a run that failed is not perfect. "
        "Mean and deviation (of the population) of the scores of all runs that ended, "
        f"and their mean exact match on the training lengths. {BUDGET}. Ours: {budgets(material, ORDER)}",
    )


def every_run(material: Material) -> Table:
    rows = []
    for run in material.runs:
        c, r = run.config, run.result
        cuts = [f"{r['tau']:g}" if c.model == "pntm" else "-", f"{r['gate_tau']:g}" if r["gate_tau"] else "-"]
        what = [NAMES[run.group], c.task, str(c.seed), c.batch_size, f"{c.lr:g}"]
        what += [r["step"], r["restarts"], r["stopped_by"]]
        single = (run.mean(n, n) for n in FAR)
        rows.append([*what, run.core_minutes, *cuts, run.score, run.mean(1, MAX_LENGTH), *single])
    columns = ["architecture", "task", "seed", "batch", "rate", "iterations", "restarts", "ended by"]
    columns += ["core-minutes", "tau", "gate tau", "score"]
    failed = "".join(f" {run.place.name} failed: {run.cause}." for run in material.failed)
    return Table(
        "runs",
        "Every run",
        [*columns, f"on 1 to {MAX_LENGTH}", *(f"at {n}" for n in FAR)],
        rows,
        f"Score: exact match on lengths {LONGER}; beside it on the training lengths, and on single lengths. "
        f"Core-minutes are of training and evaluation together.{failed}",
    )


def far(evaluations: list[Far]) -> Table:
    rows = []
    for name, found in evaluations:
        lengths = [row["length"] for row in found["by_length"]]
        span = str(lengths[0]) if len(lengths) == 1 else f"{lengths[0]} to {lengths[-1]}"
        samples = sum(row["samples"] for row in found["by_length"])
        machine = (NAMES.get(found["model"]) or found["model"]) + (", end token" if found.get("end_token") else "")
        row = [found["task"], machine, span, samples, str(found["seed"])]
        row += [found["exact_match"], found["token_accuracy"], f"{found['tau']:g}", f"{found.get('gate_tau', 0):g}"]
        rows.append([*row, found["memory_size"], name])
    order = {task: k for k, task in enumerate(paper.TASKS)}
    rows = sorted(rows, key=lambda row: (row[1], order.get(row[0], 99), int(row[2].split()[0])))
    columns = ["task", "machine", "lengths", "inputs", "seed", "exact match", "token accuracy", "tau", "gate tau"]
    return Table(
        "checkpoints",
        "Single machines",
        [*columns, "cells", "file"],
        rows,
        "Evaluations of single machines, as pntm eval printed them. No machine was chosen by them. Runs are judged on "
        f"the inputs of seed {EVALUATION_SEED}; those of other seeds are different ones.",
        marked=True,
    )


def timings(bench: Json) -> Table:
    lengths = sorted({row["length"] for row in bench["rows"]})
    kinds = list(dict.fromkeys((row["model"], row["form"]) for row in bench["rows"]))
    at = {(row["model"], row["form"], row["length"]): row for row in bench["rows"]}

    def cell(kind: tuple[str, str], length: int) -> str:
        row = at.get((*kind, length), {})
        if not row.get("mean"):
            return "-"
        return f"{duration(row['mean'])} ± {duration(row['std'])}{'' if row['agrees'] else ' *'}"

    rows = []
    for length in lengths:
        theirs = [dict(zip(BENCH_LENGTHS, s, strict=True)).get(length) for s in paper.SECONDS.values()]
        shown = ["-" if s is None else duration(s) for s in theirs]
        rows.append([length, *(cell(kind, length) for kind in kinds), *shown])
    columns = [f"{NAMES[model]}, {form}" for model, form in kinds]
    return Table(
        "timings",
        "Time of a forward pass",
        ["length", *columns, *(f"paper: {name}" for name in paper.SECONDS)],
        rows,
        f"Ours: {conditions(bench)}, mean and deviation; the paper's means on an {paper.DEVICE}. A dash: it was not "
        f"timed, for it does not fit into memory or takes too long. A star: its outputs differ from the loop's by more "
        f"than {AGREE:g} of the largest.",
    )


def length_in(seconds: float, lengths: list[int], times: list[float]) -> tuple[float, bool]:
    """The length that takes so long, between the lengths that were timed; whether all of them take less."""
    if times[-1] <= seconds:
        return lengths[-1], True
    for k in range(len(lengths) - 1, 0, -1):
        if times[k - 1] <= seconds:
            between = math.log(seconds / times[k - 1]) / math.log(times[k] / times[k - 1])
            return lengths[k - 1] * (lengths[k] / lengths[k - 1]) ** between, False
    return float("nan"), False


def same_time(bench: Json) -> Table:
    """The paper's comparison: how far P-NTM gets in the time that NTM takes for 4,096 steps."""
    timed = [row for row in bench["rows"] if row["model"] == "ntm" and row["length"] == TIME and row["mean"]]
    ntm, rows = {row["form"]: row["mean"] for row in timed}, []
    lines: dict[str, list[tuple[int, float]]] = {}
    for row in bench["rows"]:
        if row["model"] == "pntm" and row["mean"]:
            lines.setdefault(row["form"], []).append((row["length"], row["mean"]))
    for form, line in lines.items():
        if beside := ntm.get(partner(form)):
            rows.append(_reach(f"ours, P-NTM {form}, NTM {partner(form)}", beside, line))
    theirs = dict(zip(BENCH_LENGTHS, paper.SECONDS["NTM"], strict=True))[TIME]
    for name in ("P-NTM, sequential", "P-NTM, parallel"):
        line = list(zip(BENCH_LENGTHS, paper.SECONDS[name], strict=True))
        rows.append(_reach(f"paper, {name}", theirs, line))
    return Table(
        "same-time",
        f"How far P-NTM gets in the time NTM takes for {TIME:,} steps",
        ["", "NTM's time", "steps of P-NTM", "times as many"],
        rows,
        "Ours like for like: NumPy beside NumPy, compiled beside compiled; between the lengths that were timed on a "
        "straight line of logarithms.",
    )


def _reach(name: str, seconds: float, line: list[tuple[int, float]]) -> list[Any]:
    reach, more = length_in(seconds, [n for n, _ in line], [t for _, t in line])
    if math.isnan(reach):
        return [name, duration(seconds), "-", "-"]
    over = "over " if more else ""
    return [name, duration(seconds), f"{over}{reach:,.0f}", f"{over}{reach / TIME:.2g} x"]
