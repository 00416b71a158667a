"""What a trace shows, in a few sentences that are computed from it."""

from __future__ import annotations

from collections.abc import Callable
from itertools import groupby

import numpy as np

from pntm_np.checkpoint import Model
from pntm_np.trace.record import ATTEND, READ, WRITE, Head, Trace, follow
from pntm_np.trace.variants import effect_of_reads, leaves, rounded, source_of_reads
from pntm_np.trace.words import settings

NEEDED = 0.01  # of the answer's probability: a read head that costs less when it finds nothing is not needed
STEADY = 0.8  # of the steps of a phase: so many in one direction are a walk
ALTERNATES = 1 / 3  # of the steps of a phase: more turns than that
DIRECTIONS = {-1: "left", 0: "stays", 1: "right"}


def explain(model: Model, trace: Trace, stop: Callable[[], bool] = lambda: False) -> list[str]:
    """Sentences, each on a line of its own."""
    said = [_outcome(trace)]
    if trace.memory is None:
        return [*said, *_without_memory(trace)]
    effects = effect_of_reads(model, trace)
    carrier = next(h for h in trace.heads if h.name == max(effects, key=effects.__getitem__))
    said += _carrier(trace, carrier, effects)
    source = source_of_reads(model, trace).get(carrier.name)
    if source:
        writer = next(h for h in trace.heads if h.name == source)
        said.append(f"What it finds was written by head {source} for the most part: {_walk(trace, writer)}.")
    else:
        said += [f"Head {head.name}: {_walk(trace, head)}." for head in trace.of(WRITE)]
    machine, options = rounded(model, trace.options)
    return said + _astray(trace, follow(machine, trace, options, stop), carrier)


def _outcome(trace: Trace) -> str:
    steps = f"{settings(trace)}, {len(trace.answer.text)} symbols, {len(trace)} steps"
    if trace.answer.right is None:
        return f"{steps}: what would be right is not known here."
    if trace.first_error is None:
        return f"{steps}: the answer is right."
    t = trace.first_error
    place, row = t - trace.separator, trace.probabilities[t]
    right, given = trace.expected[place], trace.symbol(trace.predicted[t])
    (token,) = trace.task.encode(right)
    return (
        f"{steps}: the first error is at step {t + 1}, the answer's symbol {place + 1}: {given} "
        f"(probability {row.max():.3f}) instead of {right} ({row[token]:.3f})."
    )


def _without_memory(trace: Trace) -> list[str]:
    heads = trace.of(ATTEND)
    if not heads:
        return ["The machine has a state and no heads: there is nothing that moves."]
    steps = slice(trace.separator, None)
    sharp = {head.name: float(head.addresses[steps].max(axis=1).mean()) for head in heads}
    name = max(sharp, key=sharp.__getitem__)
    return [f"While it answers, {name} looks most sharply: a mean of {sharp[name]:.2f} on one position."]


def _carrier(trace: Trace, carrier: Head, effects: dict[str, float]) -> list[str]:
    sharp = {h.name: float(h.addresses[trace.separator :].max(axis=1).mean()) for h in trace.of(READ)}
    loss = effects[carrier.name]
    needed = [name for name, effect in effects.items() if effect >= NEEDED]
    others = [name for name in needed if name != carrier.name]
    said = [
        f"Head {carrier.name} carries the most: if it found nothing, the answer's symbols would lose {loss:.3f} of "
        f"their probability in the mean; while answering, its address has {sharp[carrier.name]:.2f} on one cell"
        f"{', the sharpest' if sharp[carrier.name] == max(sharp.values()) else ''}."
    ]
    if others:
        said.append(f"Also needed: {', '.join(f'{name} ({effects[name]:.3f})' for name in others)}.")
    return [*said, f"Head {carrier.name}: {_walk(trace, carrier)}."]


def moves(head: Head) -> np.ndarray:
    """How far the head's cell moves from each step to the next, the short way round."""
    m = head.addresses.shape[1]
    return (np.diff(head.path) + m // 2) % m - m // 2


def phase(steps: np.ndarray) -> str:
    """What a head does in these steps, in words."""
    if not len(steps):
        return "has no step to make"
    signs = np.sign(steps)
    turns = int((np.diff(signs) != 0).sum())
    shares = {sign: float((signs == sign).mean()) for sign in (-1, 0, 1)}
    most = max(shares, key=shares.__getitem__)
    if shares[most] >= STEADY:
        if most == 0:
            return "stays where it is"
        return f"walks {DIRECTIONS[most]}, {int(np.abs(steps.sum()))} cells in {len(steps)} steps"
    if turns > ALTERNATES * len(steps):
        found = [f"{DIRECTIONS[s]} {shares[s]:.0%}" for s in (-1, 0, 1) if shares[s] > 0]
        return f"alternates ({', '.join(found)} of the steps)"
    runs = [(sign, len(list(group))) for sign, group in groupby(signs.tolist())]
    return "goes " + ", then ".join(
        f"{length} step{'s' if length > 1 else ''} {DIRECTIONS[int(sign)] if sign else 'staying'}"
        for sign, length in runs
    )


def _walk(trace: Trace, head: Head) -> str:
    """Before and after the separator; and what that is called."""
    by_phase = np.split(moves(head), [trace.separator])
    before, after = (np.sign(steps).sum() / max(1, len(steps)) for steps in by_phase)
    called = ""
    if head.kind == WRITE and abs(before) >= STEADY:
        called = ": it buffers the input, a cell for each symbol"
    elif head.kind == READ and abs(after) >= STEADY and abs(before) >= STEADY and before * after < 0:
        called = ": it rewinds, over what it passed before"
    elif head.kind == READ and abs(after) >= STEADY and abs(before) < 1 - STEADY:
        called = ": it waits, then goes along what was written"
    return f"it {phase(by_phase[0])} while the input is read, and {phase(by_phase[1])} while it answers{called}"


def _astray(trace: Trace, straight: Trace, carrier: Head) -> list[str]:
    """Where heads leave the path that they would take with one-hot shifts, and what that has to do with the error."""
    found = leaves(trace.heads, straight.heads)
    error = trace.first_error
    if not found:
        said = "With every shift rounded to one-hot, every head would be on the same cells."
        if error is not None:
            said += " So the heads do not go astray by blurring: what they are told is wrong, or what they find."
        return [said]
    name = min(found, key=lambda head: (found[head], head != carrier.name))
    t = found[name]
    heads = {h.name: h for h in trace.heads}, {h.name: h for h in straight.heads}
    here, there = (of[name].path[t] for of in heads)
    address = heads[0][name].addresses[t]
    said = [
        f"Head {name} is the first to leave the path of one-hot shifts, at step {t + 1}: it is on cell {here} (weight "
        f"{address[here]:.3f}) instead of cell {there} ({address[there]:.3f})."
    ]
    if name != carrier.name:
        own = found.get(carrier.name)
        said.append(f"Head {carrier.name} {'never leaves it' if own is None else f'leaves it at step {own + 1}'}.")
    if error is not None:
        now = [f"{h.name} on cell {h.path[error]} with {h.addresses[error].max():.3f}" for h in trace.of(READ)]
        said.append(f"At the first error, step {error + 1}: {', '.join(now)}.")
    return said
