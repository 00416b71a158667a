"""Figures as files: the same bits every time, written beside themselves and put in place."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

from pntm_np.files import write_atomically

FORMATS = (".png", ".svg", ".pdf")
DATES = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}  # a file says what it shows, not when it was made


def pyplot() -> Any:
    """Matplotlib without a screen."""
    import matplotlib

    matplotlib.use("Agg")
    matplotlib.rcParams["svg.hashsalt"] = "pntm"
    from matplotlib import pyplot

    return pyplot


def write_figure(figure: Any, *paths: Path) -> None:
    for path in paths:
        content, kind = io.BytesIO(), path.suffix.lower()
        figure.savefig(content, dpi=150, format=kind[1:], metadata=DATES.get(kind))
        write_atomically(path, content.getvalue())
    pyplot().close(figure)
