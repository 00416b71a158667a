"""A trace as JSON: all that was recorded. docs/trace.md says what each part means."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from pntm_np.trace.record import Head, Trace

FORMAT = "pntm-trace-1"


def numbers(x: np.ndarray) -> Any:
    """Nested lists; nine digits are what it takes to give a float32 back."""
    flat = [float(text) for text in map("%.9g".__mod__, x.ravel().tolist())]
    for size in reversed(x.shape[1:]):
        flat = [flat[k : k + size] for k in range(0, len(flat), size)]
    return flat


def document(trace: Trace) -> dict[str, Any]:
    given = trace.answer
    return {
        "format": FORMAT,
        "model": trace.model,
        "task": trace.task.name,
        "symbols": trace.task.symbols,
        "text": given.text,
        "answer": given.answer,
        "expected": given.expected,
        "ended": given.ended,
        "right": given.right,
        "tau": trace.options.tau,
        "gate_tau": trace.options.gate_tau,
        "memory_size": trace.cells if trace.memory is not None else None,
        "separator": trace.separator,
        "first_error": trace.first_error,
        "steps": [
            {
                "token": trace.symbol(token),
                "predicted": trace.symbol(predicted),
                "expected": _expected(trace, t),
                "probabilities": numbers(row),
            }
            for t, (token, predicted, row) in enumerate(
                zip(trace.tokens, trace.predicted, trace.probabilities, strict=True)
            )
        ],
        "heads": [_head(head) for head in trace.heads],
        "memory": None if trace.memory is None else numbers(trace.memory),
        "states": {name: numbers(rows) for name, rows in trace.states.items()},
    }


def _expected(trace: Trace, t: int) -> str | None:
    """What step t has to predict: nothing before the separator, nothing behind the end."""
    place = t - trace.separator
    return trace.expected[place] if trace.expected is not None and 0 <= place < len(trace.expected) else None


def _head(head: Head) -> dict[str, Any]:
    parts = {"shifts": head.shifts, "vectors": head.vectors, "erase": head.erase}
    return {
        "name": head.name,
        "kind": head.kind,
        "path": head.path.tolist(),
        "addresses": numbers(head.addresses),
        **{name: None if part is None else numbers(part) for name, part in parts.items()},
    }


def as_json(trace: Trace) -> str:
    return json.dumps(document(trace), allow_nan=False) + "\n"
