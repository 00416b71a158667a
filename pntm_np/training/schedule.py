"""The schedule: learning rate, noise, rounding and memory size of every step follow the model's progress.

1. The model learns, with noise in half of every batch. At first the learning rate rises.
2. Once most answers on the training lengths are right, shifts and gates are rounded in the other half, ever more as
   long as the answers stay right. The learning rate is halved, and the noise doubled.
3. Once the answers are right with every shift one-hot, learning rate and noise fall over the last steps, with full
   rounding. A model that is not certain at the end goes on from 2, with a learning rate that rises as at first.

A model that makes no progress in 1 or 2 starts over with new parameters. Some initial parameters fail, and they can be
recognised early, because their answers do not improve when those of others do. The milestones are multiples of
``restart_after`` steps. An NTM is not rounded: for it, 2 begins when it has learnt the training lengths, and has
memories of all sizes.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from pntm_np.runtime.randomness import CELLS, generator
from pntm_np.training.config import Config
from pntm_np.training.rounding import ANSWERS, FIRST, LAST
from pntm_np.training.run import Progress

ROUNDED_RATE = 0.5  # factor on the learning rate from 2 on: rounding makes the model change in jumps
LATER_NOISE = 2.0  # factor on the noise from 2 on: under less noise, what a head leaks at every step averages out

SOME = 0.2  # share of right answers to reach after 1 x restart_after
MOST = ANSWERS  # share to reach after 3 x restart_after
MOST_AFTER, LEARNT_AFTER = 3, 2  # the training lengths must be learnt 2 x restart_after later than that


class Pace(NamedTuple):
    lr: float
    noise: float  # standard deviation on the logits of shifts and gates
    blur: float  # share of every shift that is spread
    cells: int  # memory size
    rounding: tuple[float, float] | None  # bounds between which the thresholds of half of the batch are drawn


def pace(config: Config, number: int, progress: Progress) -> Pace:
    """The pace of step ``number``, counted from 1, after ``progress``."""
    left = (progress.end or config.steps) - number + 1
    fall = min(1.0, left / config.cool_down) if config.cool_down else 1.0
    since = max(progress.began, progress.examined)
    rate = min(1.0, (number - since) / config.warm_up) if config.warm_up else 1.0
    rate *= ROUNDED_RATE if progress.rounding else 1.0
    cells = memory_size(config, number, bool(progress.learnt_at))
    smallest = LAST if progress.end else FIRST
    rounding = (smallest, progress.rounding) if progress.rounding else None
    more = fall * (LATER_NOISE if progress.rounding or progress.learnt_at else 1.0)
    return Pace(config.lr * rate * fall, config.noise * more, config.blur * more, cells, rounding)


def memory_size(config: Config, number: int, learnt: bool) -> int:
    """Cells in step ``number``: log-uniform between two bounds, both included."""
    cells = config.learnt_memory_size if learnt and config.learnt_memory_size else config.memory_size
    if isinstance(cells, int):
        return cells
    drawn = generator(CELLS, config.seed, number).uniform(math.log(cells[0]), math.log(cells[1] + 1))
    return min(max(int(math.exp(drawn)), cells[0]), cells[1])


def is_late(config: Config, progress: Progress, answered: float) -> bool:
    """Whether training has missed a milestone, after an evaluation with the exact match ``answered``."""
    unit = config.restart_after
    if not unit or progress.learnt_at:
        return False
    if progress.most_at:
        return progress.step - progress.most_at >= LEARNT_AFTER * unit
    return progress.step - progress.began >= (unit if answered < SOME else MOST_AFTER * unit)


def in_words(unit: int) -> str:
    most = f"{MOST:.0%} after {MOST_AFTER * unit:,}"
    return f"{SOME:.0%} of the inputs after {unit:,}, {most}, learnt {LEARNT_AFTER * unit:,} later"
