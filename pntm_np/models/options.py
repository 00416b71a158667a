"""How a model is run, as opposed to what it is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from pntm_np.layers import straight_through
from pntm_np.scans import FORMS


class Thresholds(NamedTuple):
    """What is rounded at inference, so that a machine stays exact on long inputs."""

    tau: float = 0.0  # shifts below it become 0
    gate_tau: float = 0.0  # minGRU's gates closer than this to 0 or 1 become 0 or 1


PAPER = Thresholds(0.01, 0.0)  # the paper's stable inference


@dataclass(frozen=True)
class Options:
    form: str = "chunked"  # of the scans
    tau: float = 0.0
    gate_tau: float = 0.0
    noise: Callable[[Any], Any] | None = None  # disturbs the logits of shifts and gates in training
    training: bool = False  # every second row is rounded alone, and its gradient passes as if it were not
    measures: dict[str, list] = field(default_factory=dict)  # what is asked for by its name is added to its list

    def __post_init__(self) -> None:
        if self.form not in FORMS:
            raise ValueError(f"form is {self.form!r}; expected one of {', '.join(FORMS)}")
        if not 0 <= self.tau <= 1:
            raise ValueError(f"tau is {self.tau}; expected a number from 0 to 1")
        if not 0 <= self.gate_tau <= 0.5:
            raise ValueError(f"gate_tau is {self.gate_tau}; expected a number from 0 to 0.5")

    @property
    def thresholds(self) -> Thresholds:
        return Thresholds(self.tau, self.gate_tau)

    def disturbed(self, logits: Any) -> Any:
        """The logits of decisions as a layer is to use them."""
        return logits if self.noise is None else self.noise(logits)

    def rounded(self, decisions: Any, rounding: Callable[..., Any], tau: float) -> Any:
        """Shifts or gates as a layer is to use them."""
        if not tau:
            return decisions
        if self.training:
            return straight_through(decisions, rounding=rounding, tau=tau)
        return rounding(decisions, tau=tau)

    def measure(self, name: str, compute: Callable[[], Any]) -> None:
        if name in self.measures:
            self.measures[name].append(compute())


DEFAULT = Options()
