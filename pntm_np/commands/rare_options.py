"""Rarely needed options of a run: set by ``--option NAME=VALUE``, as in a sweep, instead of by flags of their own."""

from __future__ import annotations

from typing import Any, NamedTuple

import click

from pntm_np.commands.types import CellRange, Count, Named, Number, Value
from pntm_np.models import STARTS

STEPS = Count(0, 10**9)


class RareOption(NamedTuple):
    kind: click.ParamType
    meaning: str


RARE = {
    "warm-up": RareOption(STEPS, "Raise the learning rate from 0 over the first N steps."),
    "cool-down": RareOption(
        STEPS, "Decay learning rate and noise to 0 over the last N steps; starts early once the task is solved."
    ),
    "clip": RareOption(Number(), "Scale gradients down to this infinity norm; 0: never."),
    "restart-after": RareOption(
        STEPS,
        "Start over with new parameters if less than a fifth of the answers is right after N steps, less than nine "
        "tenths after 3 N, or the training lengths are not learnt 2 N later; 0: never.",
    ),
    "start": RareOption(
        Named("start", STARTS), "uniform: draw initial weights in +-1/sqrt(fan-in); flax: draw them as Flax does."
    ),
    "head-gain": RareOption(
        Number(), "Multiply the initial shift weights of half of P-NTM's heads, so that their shifts start near 0 or 1."
    ),
    "blur": RareOption(Number(), "Spread this share of NTM's shifts over left, stay and right in half of every batch."),
    "learnt-memory-size": RareOption(
        CellRange(1, 10**7), "Use N cells, or between A and B, once the training lengths are learnt."
    ),
}


class Rare(Value):
    """NAME=VALUE for one of the rarely needed options."""

    name = "NAME=VALUE"

    def parse(self, text: str) -> tuple[str, Any]:
        option, equals, given = (part.strip() for part in text.partition("="))
        option = option.replace("_", "-")
        if option not in RARE or not equals:
            self.fail(f"{text!r:.60}; expected NAME=VALUE with one of {', '.join(RARE)}. See --list-options")
        try:
            return option.replace("-", "_"), RARE[option].kind.convert(given, None, None)
        except click.BadParameter as error:
            self.fail(f"{option}: {error.message}")
