"""How a model is run, as opposed to what it is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Options:
    form: str = "chunked"  # of the scans
    tau: float = 0.0  # shifts below it become 0: the paper's stable inference
    gate_tau: float = 0.0  # minGRU's gates within it of 0 or 1 become so
    measures: dict[str, list] | None = None  # filled, if given, with what a loss may want: shift_entropy, ..

    def measure(self, name: str, compute: Callable[[], Any]) -> None:
        if self.measures is not None:
            self.measures.setdefault(name, []).append(compute())


DEFAULT = Options()
