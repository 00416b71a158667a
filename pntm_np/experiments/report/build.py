"""Make a report: gather the material, write tables and figures, and one page with all of them and no script."""

from __future__ import annotations

import base64
from collections.abc import Callable
from html import escape
from importlib.resources import files
from pathlib import Path

from pntm_np.experiments.report.figures import Figure, all_figures
from pntm_np.experiments.report.gather import gather
from pntm_np.experiments.report.tables import Table, all_tables
from pntm_np.runtime.errors import USAGE, PntmError
from pntm_np.runtime.files import unusable, write_atomically
from pntm_np.runtime.html import offline_page

TITLE = "Parallelizable Neural Turing Machines: results"


class ReportError(PntmError, ValueError):
    exit_code = USAGE


def report(directory: Path, out: Path, say: Callable[[str], None]) -> list[Table]:
    """Write all tables, all figures and the page into ``out``, and return the tables."""
    if not directory.is_dir():
        raise ReportError(f"{directory}: expected a directory with runs and benchmarks")
    if why := unusable(out):
        raise ReportError(f"--out {out}: {why}")
    material = gather(directory)
    for line in material.left_out:
        say(f"left out: {line}")
    if not (material.runs or material.evaluations or material.benches):
        raise ReportError(
            f"{directory}: there is nothing to report: it has no finished run, no evaluation and no benchmark"
        )
    count, notes = len(material.unfinished), []
    if count:
        notes.append(f"This report leaves out {count} unfinished run{'s' if count > 1 else ''}.")
    if len(material.benches) > 1:
        notes.append("There are several benchmarks; the report shows the first.")
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


def page(tables: list[Table], figures: dict[str, tuple[Figure, bytes]], notes: list[str]) -> str:
    """The page; ``figures`` are given by name, each with its SVG."""
    order = ["best", "by-length", "sensitivity", "spread", "checkpoints", "transformers", "speed-up", "timings"]
    order += ["same-time", "memory", "runs"]
    parts: dict[str, tuple[str, str]] = {t.name: (t.title, _table(t)) for t in tables}
    parts |= {name: (figure.title, _figure(figure, svg)) for name, (figure, svg) in figures.items()}
    shown = [(name, *parts[name]) for name in order if name in parts]
    links = "".join(f'<a href="#{name}">{escape(title)}</a>' for name, title, _ in shown)
    sections = "".join(f'<section id="{name}"><h2>{escape(title)}</h2>{body}</section>' for name, title, body in shown)
    said = "".join(f'<p class="caption">{escape(note)}</p>' for note in notes)
    style = (files(__package__) / "page.css").read_text("utf-8")
    return offline_page(
        TITLE,
        f"\n{style}",
        f"<h1>{TITLE}</h1><p>These are the paper's tables and figures, made from our own runs, with the paper's "
        "numbers beside ours. The data of each table and figure is in a CSV file next to this page.</p>"
        f'<nav aria-label="Contents">{links}</nav>{said}{sections}',
    )


def _table(table: Table) -> str:
    text = [all(isinstance(row[k], str) for row in table.rows) for k in range(len(table.columns))]

    def cell(tag: str, k: int, value: str) -> str:
        return f"<{tag}{' class=text' if text[k] else ''}>{value}</{tag}>"

    def shown(value: object) -> str:
        marked = table.marked and isinstance(value, float) and value == 1
        return f"<b>{table.shown(value)}</b>" if marked else escape(table.shown(value))

    head = "".join(cell("th", k, escape(name)) for k, name in enumerate(table.columns))
    lines = [
        f"<tr{' class=theirs' if 'paper' in row[:2] else ''}>"
        + "".join(cell("td", k, shown(v)) for k, v in enumerate(row))
        + "</tr>"
        for row in table.rows
    ]
    body = f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(lines)}</tbody></table>"
    body = f'<div class="scroll" tabindex="0" role="region" aria-label="{escape(table.title)}">{body}</div>'
    if len(table.rows) > 30:
        body = f"<details><summary>{len(table.rows)} rows</summary>{body}</details>"
    return f'{body}<p class="caption">{escape(table.caption)}</p>'


def _figure(figure: Figure, svg: bytes) -> str:
    source = base64.b64encode(svg).decode()
    image = f'<img alt="{escape(figure.alternative)}" src="data:image/svg+xml;base64,{source}">'
    scroll = f'<div class="scroll" tabindex="0" role="region" aria-label="{escape(figure.title)}">{image}</div>'
    return f'{scroll}<p class="caption">{escape(figure.caption)}</p>'
