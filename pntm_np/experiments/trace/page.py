"""Make an offline page of a trace, or of two traces of the same text.

To stay small, the page of a P-NTM has its shifts and written vectors, and computes addresses and memory from them when
it is opened. The page of an NTM has its addresses, and the vectors that are erased and added.
"""

from __future__ import annotations

import base64
import json
import zlib
from html import escape
from importlib.resources import files

import numpy as np

from pntm_np.experiments.trace.record import READ, WRITE, Trace
from pntm_np.models.ntm.layer import START
from pntm_np.runtime.html import offline_page
from pntm_np.runtime.untrusted import Json

SCRIPTS = ("recorded.js", "panel.js", "page.js")  # the trace, a panel that shows it, and the page that plays panels
CONTROLS = """
<h1>{title}</h1><p class="soft">{text}</p>
<div class="controls" role="group" aria-label="playback">
<button id="first" aria-label="first step">|◀</button><button id="back" aria-label="previous step">◀</button>
<button id="play" aria-label="play">play</button><button id="next" aria-label="next step">▶</button>
<button id="last" aria-label="last step">▶|</button>
<input id="time" type="range" min="0" max="0" value="0" step="1" aria-label="step">
<label>Steps per second <select id="speed"><option value="1">1</option><option value="4" selected>4</option>
<option value="12">12</option></select></label></div>
<div class="panels"></div>
<noscript><p>This page needs JavaScript, which is switched off.</p></noscript>
<p class="soft">Keys: <kbd>←</kbd> <kbd>→</kbd> move one step (with <kbd>Shift</kbd> ten), <kbd>Home</kbd> and
<kbd>End</kbd> go to the first and last step, <kbd>Space</kbd> plays or pauses, <kbd>↑</kbd> <kbd>↓</kbd> choose a head,
<kbd>[</kbd> <kbd>]</kbd> choose a cell. Point at a cell to see when it was last written.</p>
"""


def packed(x: np.ndarray, dtype: str) -> dict[str, str]:
    little = np.ascontiguousarray(x, f"<{dtype}")
    return {"dtype": dtype, "data": base64.b64encode(zlib.compress(little.tobytes(), 9)).decode()}


def page(traces: list[Trace], titles: list[str], chosen: list[str], sources: list[dict[str, str]]) -> str:
    """``chosen`` has the head that each panel shows first, ``sources`` the write head that feeds each read head."""
    runs = [_run(*each) for each in zip(traces, titles, chosen, sources, strict=True)]
    given = traces[0].answer
    title = " and ".join(dict.fromkeys(trace.title for trace in traces))
    right = "" if given.expected is None else f". Right answer: {given.expected}"
    body = CONTROLS.format(title=escape(title), text=escape(f"Input: {given.text}{right}"))
    content = json.dumps(runs).replace("<", "\\u003c")  # so that no text in it ends the script
    here = files(__package__)
    script = "\n".join((here / name).read_text("utf-8") for name in SCRIPTS)
    return offline_page(
        f"pntm trace: {title}",
        (here / "page.css").read_text("utf-8"),
        f'{body}<script type="application/json" id="trace">{content}</script><script>{script}</script>',
    )


def _run(trace: Trace, title: str, chosen: str, sources: dict[str, str]) -> Json:
    names = [head.name for head in trace.heads]
    predicted = trace.predicted
    run: Json = {
        "title": title,
        "tokens": [trace.symbol(t) for t in trace.tokens],
        "predicted": [trace.symbol(t) for t in predicted],
        "probabilities": [round(float(row[k]), 6) for row, k in zip(trace.probabilities, predicted, strict=True)],
        "expected": None if trace.expected is None else list(trace.expected),
        "separator": trace.separator,
        "heads": [{"kind": head.kind, "name": head.name} for head in trace.heads],
        "chosen": names.index(chosen) if chosen in names else 0,
    }
    if sources:
        run["sources"] = [names.index(sources[name]) if name in sources else k for k, name in enumerate(names)]
    return run | _content(trace)


def _content(trace: Trace) -> Json:
    if trace.memory is None and not trace.heads:
        states = np.concatenate(list(trace.states.values()), axis=1)
        largest = np.abs(states).max() or 1.0
        arrays = {"states": packed(np.rint(states / largest * 127) + 128, "u1")}
        return {"kind": "states", "cells": states.shape[1], "arrays": arrays}
    addresses = np.stack([head.addresses for head in trace.heads], axis=1)  # T, heads, m
    if trace.memory is None:
        kind, arrays = "attention", {"addresses": packed(np.rint(addresses * 255), "u1")}
        return {"kind": kind, "cells": addresses.shape[2], "arrays": arrays}
    values = np.stack([v for head in trace.of(WRITE) if (v := head.vectors) is not None], axis=1)  # T, W, n / W or n
    content: Json = {"kind": trace.model, "cells": trace.cells, "numbers": trace.memory.shape[2]}
    if not trace.moves_first:
        shifts = np.stack([s for head in trace.heads if (s := head.shifts) is not None], axis=1)
        return content | {"arrays": {"shifts": packed(shifts, "f4"), "values": packed(values, "f4")}}
    erase = np.stack([e for head in trace.of(WRITE) if (e := head.erase) is not None], axis=1)
    arrays = {"addresses": packed(np.rint(addresses * 65535), "u2"), "values": packed(values, "f4")}
    arrays["erase"] = packed(erase, "f4")
    return content | {"start": START, "arrays": arrays}


def first_head(trace: Trace, effects: dict[str, float]) -> str:
    """The head to show first: the read head that matters most for the answer."""
    if effects:
        return max(effects, key=effects.__getitem__)
    heads = trace.of(READ) or trace.heads
    return heads[0].name if heads else ""
