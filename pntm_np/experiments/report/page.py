"""One page with everything in it, and no script."""

from __future__ import annotations

import base64
from html import escape
from typing import Any

from pntm_np.experiments.report.figures import Figure
from pntm_np.experiments.report.tables import Table
from pntm_np.runtime.html import offline_page

TITLE = "Parallelizable Neural Turing Machines: results"
STYLE = """
main { max-width: 62rem }
h1 { font-size: 1.7rem; line-height: 1.2 }
h2 { font-size: 1.2rem; margin: 2.6rem 0 .6rem }
nav { display: flex; flex-wrap: wrap; gap: .2rem 1rem; margin: 1rem 0 }
a { color: inherit; text-underline-offset: .2em }
p.caption { color: var(--soft); font-size: .88rem; margin: .5rem 0 0; max-width: 50rem }
.scroll { overflow-x: auto; border: 1px solid var(--line); border-radius: 6px }
.scroll:focus-visible { outline: 2px solid #0072b2 }
table { border-collapse: collapse; width: 100%; font-size: .88rem; font-variant-numeric: tabular-nums }
th, td { padding: .3rem .6rem; text-align: right; white-space: nowrap; border-bottom: 1px solid var(--line) }
tr:last-child td { border-bottom: 0 }
th { background: var(--band); font-weight: 600 }
.text { text-align: left }
tr.theirs td { color: var(--soft) }
img { display: block; width: 100%; min-width: 44rem; height: auto; background: #fff; border-radius: 6px }
details summary { cursor: pointer; margin-bottom: .5rem }
"""


def page(tables: list[Table], figures: dict[str, tuple[Figure, bytes]], notes: list[str]) -> str:
    """``figures`` by name, each with its SVG."""
    order = ("best", "by-length", "sensitivity", "spread", "checkpoints", "transformers", "speed-up", "timings")
    order += ("same-time", "memory", "runs")
    parts: dict[str, tuple[str, str]] = {t.name: (t.title, _table(t)) for t in tables}
    parts |= {name: (figure.title, _figure(figure, svg)) for name, (figure, svg) in figures.items()}
    shown = [(name, *parts[name]) for name in order if name in parts]
    links = "".join(f'<a href="#{name}">{escape(title)}</a>' for name, title, _ in shown)
    sections = "".join(f'<section id="{name}"><h2>{escape(title)}</h2>{body}</section>' for name, title, body in shown)
    said = "".join(f'<p class="caption">{escape(note)}</p>' for note in notes)
    return offline_page(
        TITLE,
        STYLE,
        f"<h1>{TITLE}</h1><p>The paper's tables and figures from our own runs, with the paper's numbers beside them. "
        "Every table and figure has a CSV file beside this page.</p>"
        f'<nav aria-label="Contents">{links}</nav>{said}{sections}',
    )


def _table(table: Table) -> str:
    text = [all(isinstance(row[k], str) for row in table.rows) for k in range(len(table.columns))]

    def cell(tag: str, k: int, value: str) -> str:
        return f"<{tag}{' class=text' if text[k] else ''}>{value}</{tag}>"

    def shown(value: Any) -> str:
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
