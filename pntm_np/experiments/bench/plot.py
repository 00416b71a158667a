"""Plot time, and speed-up over NTM, against the length; log-log as in the paper."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pntm_np.experiments.bench.record import partner
from pntm_np.runtime.plotting import pyplot, write_figure
from pntm_np.runtime.untrusted import Json, printable

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# safe for colour-blind readers (Okabe and Ito)
COLOURS = {"sequential": "#666666", "paper": "#D55E00", "chunked": "#0072B2", "fused": "#009E73"}
LIKE_FOR_LIKE = "P-NTM and NTM are compared like for like: compiled with compiled code, array operations with the same."
Rows = list[Json]


def lines(report: Json) -> dict[tuple[str, str], Rows]:
    found: dict[tuple[str, str], Rows] = {}
    for row in report["rows"]:
        if row["mean"]:
            found.setdefault((row["model"], row["form"]), []).append(row)
    return dict(sorted(found.items()))


def style(model: str, form: str) -> dict[str, Any]:
    ntm = model == "ntm"
    line = {"color": COLOURS[form], "ls": "--" if ntm else "-", "marker": "s" if ntm else "o", "ms": 3.5, "lw": 1.4}
    return line | {"label": f"{'NTM' if ntm else 'P-NTM'}, {form}"}


def conditions(report: Json) -> str:
    machine, settings = report["machine"], report["settings"]
    device = machine["processor"] if settings["backend"] == "cpu" else machine["device"]
    counts = f"batch size {settings['batch']}, mean of {settings['runs']} runs, threads: {settings['threads']}"
    return printable(f"{counts}; {device}")


def plot_bench(
    report: Json, *paths: Path, beside: Mapping[str, tuple[Sequence[int], Sequence[float]]] | None = None
) -> None:
    """Draw to ``paths``; ``beside`` has speed-ups measured elsewhere, as (lengths, ratios) by name."""
    figure, (time, speedup) = pyplot().subplots(1, 2, figsize=(11, 4.4), layout="constrained")
    for (model, form), rows in lines(report).items():
        lengths, means = [r["length"] for r in rows], [r["mean"] for r in rows]
        spread = [min(r["std"], 0.9 * r["mean"]) for r in rows]
        time.errorbar(lengths, means, spread, capsize=2, **style(model, form))
        shown = [r for r in rows if r["speedup_over_ntm"]]
        if model == "pntm" and shown:
            look = style(model, form) | {"label": f"P-NTM, {form} (NTM, {partner(form)})"}
            speedup.plot([r["length"] for r in shown], [r["speedup_over_ntm"] for r in shown], **look)
    for (name, there), dots in zip((beside or {}).items(), (":", "-."), strict=False):
        speedup.plot(*there, color="black", ls=dots, lw=1.2, label=name)
    speedup.axhline(1, color="0.6", lw=1)
    for axes, label in ((time, "time of a forward pass, seconds"), (speedup, "speed-up over NTM")):
        against_length(axes, label)
    figure.suptitle(conditions(report), fontsize=10, parse_math=False)
    write_figure(figure, *paths)


def against_length(axes: Axes, label: str) -> None:
    axes.set(xscale="log", yscale="log", xlabel="sequence length", ylabel=label)
    axes.set_xscale("log", base=2)
    axes.grid(alpha=0.3, which="major")
    if axes.get_legend_handles_labels()[0]:
        axes.legend(fontsize=8)
