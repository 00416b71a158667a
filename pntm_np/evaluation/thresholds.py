"""Thresholds that keep a machine exact, chosen on lengths that it was trained on.

The heads' shifts and minGRU's gates are never quite 0 or 1, and what they leak adds up over a long input. A threshold
cuts the leak off; one that is too large cuts off what the machine needs, and that shows within the training length: it
is less sure of its answers. So the largest is taken up to which as many of them stay sure as ever: first for the
shifts, then for the gates.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import replace

from autodiff import array_module, logsumexp, to_host
from pntm_np.checkpoint import Model
from pntm_np.models import Options
from pntm_np.randomness import THRESHOLDS, generator
from pntm_np.signals import Stopped
from pntm_np.workers import Workers
from tasks import Batch, Task, batch

TAU = 0.01  # the paper's
TAUS = (0.0, 0.001, 0.003, 0.01, 0.03, 0.1, 0.2, 0.3, 0.5)
GATE_TAUS = (0.0, 0.001, 0.003, 0.01, 0.03, 0.1, 0.2)
COUNT, SAMPLES = 8, 128  # lengths, and samples of each
SURE = 0.9  # of the probability at least, for every token of an answer
TOKENS = 8192  # of the rows that are computed together


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
    watch: Callable[[str, float, float], None] = lambda name, value, score: None,
    stop: Callable[[], bool] = lambda: False,
) -> Options:
    """``options`` with the thresholds chosen; ``watch`` sees the share of sure answers with every candidate.

    A machine that is sure of nothing keeps those of ``options``: there is nothing to choose by.
    """
    measured = model.architecture.measured
    searches = (
        ("tau", TAUS, choose_tau and "shift_entropy" in measured),
        ("gate_tau", GATE_TAUS, choose_gate_tau and "gate_uncertainty" in measured),
    )
    for name, values, wanted in searches:
        if not wanted:
            continue
        scores = {}
        for value in values:
            candidate = replace(options, **{name: value})
            scores[value] = sure(model, task, max_length, memory_size, candidate, workers, end_token, stop)
            watch(name, value, scores[value])
        if any(scores.values()):
            options = replace(options, **{name: last_best(scores)})
    return options


def sure(
    model: Model,
    task: Task,
    max_length: int,
    memory_size: int,
    options: Options,
    workers: Workers,
    end_token: bool,
    stop: Callable[[], bool],
) -> float:
    """The share of answers, to inputs up to the training length, of whose every token the machine is sure.

    Every token is predicted from the right ones before it, all at once. Greedy decoding finds the same answers where it
    is right, for much more work; being right is not enough here, for a mistake in a thousand is easily missed.
    """
    xp = array_module(model.params["embed.weight"])
    lengths = spread(max_length, COUNT)

    def shares() -> Iterator[Batch]:
        for length in lengths:
            samples = batch(task, generator(THRESHOLDS, 0, length), length, SAMPLES, end_token)
            rows = max(1, TOKENS // samples.tokens.shape[1])
            for k in range(0, SAMPLES, rows):
                yield Batch(*(part[k : k + rows] for part in samples))

    def one(share: Batch) -> int:
        if stop():
            raise Stopped
        tokens, targets, mask = map(xp.asarray, share)
        logits = model.forward(tokens, memory_size, options)
        wanted = xp.take_along_axis(logits, targets[..., None], axis=-1)[..., 0]
        holds = wanted - logsumexp(logits, axis=-1) >= math.log(SURE)
        return int(to_host(xp.sum(xp.all(holds | ~mask, axis=1))))

    return sum(workers.map(one, shares())) / (SAMPLES * len(lengths))


def last_best(scores: dict[float, float]) -> float:
    """The largest value up to which the score stays at its best; beyond a drop nothing is trusted."""
    best = max(scores.values())
    values = itertools.dropwhile(lambda v: scores[v] < best, sorted(scores))
    return list(itertools.takewhile(lambda v: scores[v] == best, values))[-1]
