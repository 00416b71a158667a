"""A report as a whole: gather, compute, write."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from pntm_np.experiments.report.figures import all_figures
from pntm_np.experiments.report.gather import Material, gather
from pntm_np.experiments.report.page import page
from pntm_np.experiments.report.tables import Table, all_tables
from pntm_np.runtime.errors import USAGE, PntmError
from pntm_np.runtime.files import unusable, write_atomically


class ReportError(PntmError, ValueError):
    """There is nothing to report; the message says where."""

    exit_code = USAGE


def report(directory: Path, out: Path, say: Callable[[str], None]) -> list[Table]:
    """Write every table and figure into ``out``, and the page; the tables."""
    if not directory.is_dir():
        raise ReportError(f"{directory}: expected a directory with runs and benches in it")
    if why := unusable(out):
        raise ReportError(f"--out {out}: {why}")
    material = gather(directory)
    for line in material.left_out:
        say(f"left out: {line}")
    if material.empty:
        raise ReportError(f"{directory}: there is nothing to report in it, no finished run and no bench of the paper's")
    notes = _notes(material)
    for note in notes:
        say(note)
    tables, drawn = all_tables(material), {}
    out.mkdir(parents=True, exist_ok=True)
    for table in tables:
        write_atomically(out / f"{table.name}.csv", table.as_csv().encode())
        write_atomically(out / f"{table.name}.md", table.as_markdown().encode())
    for figure in all_figures(material):
        png, svg = (out / f"{figure.name}.{kind}" for kind in ("png", "svg"))
        figure.draw(png, svg)
        content = Table(figure.name, "", figure.columns, figure.rows, "").as_csv()
        write_atomically(out / f"{figure.name}.csv", content.encode())
        drawn[figure.name] = (figure, svg.read_bytes())
    write_atomically(out / "report.html", page(tables, drawn, notes).encode())
    return tables


def _notes(material: Material) -> list[str]:
    count = len(material.unfinished)
    notes = (
        [f"{count} {'runs have' if count > 1 else 'run has'} begun and not finished: not in this report."]
        if count
        else []
    )
    if len(material.benches) > 1:
        notes.append("There are several benches; the first is shown.")
    return notes
