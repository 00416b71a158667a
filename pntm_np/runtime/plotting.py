"""Figures as files: the same bits every time, written beside themselves and put in place."""

from __future__ import annotations

import io
import warnings
from pathlib import Path
from typing import Any

from pntm_np.runtime.files import write_atomically

FORMATS = (".png", ".svg", ".pdf")
DATES = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}  # a file says what it shows, not when it was made


def pyplot() -> Any:
    """Matplotlib without a screen."""
    import matplotlib

    matplotlib.use("Agg")
    matplotlib.rcParams["svg.hashsalt"] = "pntm"
    from matplotlib import pyplot

    return pyplot


def figure_bytes(figure: Any, kind: str) -> bytes:
    """The figure as a file of that ending."""
    content = io.BytesIO()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph", UserWarning)  # a symbol that no font has is drawn as a box
        figure.savefig(content, dpi=150, format=kind[1:], metadata=DATES.get(kind))
    return content.getvalue()


def write_figure(figure: Any, *paths: Path) -> None:
    for path in paths:
        write_atomically(path, figure_bytes(figure, path.suffix.lower()))
    pyplot().close(figure)
