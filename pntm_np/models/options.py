"""How a model is run, as opposed to what it is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from autodiff import Array, Value
from pntm_np.models.layers import straight_through
from pntm_np.protocol import TAU
from pntm_np.scans import FORMS

Observer = Callable[[int, str, Value], None]  # called with a layer's number, the name of a quantity, and its value


class Thresholds(NamedTuple):
    """Thresholds for rounding at inference, so that a model stays exact on long inputs."""

    tau: float = 0.0  # shifts below it become 0
    gate_tau: float = 0.0  # minGRU's gates closer than this to 0 or 1 become 0 or 1


PAPER = Thresholds(TAU, 0.0)  # the paper's stable inference


@dataclass(frozen=True)
class Options:
    form: str = "chunked"  # form of the scans
    tau: float = 0.0
    gate_tau: float = 0.0
    noise: Callable[[Value], Value] | None = None  # disturbs the logits of shifts and gates in training
    blur: Array | None = None  # (B,): the share of each row's shifts that training spreads evenly over all three
    rounding: Mapping[str, Array] | None = None  # in training: thresholds by name for rows 0, 2, ..
    observer: Observer | None = None  # receives what layers compute in a time step
    block: int = 0  # the number of the current layer, for the observer

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
        """The logits of gates or shifts, with the training noise (if any)."""
        return logits if self.noise is None else self.noise(logits)

    def blurred(self, s: Value) -> Value:
        """Shifts (B, ..., 3) with the training blur (if any), for a layer that sharpens its addresses."""
        if self.blur is None:
            return s
        share = self.blur.reshape(-1, *[1] * (len(s.shape) - 1))
        return s * (1 - share) + share / 3

    def rounded(self, decisions: Value, rounding: Callable[..., Value], name: str) -> Value:
        """Shifts or gates after rounding (if any) by the threshold called ``name``."""
        if self.rounding is not None:
            return straight_through(decisions, rounding=rounding, tau=self.rounding[name])
        tau = getattr(self, name)
        return rounding(decisions, tau=tau) if tau else decisions

    def show(self, name: str, value: Callable[[], Value]) -> None:
        """Pass a value to the observer; without one, ``value`` is not called."""
        if self.observer is not None:
            self.observer(self.block, name, value())


DEFAULT = Options()
