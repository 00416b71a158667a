"""An HTML page in one file: no network access, at least 400 pixels wide, light and dark."""

from __future__ import annotations

from html import escape

BASE = """
:root { color-scheme: light dark; --text: #1b1f24; --soft: #57606a; --line: #d0d7de; --back: #fff; --band: #f6f8fa }
@media (prefers-color-scheme: dark) {
  :root { --text: #e6edf3; --soft: #9198a1; --line: #3d444d; --back: #0d1117; --band: #151b23 }
}
* { box-sizing: border-box }
body { font: 16px/1.55 system-ui, sans-serif; color: var(--text); background: var(--back); margin: 0 }
main { margin: 0 auto; padding: 1rem clamp(.8rem, 3vw, 2rem) 4rem }
"""


def offline_page(title: str, style: str, body: str) -> str:
    """A complete page: ``body`` is HTML, ``title`` plain text."""
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<link rel="icon" href="data:,"><title>{escape(title)}</title>'
        f"<style>{BASE}{style}</style></head>\n<body><main>{body}</main></body></html>\n"
    )
