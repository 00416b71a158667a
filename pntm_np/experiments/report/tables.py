"""The tables, each with our results beside the paper's."""

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
from pntm_np.experiments.bench.plot import LIKE_FOR_LIKE, conditions
from pntm_np.experiments.bench.record import partner
from pntm_np.experiments.report import paper
from pntm_np.experiments.report.gather import END, MACHINES, NAMES, ORDER, Far, Material, Trained, budgets, group_of
from pntm_np.protocol import BATCH, BENCH_LENGTHS, EVALUATION_SEED, LONGEST, MAX_LENGTH, SAMPLES, SEEDS, STEPS
from pntm_np.runtime.untrusted import Json, printable

ARCHITECTURES = ("lstm", "mingru", "transformer", *MACHINES)
TRANSFORMERS = ("transformer-nope", "transformer-rope", "transformer-alibi", "transformer-fire")
BUDGET = (
    f"The paper trained ten runs of each for up to {STEPS:,} steps with batches of {BATCH}, and evaluated no length "
    f"above {MAX_LENGTH} during training"
)
LONGER = f"{MAX_LENGTH + 1} to {LONGEST}"  # lengths whose mean exact match is the score
FAR = tuple(range(2 * MAX_LENGTH, LONGEST + 1, MAX_LENGTH))  # single lengths shown beside the score
TIME = 4096  # time steps; P-NTM is given the time that NTM takes for them


@dataclass(frozen=True)
class Table:
    name: str  # stem of its files
    title: str
    columns: list[str]
    rows: list[list]  # text, numbers or None
    caption: str
    marked: bool = False  # show perfect scores in bold

    def __post_init__(self) -> None:
        """Make text printable: some of it was read from files."""
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
    """Escape what would open a column or a tag."""
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
        f"Each number is the best score of a task's runs, where the score is the exact match on lengths {LONGER}. "
        f"{'' if encodings else 'Transformers are the best of four positional encodings. '}{BUDGET}. "
        f"{budgets(material, [g for g in shown if g != 'transformer'])}",
        marked=True,
    )


def spread(material: Material) -> Table:
    rows: list[list] = []
    for group in ORDER:
        runs, failed = material.of(group), sum(group_of(run.config) == group for run in material.failed)
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
        f"A run is perfect if it answered all inputs of lengths {LONGER} correctly, "
        f"{(LONGEST - MAX_LENGTH) * SAMPLES:,} unless stated otherwise; a run that failed is not. The share of perfect "
        "runs is over all tasks and seeds. Mean and (population) standard deviation are those of the scores of all "
        f"finished runs, followed by their mean exact match on the training lengths. {BUDGET}. "
        f"{budgets(material, ORDER)}",
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
    columns = ["architecture", "task", "seed", "batch", "learning rate", "steps", "restarts", "ended by"]
    columns += ["core-minutes", "tau", "gate tau", "score"]
    failed = "".join(f" {run.place.name} failed: {run.cause}." for run in material.failed)
    return Table(
        "runs",
        "Every run",
        [*columns, f"on 1 to {MAX_LENGTH}", *(f"at {n}" for n in FAR)],
        rows,
        f"The score is the exact match on lengths {LONGER}. The columns after it show the exact match on the training "
        f"lengths and at single lengths. Core-minutes cover training and evaluation.{failed}",
    )


def far(evaluations: list[Far]) -> Table:
    rows = []
    for name, found in evaluations:
        lengths = [row["length"] for row in found["by_length"]]
        span = str(lengths[0]) if len(lengths) == 1 else f"{lengths[0]} to {lengths[-1]}"
        samples = sum(row["samples"] for row in found["by_length"])
        model = (NAMES.get(found["model"]) or found["model"]) + (", end token" if found.get("end_token") else "")
        row = [found["task"], model, span, samples, str(found["seed"])]
        row += [found["exact_match"], found["token_accuracy"], f"{found['tau']:g}", f"{found.get('gate_tau', 0):g}"]
        rows.append([*row, found["memory_size"], name])
    order = {task: k for k, task in enumerate(paper.TASKS)}
    rows = sorted(rows, key=lambda row: (row[1], order.get(row[0], 99), int(row[2].split()[0])))
    columns = ["task", "model", "lengths", "inputs", "seed", "exact match", "token accuracy", "tau", "gate tau"]
    return Table(
        "checkpoints",
        "Single models",
        [*columns, "memory size", "file"],
        rows,
        "These are evaluations of single models, made by pntm eval. None of them was used to choose a model. The "
        f"scores of runs are on the inputs of seed {EVALUATION_SEED}; another seed has other inputs.",
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
        f"Our times are mean ± standard deviation ({conditions(bench)}). The paper's are means on an {paper.DEVICE}. A "
        "dash marks what was not timed, because it does not fit into memory or takes too long. A star marks outputs "
        f"that differ from the reference's by more than {AGREE:g} of the largest output.",
    )


def length_in(seconds: float, lengths: list[int], times: list[float]) -> tuple[float, bool]:
    """The length that takes ``seconds``, interpolated between the timed ones; and whether all of these take less."""
    if times[-1] <= seconds:
        return lengths[-1], True
    for k in range(len(lengths) - 1, 0, -1):
        if times[k - 1] <= seconds:
            between = math.log(seconds / times[k - 1]) / math.log(times[k] / times[k - 1])
            return lengths[k - 1] * (lengths[k] / lengths[k - 1]) ** between, False
    return float("nan"), False


def same_time(bench: Json) -> Table:
    """The paper's comparison: the length that P-NTM reaches in the time that NTM takes for 4,096 time steps."""
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
        f"How far P-NTM gets in the time NTM takes for {TIME:,} time steps",
        ["", "NTM's time", "time steps of P-NTM", "times as many"],
        rows,
        f"{LIKE_FOR_LIKE} Between timed lengths, the length is interpolated on logarithmic scales.",
    )


def _reach(name: str, seconds: float, line: list[tuple[int, float]]) -> list[Any]:
    reach, more = length_in(seconds, [n for n, _ in line], [t for _, t in line])
    if math.isnan(reach):
        return [name, duration(seconds), "-", "-"]
    over = "over " if more else ""
    return [name, duration(seconds), f"{over}{reach:,.0f}", f"{over}{reach / TIME:.2g} x"]
