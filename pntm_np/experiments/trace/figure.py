"""Draw a trace as in the paper: write heads above, read heads below, time from left to right."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from pntm_np.experiments.trace.record import READ, WRITE, Head, Trace
from pntm_np.runtime.plotting import figure_bytes, pyplot

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.image import AxesImage

TWO_COLUMNS = 48  # most steps for which two heads are drawn side by side
SEEN = 0.02  # least address for which a cell is shown
ROOM = 8  # least cells that are shown
MOST_LABELS = 100  # tokens that fit along a wide axis
MAP, STRIP, LABELS = 1.25, 0.3, 0.34  # heights in inches of a head's map, its vectors and the tokens below them


def drawn(trace: Trace, kind: str) -> bytes:
    if trace.memory is not None:
        figure = _heads(trace)
    elif trace.heads:
        figure = _attention(trace)
    else:
        figure = _states(trace)
    right = {True: ": right", False: ": wrong", None: ""}[trace.answer.right]
    text = f"{trace.settings}\n{_short(trace.answer.text)} → {_short(trace.answer.answer)}{right}"
    placed = {} if figure.get_layout_engine() else {"y": 1 - 0.1 / figure.get_figheight(), "va": "top"}
    figure.suptitle(text, fontsize=10, **placed)
    content = figure_bytes(figure, kind)
    pyplot().close(figure)
    return content


def _short(text: str, most: int = 60) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _heads(trace: Trace) -> Figure:
    """Places are set by hand, in inches: a layout that measures every label would double the time."""
    columns = 2 if len(trace) <= TWO_COLUMNS else 1
    blocks = [trace.of(WRITE), trace.of(READ)]
    rows = [heads[k : k + columns] for heads in blocks for k in range(0, len(heads), columns)]
    across = min(max(0.15 * len(trace), 4.0), 22.0)
    width, height = 0.75 + columns * (across + 0.75) + 0.2, 0.65 + len(rows) * (MAP + STRIP + LABELS)
    figure = pyplot().figure(figsize=(width, height))

    def place(left: float, top: float, wide: float, high: float) -> Axes:
        return figure.add_axes((left / width, 1 - (top + high) / height, wide / width, high / height))

    image = None
    for r, row in enumerate(rows):
        for c, head in enumerate(row):
            left, top = 0.75 + c * (across + 0.75), 0.6 + r * (MAP + STRIP + LABELS)
            image = _address(place(left, top, across, MAP), trace, head)
            below = place(left, top + MAP + 0.04, across, STRIP)
            _vectors(below, trace, head)
            _tokens(below, trace, len(trace) * columns)
    bar = figure.colorbar(image, cax=place(width - 0.75, 0.6, 0.14, min(4.0, height - 0.9)))
    bar.set_label("address weight", fontsize=9)
    bar.ax.tick_params(labelsize=8)
    return figure


def window(head: Head) -> tuple[int, int]:
    """The range of cells that a head visits, counted along its path: cells to the left of its start are below 0."""
    m, path = head.addresses.shape[1], head.unrolled
    aside = (np.arange(m) - head.path[:, None] + m // 2) % m - m // 2  # (T, m): distance of a cell from the head
    places = np.append((path[:, None] + aside)[head.addresses >= SEEN], path)
    first, last = int(places.min()), int(places.max())
    more = max(0, min(ROOM, m) - (last - first + 1))
    first, last = first - more // 2, last + more - more // 2
    return (first, last) if last - first < m else (0, m - 1)  # a head that came round is shown on all cells


def _address(axes: Axes, trace: Trace, head: Head) -> AxesImage:
    first, last = window(head)
    m = head.addresses.shape[1]
    shown, path = head.addresses[:, np.arange(first, last + 1) % m], (head.path - first) % m + first
    extent = (-0.5, len(trace) - 0.5, first - 0.5, last + 0.5)
    image = axes.imshow(
        shown.T, origin="lower", aspect="auto", cmap="Blues", vmin=0, vmax=1, extent=extent, interpolation="nearest"
    )
    broken = np.where(np.abs(np.diff(path, prepend=path[0])) > 1, np.nan, path.astype(float))  # no line across a jump
    axes.plot(np.arange(len(trace)), broken, color="#D55E00", lw=0.9 if len(trace) <= TWO_COLUMNS else 0.5, alpha=0.9)
    _marks(axes, trace)
    axes.set_ylabel(f"{head.name}\ncell", fontsize=8)
    ticks: Any = axes.yaxis.get_major_locator()
    ticks.set_params(integer=True, nbins=5)
    axes.set_xticks([])
    axes.tick_params(labelsize=7)
    axes.spines[:].set_color("0.6")
    return image


def _vectors(axes: Axes, trace: Trace, head: Head) -> None:
    assert head.vectors is not None  # every head that reads or writes has vectors
    values = head.vectors.T
    largest = np.abs(values).max() or 1.0
    extent = (-0.5, len(trace) - 0.5, 0, len(values))
    axes.imshow(values / largest, aspect="auto", cmap="RdBu", vmin=-1, vmax=1, extent=extent, interpolation="nearest")
    _marks(axes, trace)
    axes.set_ylabel("read" if head.kind == READ else "written", fontsize=7)
    axes.set_yticks([])


def _marks(axes: Axes, trace: Trace) -> None:
    """Draw dotted lines around the separator, between input and answer, and a dashed line at the first error."""
    for edge in (-0.5, 0.5):
        axes.axvline(trace.separator + edge, color="0.25", lw=0.8, ls=":")
    if trace.first_error is not None:
        axes.axvline(trace.first_error, color="#D55E00", lw=1, ls="--")


def _tokens(axes: Axes, trace: Trace, across: int) -> None:
    """Write the token of each step below it, as text because thousands of ticks take seconds."""
    every = max(1, -(-across // (2 * MOST_LABELS)))
    wrong = trace.first_error
    below: dict[str, Any] = {"transform": axes.get_xaxis_transform(), "family": "monospace", "fontsize": 7}
    below |= {"ha": "center", "va": "top"}
    axes.set_xticks([])
    for t, token in enumerate(trace.tokens):
        if t % every == 0 or t in (trace.separator, wrong):
            mistaken = wrong is not None and t == wrong + 1  # the next step reads the wrong token
            weight = "bold" if mistaken or t == trace.separator else "normal"
            colour = "#D55E00" if mistaken else "black"
            axes.text(t, -0.04, trace.symbol(token), fontweight=weight, color=colour, **below)


def _attention(trace: Trace) -> Figure:
    layers = sorted({head.name.split(",")[0] for head in trace.heads})
    columns = len(trace.heads) // len(layers)
    figure, grid = pyplot().subplots(
        len(layers), columns, figsize=(1.9 * columns + 1, 1.9 * len(layers) + 1), layout="constrained", squeeze=False,
        sharex=True, sharey=True,
    )  # fmt: skip
    image = None
    for axes, head in zip(grid.flat, trace.heads, strict=True):
        image = axes.imshow(head.addresses, cmap="Blues", vmin=0, vmax=1, interpolation="nearest")
        axes.set_title(head.name, fontsize=7, pad=2)
        axes.axvline(trace.separator, color="0.25", lw=0.6, ls=":")
        axes.axhline(trace.separator, color="0.25", lw=0.6, ls=":")
        if trace.first_error is not None:
            axes.axhline(trace.first_error, color="#D55E00", lw=0.8, ls="--")
        for axis in (axes.xaxis, axes.yaxis):
            axis.get_major_locator().set_params(integer=True, nbins=5)
        axes.tick_params(labelsize=6)
    figure.supxlabel("attended position", fontsize=9)
    figure.supylabel("time step", fontsize=9)
    figure.colorbar(image, ax=grid, fraction=0.02, pad=0.01).set_label("attention weight", fontsize=9)
    return figure


def _states(trace: Trace) -> Figure:
    figure, grid = pyplot().subplots(
        len(trace.states), 1, figsize=(max(8, min(4 + 0.15 * len(trace), 24)), 1 + 1.6 * len(trace.states)),
        layout="constrained", squeeze=False, sharex=True,
    )  # fmt: skip
    for axes, (name, values) in zip(grid[:, 0], trace.states.items(), strict=True):
        largest = np.abs(values).max() or 1.0
        extent = (-0.5, len(trace) - 0.5, 0, values.shape[1])
        axes.imshow(
            values.T / largest, aspect="auto", cmap="RdBu", vmin=-1, vmax=1, extent=extent, interpolation="nearest"
        )
        axes.set_ylabel(name, fontsize=8)
        axes.set_yticks([])
        _marks(axes, trace)
    _tokens(grid[-1, 0], trace, len(trace))
    return figure
