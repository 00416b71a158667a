"""The rows that are printed of a report: columns, and text or numbers in them."""

from __future__ import annotations

import math
from typing import Any

from pntm_np.experiments.bench.clock import duration
from pntm_np.runtime import ram

Table = tuple[list[str], list[list[Any]]]


def forward_rows(report: dict[str, Any]) -> Table:
    columns, rows = ["length", "model", "form", "mean", "deviation", "best", "speed-up", "over NTM", "memory", ""], []
    for row in report["rows"]:
        name = [row["length"], row["model"], row["form"]]
        if row.get("skipped"):
            rows.append([*name, "-", "-", "-", "-", "", "-", f"not tried: {row['skipped']}"])
            continue
        speedup, peak = row["speedup_over_ntm"], row["peak_bytes"]
        rows.append(
            [
                *name,
                duration(row["mean"]),
                duration(row["std"]),
                duration(row["best"]),
                "-" if speedup is None else f"{speedup:.2f} x",
                "" if speedup is None else row["ntm_form"],
                "-" if peak is None else ram.size(peak),
                "" if row["agrees"] else f"outputs differ by {row['difference'] or math.inf:.1e}",
            ]
        )
    return columns, rows


def step_rows(report: dict[str, Any]) -> Table:
    columns = ["model", "form", "length", "ms", "best", "tokens/s", "floor, ms", "best / floor"]
    rows = [
        [
            row["model"],
            row["form"] or "",
            row["length"],
            f"{row['ms_mean']:,.1f}",
            f"{row['ms_best']:,.1f}",
            f"{row['tokens_per_second']:,.0f}",
            f"{row['floor_ms']:,.1f}",
            f"{row['times_floor']:.1f} x",
        ]
        for row in report["rows"]
    ]
    return columns, rows
