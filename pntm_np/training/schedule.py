"""What every step is made with: rate, noise, rounding and memory follow how far the machine has come, not the clock.

1. It learns, under noise.
2. Once it answers most inputs of the training lengths, shifts and gates are rounded in half of every batch: at first
   only what is nearly 0, then ever more, as long as it goes on answering, until every shift is one-hot. The rate is a
   quarter of what it was.
3. Once it answers them so, rate and noise fall over the last steps. A machine that is not certain then goes on from 2.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from pntm_np.models import PAPER, Thresholds
from pntm_np.randomness import CELLS, generator
from pntm_np.training.config import Config
from pntm_np.training.run import Progress

ANSWERS = 0.9  # of the training lengths: enough to be rounded more; half as many are too few, and it is rounded less
GROWTH = 1.3  # of the threshold, from one evaluation to the next
ONE_HOT = 0.5  # of three shifts that sum to 1 no more than one is above it
GATES = 0.1  # the most for gates: unlike shifts, they may have to stay between 0 and 1
ROUNDING_RATE = 0.25  # of the learning rate: rounding changes what a machine does in jumps


class Pace(NamedTuple):
    """Of one step."""

    lr: float
    noise: float  # deviation, of the logits of shifts and gates
    cells: int  # of the memory
    thresholds: Thresholds  # of what is rounded


def pace(config: Config, number: int, progress: Progress) -> Pace:
    """Of step ``number``, counted from 1, for a run that stands where ``progress`` says."""
    left = (progress.end or config.steps) - number + 1
    fall = min(1.0, left / config.cool_down) if config.cool_down else 1.0
    rate = ROUNDING_RATE if progress.rounding else 1.0
    cells = memory_size(config, number, bool(progress.learnt_at))
    return Pace(config.lr * rate * fall, config.noise * fall, cells, thresholds(progress.rounding))


def thresholds(rounding: float) -> Thresholds:
    return Thresholds(rounding, min(rounding, GATES))


def next_rounding(rounding: float, answered: float) -> float:
    """The threshold after an evaluation in which a share of the training lengths was answered, rounded so far."""
    if answered >= ANSWERS:
        return min(rounding * GROWTH, ONE_HOT) if rounding else PAPER.tau
    return rounding / GROWTH if answered < ANSWERS / 2 else rounding


def memory_size(config: Config, number: int, learnt: bool) -> int:
    """Cells of step ``number``: their logarithm is uniform between two bounds, both included."""
    cells = config.learnt_memory_size if learnt and config.learnt_memory_size else config.memory_size
    if isinstance(cells, int):
        return cells
    drawn = generator(CELLS, config.seed, number).uniform(math.log(cells[0]), math.log(cells[1] + 1))
    return min(max(int(math.exp(drawn)), cells[0]), cells[1])
