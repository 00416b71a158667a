"""Figures as files: the same bits every time, written atomically."""

from __future__ import annotations

import io
import warnings
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from pntm_np.runtime.files import write_atomically

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FORMATS = (".png", ".svg", ".pdf")
DATES = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}  # no dates: equal figures are equal files


def pyplot() -> ModuleType:
    """Matplotlib's pyplot, set up to draw without a screen."""
    import matplotlib

    matplotlib.use("Agg")
    matplotlib.rcParams["svg.hashsalt"] = "pntm"
    from matplotlib import pyplot

    return pyplot


def figure_bytes(figure: Figure, kind: str) -> bytes:
    """The content of a file with the ending ``kind`` that shows the figure."""
    content = io.BytesIO()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph", UserWarning)  # a symbol that no font has becomes a box
        figure.savefig(content, dpi=150, format=kind[1:], metadata=DATES.get(kind))
    return content.getvalue()


def write_figure(figure: Figure, *paths: Path) -> None:
    for path in paths:
        write_atomically(path, figure_bytes(figure, path.suffix.lower()))
    pyplot().close(figure)
