"""The bench as a picture: seconds, and speed-up over NTM, against the length; log-log as in the paper."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

from pntm_np.files import write_atomically

COLOURS = {"sequential": "C7", "paper": "C3", "chunked": "C0", "fused": "C2"}


def plot_bench(report: dict[str, Any], path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    lines: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for row in report["rows"]:
        if row["mean"]:
            lines.setdefault((row["model"], row["form"]), []).append(row)
    figure, (time, speedup) = pyplot.subplots(1, 2, figsize=(11, 4.4), layout="constrained")
    for (model, form), rows in sorted(lines.items()):
        style = {
            "color": COLOURS[form],
            "ls": "--" if model == "ntm" else "-",
            "marker": "s" if model == "ntm" else "o",
        }
        name = f"{'NTM' if model == 'ntm' else 'P-NTM'}, {form}"
        lengths, means = [r["length"] for r in rows], [r["mean"] for r in rows]
        spread = [min(r["std"], 0.9 * r["mean"]) for r in rows]
        time.errorbar(lengths, means, spread, ms=3.5, lw=1.4, capsize=2, label=name, **style)
        shown = [r for r in rows if r["speedup_over_ntm"]]
        if model == "pntm" and shown:
            speedup.plot(
                [r["length"] for r in shown],
                [r["speedup_over_ntm"] for r in shown],
                ms=3.5,
                lw=1.4,
                label=name,
                **style,
            )
    speedup.axhline(1, color="0.6", lw=1)
    for axes, label in ((time, "seconds for a forward pass"), (speedup, "times faster than the fastest NTM")):
        axes.set(xscale="log", yscale="log", xlabel="length of the sequence", ylabel=label)
        axes.set_xscale("log", base=2)
        axes.grid(alpha=0.3, which="major")
        if axes.has_data() and axes.get_legend_handles_labels()[0]:
            axes.legend(fontsize=8)
    machine, settings = report["machine"], report["settings"]
    device = machine["processor"] if settings["backend"] == "cpu" else machine["device"]
    figure.suptitle(
        f"batch {settings['batch']}, mean of {settings['runs']} runs; {device}, {settings['threads']} threads",
        fontsize=10,
    )
    content = io.BytesIO()
    figure.savefig(content, dpi=150, format=path.suffix[1:].lower())
    pyplot.close(figure)
    write_atomically(path, content.getvalue())
