"""Milestones: a machine that does not reach them in time begins again with other parameters.

Some starts lead nowhere, and they can be told early: those that come to learn a task answer more of it when others stay
where they are. The milestones are counted in ``restart_after`` steps, and seen on inputs of the training lengths.
"""

from __future__ import annotations

from pntm_np.training.config import Config
from pntm_np.training.rounding import ANSWERS
from pntm_np.training.run import Progress

SOME = 0.2  # of the inputs, to be answered after 1 x restart_after
MOST = ANSWERS  # to be answered after 3 x restart_after
MOST_AFTER, LEARNT_AFTER = 3, 2  # the training lengths are to be learnt 2 x restart_after later than most inputs


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
        f"{SOME:.0%} of the inputs after {unit:,}, {MOST:.0%} after {MOST_AFTER * unit:,}, "
        f"learnt {LEARNT_AFTER * unit:,} later"
    )
