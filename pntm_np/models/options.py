"""How a model is run, as opposed to what it is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from pntm_np.scans import FORMS


@dataclass(frozen=True)
class Options:
    form: str = "chunked"  # of the scans
    tau: float = 0.0  # shifts below it become 0: the paper's stable inference
    gate_tau: float = 0.0  # minGRU's gates within it of 0 or 1 become so
    measures: dict[str, list] = field(default_factory=dict)  # what is asked for by its name is added to its list

    def __post_init__(self) -> None:
        if self.form not in FORMS:
            raise ValueError(f"form is {self.form!r}; expected one of {', '.join(FORMS)}")
        if not 0 <= self.tau <= 1:
            raise ValueError(f"tau is {self.tau}; expected a number from 0 to 1")
        if not 0 <= self.gate_tau <= 0.5:
            raise ValueError(f"gate_tau is {self.gate_tau}; expected a number from 0 to 0.5")

    def measure(self, name: str, compute: Callable[[], Any]) -> None:
        if name in self.measures:
            self.measures[name].append(compute())


DEFAULT = Options()
