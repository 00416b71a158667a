"""``pntm report``"""

from __future__ import annotations

import json
from pathlib import Path

import click

from pntm_np.commands.options import json_option
from pntm_np.commands.output import say, table
from pntm_np.commands.types import Place


@click.command(short_help="Make the paper's tables and figures from runs and benches.")
@click.argument("directory", type=Place(exists=True))
@click.option("--out", type=Place(), help="Write the report to this directory. [default: DIRECTORY/report]")
@json_option
def report(directory: Path, out: Path | None, as_json: bool) -> None:
    """Make tables, figures and an offline page from the results in DIRECTORY.

    Runs, benches and evaluations (saved output of --json) are found at any depth. The paper's
    numbers are shown beside ours.
    """
    from pntm_np.experiments.report import build

    out = out or directory / "report"
    tables = build.report(directory, out, say)
    if as_json:
        found = {t.name: {"columns": t.columns, "rows": t.rows, "caption": t.caption} for t in tables}
        click.echo(json.dumps({"out": str(out), "tables": found}))
        return
    for shown in tables:
        if len(shown.rows) <= 30:
            click.echo(f"{shown.title}\n")
            table(shown.columns, [[shown.shown(value) for value in row] for row in shown.rows])
            click.echo("")
    say(f"wrote {out / 'report.html'}, and every table and figure beside it")
