"""What every step is made with: rate, noise, rounding and memory follow how far the machine has come, not the clock.

1. It learns, half of every batch under noise. At its beginning the rate rises.
2. Once it answers most inputs of the training lengths, shifts and gates are rounded in the other half, ever more as
   long as it goes on answering. The rate is halved, and the noise doubled.
3. Once it answers with every shift one-hot, rate and noise fall over the last steps, and what is rounded is rounded
   that far. A machine that is not certain then goes on from 2, with a rate that rises as at the beginning.

A machine that gets nowhere in 1, or nowhere in 2, begins again with other parameters: some starts lead nowhere, and
they can be told early, for those that come to learn a task answer more of it when others stay where they are. These
milestones are counted in ``restart_after`` steps. Nothing is rounded in an NTM: there 2 begins when it has learnt the
training lengths, and asks for memories of all sizes.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from pntm_np.runtime.randomness import CELLS, generator
from pntm_np.training.config import Config
from pntm_np.training.rounding import ANSWERS, FIRST, LAST
from pntm_np.training.run import Progress

ROUNDED_RATE = 0.5  # of the learning rate: rounding changes what a machine does in jumps
LATER_NOISE = 2.0  # times the noise, from 2 on: what a head leaks at every step averages out under less

SOME = 0.2  # of the inputs, to be answered after 1 x restart_after
MOST = ANSWERS  # to be answered after 3 x restart_after
MOST_AFTER, LEARNT_AFTER = 3, 2  # the training lengths are to be learnt 2 x restart_after later than most inputs


class Pace(NamedTuple):
    lr: float
    noise: float  # deviation, of the logits of shifts and gates
    blur: float  # share of every shift that is spread
    cells: int  # of the memory
    rounding: tuple[float, float] | None  # thresholds between which those of half of the batch are drawn


def pace(config: Config, number: int, progress: Progress) -> Pace:
    """Of step ``number``, counted from 1, for a run that stands where ``progress`` says."""
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
    """Cells of step ``number``: their logarithm is uniform between two bounds, both included."""
    cells = config.learnt_memory_size if learnt and config.learnt_memory_size else config.memory_size
    if isinstance(cells, int):
        return cells
    drawn = generator(CELLS, config.seed, number).uniform(math.log(cells[0]), math.log(cells[1] + 1))
    return min(max(int(math.exp(drawn)), cells[0]), cells[1])


def is_late(config: Config, progress: Progress, answered: float) -> bool:
    """After an evaluation in which so many inputs were answered."""
    unit = config.restart_after
    if not unit or progress.learnt_at:
        return False
    if progress.most_at:
        return progress.step - progress.most_at >= LEARNT_AFTER * unit
    return progress.step - progress.began >= (unit if answered < SOME else MOST_AFTER * unit)


def in_words(unit: int) -> str:
    return (
        f"answer {SOME:.0%} of the inputs after {unit:,} steps and {MOST:.0%} after {MOST_AFTER * unit:,}, "
        f"and solve the task at most {LEARNT_AFTER * unit:,} steps later"
    )
