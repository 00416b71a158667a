"""How a model is run, as opposed to what it is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from autodiff import Array, Value
from pntm_np.models.layers import straight_through
from pntm_np.protocol import TAU
from pntm_np.scans import FORMS

Observer = Callable[[int, str, Value], None]  # the layer's number, the name of what it shows, and its value


class Thresholds(NamedTuple):
    """What is rounded at inference, so that a machine stays exact on long inputs."""

    tau: float = 0.0  # shifts below it become 0
    gate_tau: float = 0.0  # minGRU's gates closer than this to 0 or 1 become 0 or 1


PAPER = Thresholds(TAU, 0.0)  # the paper's stable inference


@dataclass(frozen=True)
class Options:
    form: str = "chunked"  # of the scans
    tau: float = 0.0
    gate_tau: float = 0.0
    noise: Callable[[Value], Value] | None = None  # disturbs the logits of shifts and gates in training
    blur: Array | None = None  # (B,): the share of a row's shifts that is spread evenly over all three, in training
    rounding: Mapping[str, Array] | None = None  # and thresholds for rows 0, 2, .. by name; gradients pass unchanged
    observer: Observer | None = None  # is shown what layers do in a step
    block: int = 0  # the number of the layer that is being run, for the observer

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

    def disturbed(self, logits: Value) -> Value:
        """The logits of decisions as a layer is to use them."""
        return logits if self.noise is None else self.noise(logits)

    def blurred(self, s: Value) -> Value:
        """Shifts (B, .., 3) as a layer that sharpens its addresses is to use them."""
        if self.blur is None:
            return s
        share = self.blur.reshape(-1, *[1] * (len(s.shape) - 1))
        return s * (1 - share) + share / 3

    def rounded(self, decisions: Value, rounding: Callable[..., Value], name: str) -> Value:
        """Shifts or gates as a layer is to use them; ``name`` is that of their threshold."""
        if self.rounding is not None:
            return straight_through(decisions, rounding=rounding, tau=self.rounding[name])
        tau = getattr(self, name)
        return rounding(decisions, tau=tau) if tau else decisions

    def show(self, name: str, value: Callable[[], Value]) -> None:
        """Show the observer, if there is one, what a layer does; it is computed for that alone."""
        if self.observer is not None:
            self.observer(self.block, name, value())


DEFAULT = Options()
