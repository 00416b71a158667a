"""Explain a trace in a few sentences that are computed from it."""

from __future__ import annotations

from collections.abc import Callable
from itertools import groupby

import numpy as np

from pntm_np.experiments.trace.record import ATTEND, READ, WRITE, Head, Trace, follow
from pntm_np.experiments.trace.variants import effect_of_reads, leaves, rounded, source_of_reads
from pntm_np.models.checkpoint import Model

NEEDED = 0.01  # drop in the answer's probability without a read head, from which on the head is needed
STEADY = 0.8  # share of a phase's steps in one direction that makes it a walk
ALTERNATES = 1 / 3  # share of a phase's steps that are turns, above which the head alternates
MOST_TURNS = 3  # most turns that are described one by one
DIRECTIONS = {-1: "left", 0: "stays", 1: "right"}


def explain(model: Model, trace: Trace, stop: Callable[[], bool] = lambda: False) -> list[str]:
    said = [_outcome(trace)]
    if trace.memory is None:
        return [*said, *_without_memory(trace)]
    effects = effect_of_reads(model, trace, stop)
    carrier = next(h for h in trace.heads if h.name == max(effects, key=effects.__getitem__))
    said += _carrier(trace, carrier, effects)
    source = source_of_reads(model, trace).get(carrier.name) if _needed(effects) else None
    if source:
        writer = next(h for h in trace.heads if h.name == source)
        said.append(f"Most of what it reads was written by head {source}: {_walk(trace, writer)}.")
    elif _needed(effects):
        said += [f"Head {head.name}: {_walk(trace, head)}." for head in trace.of(WRITE)]
    exact, options = rounded(model, trace.options)
    return said + _astray(trace, follow(exact, trace, options, stop), effects)


def _outcome(trace: Trace) -> str:
    steps = f"{trace.settings}, {len(trace.answer.text)} symbols, {len(trace)} steps"
    if trace.expected is None:
        return f"{steps}: the right answer is not known."
    if trace.first_error is None:
        return f"{steps}: the answer is right."
    t = trace.first_error
    place, row = t - trace.separator, trace.probabilities[t]
    right, given = trace.expected[place], trace.symbol(trace.predicted[t])
    (token,) = trace.task.encode(right)
    said = f"{given} (probability {row.max():.3f}) instead of {right} ({row[token]:.3f})"
    return f"{steps}: the first error is at step {t + 1}, in symbol {place + 1} of the answer: {said}."


def _without_memory(trace: Trace) -> list[str]:
    heads = trace.of(ATTEND)
    if not heads:
        return ["The model has a state but no heads, so nothing moves."]
    steps = slice(trace.separator, None)
    sharp = {head.name: float(head.addresses[steps].max(axis=1).mean()) for head in heads}
    name = max(sharp, key=sharp.__getitem__)
    return [f"While the model answers, {name} is the sharpest: it has {sharp[name]:.2f} on one position on average."]


def _carrier(trace: Trace, carrier: Head, effects: dict[str, float]) -> list[str]:
    sharp = {h.name: float(h.addresses[trace.separator :].max(axis=1).mean()) for h in trace.of(READ)}
    needed = _needed(effects)
    if not needed:
        lost = f"the symbols of the answer would lose less than {NEEDED} of their probability on average"
        return [f"No read head matters here: without the reads of any one head, {lost}."]
    said = [
        f"Head {carrier.name} matters most: without its reads, the symbols of the answer would lose "
        f"{effects[carrier.name]:.3f} of their probability on average. While the model answers, its address has "
        f"{sharp[carrier.name]:.2f} on one cell on average"
        f"{', more than any other' if sharp[carrier.name] == max(sharp.values()) else ''}."
    ]
    if others := [name for name in needed if name != carrier.name]:
        said.append(f"The answer also needs {', '.join(f'{name} ({effects[name]:.3f})' for name in others)}.")
    return [*said, f"Head {carrier.name}: {_walk(trace, carrier)}."]


def _needed(effects: dict[str, float]) -> list[str]:
    return [name for name, effect in effects.items() if effect >= NEEDED]


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def phase(steps: np.ndarray) -> str:
    """Describe what a head does in these steps."""
    if not len(steps):
        return "has no step to make"
    signs = np.sign(steps)
    turns = int((np.diff(signs) != 0).sum())
    shares = {sign: float((signs == sign).mean()) for sign in (-1, 0, 1)}
    most = max(shares, key=shares.__getitem__)
    if shares[most] >= STEADY:
        if most == 0:
            return "stays where it is"
        return f"walks {DIRECTIONS[most]}, {_count(int(np.abs(steps.sum())), 'cell')} in {_count(len(steps), 'step')}"
    if turns > MOST_TURNS:
        found = ", ".join(f"{DIRECTIONS[s]} {shares[s]:.0%}" for s in (-1, 0, 1) if shares[s] > 0)
        verb = "alternates" if turns > ALTERNATES * len(steps) else f"turns {turns} times"
        return f"{verb} ({found} of the steps)"
    runs = [(sign, len(list(group))) for sign, group in groupby(signs.tolist())]
    return "goes " + ", then ".join(
        f"{_count(length, 'step')} {DIRECTIONS[int(sign)] if sign else 'staying'}" for sign, length in runs
    )


def _walk(trace: Trace, head: Head) -> str:
    """Describe what a head does before and after the separator, and what that amounts to."""
    # P-NTM moves at the end of a step, NTM at its beginning; the move that the separator causes belongs to the answer
    by_phase = np.split(head.moves, [trace.separator - trace.moves_first])
    before, after = (np.sign(steps).sum() / max(1, len(steps)) for steps in by_phase)
    called = ""
    if head.kind == WRITE and abs(before) >= STEADY:
        called = ". It buffers the input, one symbol per cell"
    elif head.kind == READ and abs(after) >= STEADY and abs(before) >= STEADY and before * after < 0:
        called = ". It rewinds over the cells that it passed before"
    elif head.kind == READ and abs(after) >= STEADY and (by_phase[0] == 0).mean() >= STEADY:
        called = ". It waits for the separator, then walks"
    return f"it {phase(by_phase[0])} while the input is read, and {phase(by_phase[1])} while it answers{called}"


def _astray(trace: Trace, straight: Trace, effects: dict[str, float]) -> list[str]:
    """Where heads leave the path that they would take with one-hot shifts, and whether that causes the error."""
    found, error, needed, said = leaves(trace.heads, straight.heads), trace.first_error, _needed(effects), []
    if rounds := [head.name for head in trace.heads if head.came_round]:
        said.append(f"The memory is a ring of {trace.cells} cells: {', '.join(rounds)} came round to where they began.")
    if found:
        name = min(found, key=lambda head: (found[head], head not in needed))
        said.append(_leaving(trace, straight, name, found[name]))
        later = [f"{head} leaves it at step {found[head] + 1}" for head in needed if head in found and head != name]
        steady = [f"{head} never leaves it" for head in needed if head not in found]
        if later or steady:
            said.append(f"Of the heads that matter, {', '.join(later + steady)}.")
    else:
        said.append("With every shift rounded to one-hot, every head would take the same path.")
    if error is not None:
        now = [f"{h.name} on cell {h.path[error]} with {h.addresses[error].max():.3f}" for h in trace.of(READ)]
        said.append(f"At the first error, step {error + 1}: {', '.join(now)}.")
        said.append(_blame(trace, straight, error))
    return said


def _blame(trace: Trace, straight: Trace, error: int) -> str:
    """Whether blur causes the error: the rounded model read the same tokens, which are right up to the first error."""
    right = trace.task.encode(trace.expected or "")[: error + 1 - trace.separator]
    wrong = np.flatnonzero(straight.predicted[trace.separator : error + 1] != right)
    if not len(wrong):
        return "With one-hot shifts, the model is still right at this step: the blur of its heads is the cause."
    step = trace.separator + int(wrong[0]) + 1
    return (
        f"With one-hot shifts, the model is first wrong at step {step}: the blur of its heads alone is not the cause."
    )


def _leaving(trace: Trace, straight: Trace, name: str, t: int) -> str:
    head, other = (next(h for h in of.heads if h.name == name) for of in (trace, straight))
    here, there = head.path[t], other.path[t]
    return (
        f"Head {name} is the first to leave its path with one-hot shifts. At step {t + 1}, it is on cell {here} "
        f"(weight {head.addresses[t, here]:.3f}) instead of cell {there} ({head.addresses[t, there]:.3f})."
    )
