"""How a trace is named, everywhere it is shown."""

from __future__ import annotations

from pntm_np.experiments.trace.record import Trace
from pntm_np.models.titles import TITLES


def named(trace: Trace) -> str:
    return f"{TITLES[trace.model]} on {trace.task.name}"


def settings(trace: Trace) -> str:
    """Which machine, and how it was run."""
    parts = [named(trace)]
    if trace.memory is not None:
        parts.append(f"{trace.cells} cells")
    if "tau" in trace.thresholds:
        parts.append(f"tau {trace.options.tau:g}")
    if "gate_tau" in trace.thresholds and trace.options.gate_tau:
        parts.append(f"gate-tau {trace.options.gate_tau:g}")
    return ", ".join(parts)
