"""The figures, each written as PNG and SVG with its data as CSV."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from pntm_np.experiments.bench.forward import need
from pntm_np.experiments.bench.plot import LIKE_FOR_LIKE, against_length, conditions, lines, plot_bench, style
from pntm_np.experiments.report import paper
from pntm_np.experiments.report.gather import END, MACHINES, NAMES, ORDER, OURS, Material, Trained, budgets
from pntm_np.experiments.report.tables import BUDGET, LONGER
from pntm_np.protocol import BENCH_LENGTHS, LONGEST, MAX_LENGTH
from pntm_np.runtime.plotting import pyplot, write_figure
from pntm_np.runtime.untrusted import Json

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")  # Okabe and Ito
SHORT = {f"transformer-{name.lower()}": name for name in ("NoPE", "RoPE", "ALiBi", "FIRE")}
SHORT |= {"ntm" + OURS: "NTM\nours", "pntm" + OURS: "P-NTM\nours"}
SHORT |= {group + END: f"{SHORT.get(group, NAMES[group])}\nend" for group in MACHINES}


@dataclass(frozen=True)
class Figure:
    name: str
    title: str
    caption: str
    alternative: str  # the alt text
    columns: list[str]
    rows: list[list]
    draw: Callable[..., None]  # takes the paths to write to


def all_figures(material: Material) -> list[Figure]:
    found = []
    if material.runs:
        found.append(sensitivity(material))
        if groups := [g for end in ("", END) for m in MACHINES if material.of(g := m + end)]:
            found.append(by_length(material, groups))
    for bench in material.benches[:1]:
        found += [speed(bench), memory_use(bench)]
    return found


def sensitivity(material: Material) -> Figure:
    groups = [group for group in ORDER if group != "transformer" and material.of(group)]
    rows = [[r.config.task, NAMES[r.group], str(r.config.seed), r.score] for r in material.runs]
    perfect = sum(run.perfect for run in material.runs)
    names, slanted = [SHORT.get(g, NAMES[g]) for g in groups], {}
    if len(groups) > 7:  # side by side, the names would overlap
        names = [name.replace("\n", " ") for name in names]
        slanted = {"rotation": 35, "ha": "right", "rotation_mode": "anchor"}

    def draw(*paths: Path) -> None:
        figure, grid = pyplot().subplots(2, 3, figsize=(12, 6.6), layout="constrained", sharey=True, sharex=True)
        for axes, task in zip(grid.flat, paper.TASKS, strict=True):
            for k, group in enumerate(groups):
                _strip(axes, k, material.of(group, task), _colour(group))
            axes.set_title(task, fontsize=11)
            axes.set_xticks(range(len(groups)), names, fontsize=8, **slanted)
            axes.set(ylim=(-0.04, 1.16), yticks=np.linspace(0, 1, 6), xlim=(-0.6, len(groups) - 0.4))
            axes.grid(axis="y", alpha=0.3)
        figure.supylabel(f"exact match on lengths {LONGER}", fontsize=10)
        write_figure(figure, *paths)

    return Figure(
        "sensitivity",
        "Sensitivity to initialisation",
        "Each dot is a run. Where there are at least four, a box spans the middle half of them, and its line is the "
        f"median. The fractions above count the perfect runs. {BUDGET}. {budgets(material, groups)}",
        f"Strip and box plots of the scores of {len(rows)} runs by task and architecture, {perfect} of them perfect.",
        ["task", "architecture", "seed", "score"],
        rows,
        draw,
    )


def _colour(group: str) -> str:
    family = ("pntm" + OURS, "ntm" + OURS, "pntm", "lstm", "ntm")
    group = group.removesuffix(END)
    return COLOURS[family.index(group)] if group in family else COLOURS[5]


def _strip(axes: Axes, place: int, runs: list[Trained], colour: str) -> None:
    scores = np.array([run.score for run in runs])
    if not len(scores):
        return
    if len(scores) >= 4:
        box = {"facecolor": colour, "alpha": 0.2, "edgecolor": colour}
        line = {"color": colour, "lw": 1.2}
        axes.boxplot(
            scores, positions=[place], widths=0.6, patch_artist=True, showfliers=False, boxprops=box,
            medianprops=line, whiskerprops=line, capprops=line, manage_ticks=False,
        )  # fmt: skip
    aside = np.linspace(-0.2, 0.2, len(scores)) if len(scores) > 1 else [0]
    axes.scatter(place + np.array(aside), scores, s=16, color=colour, edgecolor="white", lw=0.4, zorder=3)
    perfect = sum(run.perfect for run in runs)
    axes.text(place, 1.07, f"{perfect}/{len(runs)}", ha="center", fontsize=8, color="0.25")


def by_length(material: Material, groups: list[str]) -> Figure:
    runs = [run for group in groups for run in material.of(group)]
    rows = []
    for run in runs:
        name = [run.config.task, NAMES[run.group], str(run.config.seed)]
        rows += [[*name, row["length"], row["exact_match"]] for row in run.result["by_length"]]

    def draw(*paths: Path) -> None:
        ticks = range(0, LONGEST + 1, MAX_LENGTH)
        figure, grid = pyplot().subplots(
            len(groups), 6, figsize=(13, 0.9 + 2 * len(groups)), layout="constrained", sharex=True, sharey=True,
            squeeze=False,
        )  # fmt: skip
        for k, group in enumerate(groups):
            for axes, task in zip(grid[k], paper.TASKS, strict=True):
                axes.axvspan(0, MAX_LENGTH, color="0.9", lw=0)
                shown = material.of(group, task)
                if not shown:
                    axes.text(LONGEST // 2, 0.5, "no runs", ha="center", va="center", color="0.45", fontsize=9)
                for n, run in enumerate(shown):
                    at = [(row["length"], row["exact_match"]) for row in run.result["by_length"]]
                    axes.plot(
                        *zip(*at, strict=True), color=COLOURS[n % 6], ls=("-", "--")[n // 6 % 2], lw=1.3, alpha=0.85
                    )
                axes.set(xlim=(0, LONGEST), ylim=(-0.04, 1.06), xticks=ticks, yticks=(0, 0.5, 1))
                axes.grid(alpha=0.3)
                if k == 0:
                    axes.set_title(task, fontsize=11)
            grid[k][0].set_ylabel(NAMES[group].replace(", ", "\n"), fontsize=11)
        figure.supxlabel("input length (training lengths are shaded)", fontsize=10)
        write_figure(figure, *paths)

    return Figure(
        "by-length",
        "Accuracy against length",
        "Each curve shows the exact match of a run by input length. The training lengths are shaded. "
        f"{BUDGET}. {budgets(material, groups)}",
        f"Curves of exact match against input lengths 1 to {LONGEST} for {len(runs)} runs, with a panel for each task "
        "and architecture.",
        ["task", "architecture", "seed", "length", "exact match"],
        rows,
        draw,
    )


def speed(bench: Json) -> Figure:
    ntm = paper.SECONDS["NTM"]
    beside = {
        f"paper, {name} ({paper.DEVICE})": (BENCH_LENGTHS, [a / b for a, b in zip(ntm, seconds, strict=True)])
        for name, seconds in paper.SECONDS.items()
        if name != "NTM"
    }
    keys = ("model", "form", "length", "mean", "std", "best", "speedup_over_ntm", "ntm_form")
    return Figure(
        "speed-up",
        "Time and speed-up over NTM",
        f"Left: the time of a forward pass ({conditions(bench)}). Right: the speed-up over NTM, and the ratios of the "
        f"paper's means on an {paper.DEVICE}. {LIKE_FOR_LIKE} The chunked form shows what parallelism gains; the fused "
        "form is a fast loop.",
        "Two log-log plots against length: the time of a forward pass of every form, and the speed-up over NTM.",
        list(keys),
        [[row[key] for key in keys] for row in bench["rows"]],
        lambda *paths: plot_bench(bench, *paths, beside=beside),
    )


def memory_use(bench: Json) -> Figure:
    batch = bench["settings"]["batch"]
    left_out = [(r["model"], r["form"], r["length"]) for r in bench["rows"] if not r["mean"]]
    untried = {key: need(key[1], batch, key[2]) for key in left_out}
    rows = [[r["model"], r["form"], r["length"], r["peak_bytes"], "measured"] for r in bench["rows"] if r["peak_bytes"]]
    rows += [[*key, estimate, "estimated"] for key, estimate in untried.items()]

    def draw(*paths: Path) -> None:
        figure, axes = pyplot().subplots(figsize=(7, 4.4), layout="constrained")
        for (model, form), timed in lines(bench).items():
            measured = [r for r in timed if r["peak_bytes"]]
            axes.plot([r["length"] for r in measured], [r["peak_bytes"] for r in measured], **style(model, form))
        more = [(length, size) for (_, form, length), size in untried.items() if form == "paper"]
        if more:
            look = style("pntm", "paper") | {"mfc": "white", "ls": ":", "label": "P-NTM, paper (estimated)"}
            axes.plot(*zip(*more, strict=True), **look)
        against_length(axes, "peak memory, bytes")
        write_figure(figure, *paths)

    return Figure(
        "memory",
        "Memory against length",
        f"The memory that a forward pass adds to the process at its peak, inputs and outputs included "
        f"({conditions(bench)}). The paper's form keeps the memory of every time step. Hollow markers are estimates of "
        "runs that were not tried. The paper reports no memory use.",
        "A log-log plot of peak memory against length for every form; the paper's form needs by far the most.",
        ["model", "form", "length", "bytes", "how"],
        rows,
        draw,
    )
