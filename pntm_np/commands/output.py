"""Functions that print: data to stdout, messages to stderr."""

from __future__ import annotations

import contextlib
from typing import Any

import click

from pntm_np.evaluation.report import LengthScore, bands, share
from pntm_np.runtime.untrusted import Json, printable


def say(message: str) -> None:
    """Print one line to stderr, with control characters escaped."""
    with contextlib.suppress(OSError):  # a closed stderr must not cost the result
        click.echo(printable(message), err=True)


def typed_value(value: Any) -> str:
    if isinstance(value, (tuple, list)):
        return ":".join(map(str, value))
    return "-" if value is None else f"{value:.12g}" if isinstance(value, float) else str(value)


def table(columns: list[str], rows: list[list]) -> None:
    """Print rows in columns to stdout: numbers to the right, text to the left."""
    from rich.console import Console
    from rich.table import Table

    shown = Table(box=None, pad_edge=False, header_style="bold")
    for k, column in enumerate(columns):
        numeric = all(isinstance(row[k], (int, float)) or row[k] == "-" for row in rows)
        shown.add_column(column, justify="right" if numeric else "left", no_wrap=True)
    for row in rows:
        shown.add_row(*(f"{x:,}" if isinstance(x, int) else printable(str(x)) for x in row))
    Console(width=200, highlight=False, markup=False).print(shown)  # a narrow terminal wraps lines; rich would cut them


def bands_table(scores: list[LengthScore], max_length: int) -> None:
    rows = []
    for b in bands(scores, max_length):
        figures = [share(b.exact_match, 3), share(b.token_accuracy, 3), f"{b.chance:.1e}"]
        rows.append([f"{b.first}..{b.last}", *figures, "trained on" if b.trained else "longer than any in training"])
    table(["length", "exact match", "token accuracy", "chance", ""], rows)


def score_line(report: Json) -> None:
    if report["score"] is None:
        click.echo(f"\nexact match {share(report['exact_match'], 4)}")
    else:
        first, last = report["score_lengths"]
        click.echo(f"\nscore: exact match {share(report['score'], 4)} on lengths {first}..{last}")


def cut_off(found: Json) -> str:
    """The thresholds of an evaluation."""
    gates = f", gate-tau {found['gate_tau']:g}" if found["gate_tau"] else ""
    return f"tau {found['tau']:g}{gates}"
