"""Write a trace as JSON. docs/trace.md explains the keys."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np

from pntm_np.experiments.trace.record import Head, Trace
from pntm_np.runtime.signals import Stopped
from pntm_np.runtime.untrusted import Json

FORMAT = "pntm-trace-1"


def numbers(x: np.ndarray, stop: Callable[[], bool] = lambda: False) -> Any:
    """An array as nested lists; nine digits restore every float32 exactly."""
    if stop():
        raise Stopped
    if x.ndim > 2:
        return [numbers(part, stop) for part in x]
    rows = [[float(text) for text in map("%.9g".__mod__, row)] for row in np.atleast_2d(x).tolist()]
    return rows if x.ndim == 2 else rows[0]


def document(trace: Trace, stop: Callable[[], bool] = lambda: False) -> Json:
    given = trace.answer
    return {
        "format": FORMAT,
        "model": trace.model,
        "task": trace.task.name,
        "symbols": trace.task.symbols,
        **{name: getattr(given, name) for name in ("text", "answer", "expected", "ended", "right")},
        "tau": trace.options.tau,
        "gate_tau": trace.options.gate_tau,
        "memory_size": trace.cells if trace.memory is not None else None,
        "separator": trace.separator,
        "first_error": trace.first_error,
        "steps": _steps(trace),
        "heads": [_head(head, stop) for head in trace.heads],
        "memory": None if trace.memory is None else numbers(trace.memory, stop),
        "states": {name: numbers(rows, stop) for name, rows in trace.states.items()},
    }


def _expected(trace: Trace, t: int) -> str | None:
    """What step t has to predict; None before the separator and after the end."""
    place = t - trace.separator
    return trace.expected[place] if trace.expected is not None and 0 <= place < len(trace.expected) else None


def _steps(trace: Trace) -> list[Json]:
    found, rows = [], zip(trace.tokens, trace.predicted, trace.probabilities, strict=True)
    for t, (token, predicted, row) in enumerate(rows):
        symbols = {"token": trace.symbol(token), "predicted": trace.symbol(predicted), "expected": _expected(trace, t)}
        found.append(symbols | {"probabilities": numbers(row)})
    return found


def _head(head: Head, stop: Callable[[], bool]) -> Json:
    parts = {"shifts": head.shifts, "vectors": head.vectors, "erase": head.erase}
    return {
        "name": head.name,
        "kind": head.kind,
        "path": head.path.tolist(),
        "addresses": numbers(head.addresses, stop),
        **{name: None if part is None else numbers(part, stop) for name, part in parts.items()},
    }


def as_json(trace: Trace, stop: Callable[[], bool] = lambda: False) -> str:
    return json.dumps(document(trace, stop), allow_nan=False) + "\n"
