"""The contract of all mixers: what turns a sequence of vectors into another, and all that is asked of it.

A mixer is a frozen dataclass of sizes. Parameters and states are values that are passed in and out. ``sequence`` takes
all steps at once and ``step`` one of them; both are the same machine. Whoever estimates memory, counts products, lists
models, records a trace or changes a machine asks here, so that a new mixer is one file and a line in the registry.
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
    """What a training step is made with, as far as it determines how much memory that takes."""

    rows: int
    steps: int
    cells: int
    form: str
    device: str


@dataclass(frozen=True)
class Mixer(ABC, Generic[S]):
    forms: ClassVar[tuple[str, ...]] = ()  # of its recurrence, if there are several
    thresholds: ClassVar[tuple[str, ...]] = ()  # those of Thresholds that change it
    takes_noise: ClassVar[bool] = False  # on the logits of its gates and shifts, in training
    sharpens: ClassVar[bool] = False  # its addresses, so that it can undo a blur of its shifts
    has_memory: ClassVar[bool] = False  # whose size is chosen for every run
    moves_first: ClassVar[bool] = False  # a step moves its heads before it writes and reads, not at its end
    decoding_copies: ClassVar[float] = 2.8  # of the state, at the peak of a step; measured

    def __post_init__(self) -> None:
        for name, value in self.sizes().items():
            if value < 1:
                raise ValueError(f"{name} is {value}; expected at least 1")

    @abstractmethod
    def shapes(self, width: int) -> dict[str, tuple[int, ...]]:
        """Name and shape of every parameter for vectors of that width; ValueError if they do not fit together."""

    @abstractmethod
    def start(self, xp: Namespace, batch: int, width: int, memory_size: int, dtype: DType) -> S:
        """The state before the first step."""

    @abstractmethod
    def sequence(self, w: Weights, x: Value, state: S, options: Options) -> tuple[Value, S]:
        """All steps: x (B, T, d) -> y (B, T, d), and the state after the last."""

    @abstractmethod
    def step(self, w: Weights, x: Value, state: S, options: Options) -> tuple[Value, S]:
        """One step: x (B, d) -> y (B, d), and the next state. What it does is shown to ``options.observer``."""

    def prepare(self, w: Weights, x: Value) -> Value:
        """What ``sequence`` and ``step`` take in place of x. Each vector is prepared by itself, so that a model whose
        first layer this is can do it for every symbol of its vocabulary instead of every token."""
        return x

    prepares: ClassVar[tuple[str, ...]] = ()  # the matrices that ``prepare`` uses

    def sizes(self) -> dict[str, int]:
        """Its sizes by name, as ``pntm models`` lists them."""
        return {f.name: getattr(self, f.name) for f in fields(self) if isinstance(getattr(self, f.name), int)}

    def growth(self, width: int) -> int:
        """Numbers that every token adds to the state."""
        return 0

    def products(self, width: int, length: int) -> int:
        """Multiplications for a token beside those of its parameters, in a sequence of that length."""
        return 0

    @abstractmethod
    def training_numbers(self, width: int, load: Load) -> float:
        """Numbers that a training step keeps for every step of a sequence; factors are fitted to measured peaks."""

    def traced_numbers(self, cells: int, steps: int) -> int:
        """Numbers that a trace keeps of every step."""
        return 0

    # of mixers with a memory, to see what their heads do
    def rounded(self, w: Params) -> Params:
        """The parameters to replace so that with tau = 1 every shift is one-hot."""
        return {}

    def without_reads(self, w: Params, head: int) -> Params:
        """The parameters to replace so that nothing that a read head finds counts any more."""
        raise NotImplementedError(f"{type(self).__name__} has no read heads")

    def read_mixing(self, w: Params, head: int) -> Array | None:
        """How the shares of a cell, one for each write head, reach the output (d, n); None if cells have no shares."""
        return None
