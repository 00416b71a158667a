"""How a trace is named, everywhere it is shown."""

from __future__ import annotations

from pntm_np.trace.record import Trace

NAMES = {"pntm": "P-NTM", "ntm": "NTM", "lstm": "LSTM", "mingru": "minGRU"}


def machine(name: str) -> str:
    return NAMES.get(name) or "Transformer, " + name.split("-")[-1].replace("nope", "NoPE").replace(
        "rope", "RoPE"
    ).replace("alibi", "ALiBi").replace("fire", "FIRE")


def named(trace: Trace) -> str:
    return f"{machine(trace.model)} on {trace.task.name}"


def settings(trace: Trace) -> str:
    """Which machine, and how it was run."""
    parts = [named(trace)]
    if trace.memory is not None:
        parts.append(f"{trace.cells} cells")
    if trace.model == "pntm":
        parts.append(f"tau {trace.options.tau:g}")
    if trace.model in ("pntm", "mingru") and trace.options.gate_tau:
        parts.append(f"gate-tau {trace.options.gate_tau:g}")
    return ", ".join(parts)
