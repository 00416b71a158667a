"""The contract of all mixers, which turn one sequence of vectors into another.

A mixer is a frozen dataclass of sizes. Parameters and states are passed in and out. ``sequence`` takes all time steps
at once and ``step`` takes one; both compute the same function. Estimates of RAM, counts of multiplications, the list of
models, traces and ablations all rely on these methods, so that a new mixer is one file and a place in the registry.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, fields
from typing import ClassVar, Generic, NamedTuple, TypeVar

from autodiff import Array, DType, Namespace, Value
from pntm_np.models.layers import Params, Weights
from pntm_np.models.options import Options

S = TypeVar("S")  # a mixer's state


class Load(NamedTuple):
    """What determines how much RAM a training step needs."""

    rows: int
    steps: int
    cells: int
    form: str
    device: str


@dataclass(frozen=True)
class Mixer(ABC, Generic[S]):
    forms: ClassVar[tuple[str, ...]] = ()  # the forms of its recurrence, if there are several
    thresholds: ClassVar[tuple[str, ...]] = ()  # the fields of Thresholds that apply to it
    takes_noise: ClassVar[bool] = False  # training adds noise to the logits of its gates and shifts
    sharpens: ClassVar[bool] = False  # it sharpens its addresses, and can so undo a blur of its shifts
    has_memory: ClassVar[bool] = False  # it has a memory, whose size is chosen for every run
    moves_first: ClassVar[bool] = False  # a time step moves the heads before it writes and reads, not after
    decoding_copies: ClassVar[float] = 2.8  # copies of the state at the peak of a time step, measured

    def __post_init__(self) -> None:
        for name, value in self.sizes().items():
            if value < 1:
                raise ValueError(f"{name} is {value}; expected at least 1")

    @abstractmethod
    def shapes(self, width: int) -> dict[str, tuple[int, ...]]:
        """The name and shape of every parameter for that width; ValueError if sizes do not fit together."""

    @abstractmethod
    def start(self, xp: Namespace, batch: int, width: int, memory_size: int, dtype: DType) -> S:
        """The state before the first time step."""

    @abstractmethod
    def sequence(self, w: Weights, x: Value, state: S, options: Options) -> tuple[Value, S]:
        """All time steps: x (B, T, d) -> y (B, T, d), and the state after the last."""

    @abstractmethod
    def step(self, w: Weights, x: Value, state: S, options: Options) -> tuple[Value, S]:
        """One time step: x (B, d) -> y (B, d), and the next state; ``options.observer`` is shown what happens."""

    def prepare(self, w: Weights, x: Value) -> Value:
        """What ``sequence`` and ``step`` take in place of x. Each vector is prepared by itself, so the first layer
        of a model can prepare every symbol of the vocabulary instead of every token."""
        return x

    prepares: ClassVar[tuple[str, ...]] = ()  # the matrices that ``prepare`` multiplies by

    def sizes(self) -> dict[str, int]:
        """The sizes by name, as ``pntm models`` lists them."""
        return {f.name: getattr(self, f.name) for f in fields(self) if isinstance(getattr(self, f.name), int)}

    def growth(self, width: int) -> int:
        """How many numbers each token adds to the state."""
        return 0

    def products(self, width: int, length: int) -> int:
        """Multiplications per token that involve no parameter, in a sequence of that length."""
        return 0

    @abstractmethod
    def training_numbers(self, width: int, load: Load) -> float:
        """How many numbers a training step keeps per time step; factors are fitted to measured peaks."""

    def traced_numbers(self, cells: int, steps: int) -> int:
        """How many numbers a trace keeps of each time step."""
        return 0

    # for mixers with a memory: changes that show what their heads do
    def rounded(self, w: Params) -> Params:
        """Replacements for parameters with which every shift is one-hot at tau = 1."""
        return {}

    def without_reads(self, w: Params, head: int) -> Params:
        """Replacements for parameters with which the output ignores what a read head finds."""
        raise NotImplementedError(f"{type(self).__name__} has no read heads")

    def read_mixing(self, w: Params, head: int) -> Array | None:
        """The matrix (d, n) from a cell to the output, if write heads have shares of a cell; otherwise None."""
        return None
