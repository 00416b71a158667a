"""Thresholds that keep a machine exact, chosen on lengths that it was trained on.

The heads' shifts and minGRU's gates are never quite 0 or 1, and what they leak adds up over a long input. A threshold
cuts the leak off; one that is too large cuts off what the machine needs, and that shows within the training length: in
exact match if it is often needed, in the loss if it rarely is. So the largest is taken up to which exact match there
stays at its best and the loss does not soar: first for the shifts, then for the gates.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import NamedTuple

from autodiff import array_module, softmax_cross_entropy, to_host
from pntm_np.checkpoint import Model
from pntm_np.evaluation.score import tokens_of
from pntm_np.models import Options
from pntm_np.randomness import THRESHOLDS, generator
from pntm_np.signals import Stopped
from pntm_np.workers import Workers
from tasks import Batch, Task, batch

TAU = 0.01  # the paper's
TAUS = (0.0, 0.001, 0.003, 0.01, 0.03, 0.1, 0.2, 0.3, 0.5)
GATE_TAUS = (0.0, 0.001, 0.003, 0.01, 0.03, 0.1, 0.2)
COUNT, SAMPLES = 8, 128  # lengths, and samples of each
# How many times the least loss is too much, and what is too little to compare with. The 30 was set with five machines
# at hand, by what they then did on 120 and 1,000 symbols: with more than that, some made mistakes.
SOARS, NOTHING_LOST = 30.0, 1e-6
TOKENS = 8192  # of the rows that are computed together


class Fit(NamedTuple):
    """How well a machine does what it was trained to do."""

    exact_match: float
    loss: float  # mean cross-entropy of the answers' tokens


def spread(longest: int, count: int) -> list[int]:
    """At most ``count`` lengths, evenly spread up to the longest."""
    return sorted({max(1, round(longest * k / count)) for k in range(1, count + 1)})


def choose_thresholds(
    model: Model,
    task: Task,
    max_length: int,
    memory_size: int,
    options: Options,
    workers: Workers,
    end_token: bool = True,
    choose_tau: bool = True,
    choose_gate_tau: bool = True,
    watch: Callable[[str, float, Fit], None] = lambda name, value, fit: None,
    stop: Callable[[], bool] = lambda: False,
) -> Options:
    """``options`` with the thresholds chosen; ``watch`` sees how well every candidate does.

    A machine that answers nothing right keeps those of ``options``: there is nothing to choose by.
    """
    measured = model.architecture.measured
    searches = (
        ("tau", TAUS, choose_tau and "shift_entropy" in measured),
        ("gate_tau", GATE_TAUS, choose_gate_tau and "gate_uncertainty" in measured),
    )
    shares = list(samples(task, max_length, end_token))
    for name, values, wanted in searches:
        if not wanted:
            continue
        fits = {}
        for value in values:
            fits[value] = fit(model, shares, memory_size, replace(options, **{name: value}), workers, stop)
            watch(name, value, fits[value])
        if any(found.exact_match for found in fits.values()):
            options = replace(options, **{name: last_best(fits)})
    return options


def samples(task: Task, max_length: int, end_token: bool = True) -> Iterator[Batch]:
    """Inputs and answers of lengths up to that of training, a few rows at a time; fewer where they are very long."""
    for length in spread(max_length, COUNT):
        count = max(1, min(SAMPLES, SAMPLES * TOKENS // tokens_of(task, length)))
        drawn = batch(task, generator(THRESHOLDS, 0, length), length, count, end_token)
        rows = max(1, TOKENS // drawn.tokens.shape[1])
        for k in range(0, count, rows):
            yield Batch(*(part[k : k + rows] for part in drawn))


def fit(
    model: Model,
    shares: list[Batch],
    memory_size: int,
    options: Options,
    workers: Workers,
    stop: Callable[[], bool] = lambda: False,
) -> Fit:
    """Every token of the answers predicted from the right ones before it, all at once.

    An answer that is right in every token this way is the one that greedy decoding finds, for much less work.
    """
    xp = array_module(model.params["embed.weight"])
    if options.form not in ("chunked", "fused"):
        options = replace(options, form="chunked")  # exact as decoding is, and fast

    def one(share: Batch) -> tuple[int, float]:
        if stop():
            raise Stopped
        tokens, targets, mask = map(xp.asarray, share)
        logits = model.forward(tokens, memory_size, options)
        right = xp.all((xp.argmax(logits, axis=-1) == targets) | ~mask, axis=1)
        loss = softmax_cross_entropy(logits, targets, mask, total=1)
        return int(to_host(xp.sum(right))), float(to_host(loss))

    exact, loss = (sum(column) for column in zip(*workers.map(one, shares), strict=True))
    rows, tokens = sum(len(share.tokens) for share in shares), sum(int(share.mask.sum()) for share in shares)
    return Fit(exact / rows, loss / max(tokens, 1))


def last_best(fits: dict[float, Fit]) -> float:
    """The largest value up to which nothing is lost; beyond a loss nothing is trusted."""
    best = max(found.exact_match for found in fits.values())
    values = list(itertools.dropwhile(lambda v: fits[v].exact_match < best, sorted(fits)))
    chosen, least = values[0], fits[values[0]].loss
    for value in values:
        least = min(least, fits[value].loss)
        kept = fits[value].loss <= SOARS * max(least, NOTHING_LOST)  # NaN is not
        if fits[value].exact_match < best or not kept:
            break
        chosen = value
    return chosen
