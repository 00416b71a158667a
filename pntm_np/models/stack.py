"""A stack of mixers, of which every model and every bench model is made."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from autodiff import Array, DType, Namespace, Value, expect
from autodiff.backend import FLOAT32
from pntm_np.models.initial import initial_weight
from pntm_np.models.layers import Params, Weights, block_shapes, feed_forward, norm, part
from pntm_np.models.mixer import Mixer
from pntm_np.models.options import DEFAULT, Options
from pntm_np.protocol import TRAINING_MEMORY

States = tuple[Any, ...]  # one per mixer, each of its own type


@dataclass(frozen=True)
class Stack:
    """x (B, T, d) -> (B, T, d) by residual blocks: x + mixer(norm x), then x + feed-forward(norm x). If ``names`` are
    given, mixers are composed without norms and residuals, and their parameters have these names as prefixes."""

    width: int
    mixers: tuple[Mixer, ...]
    names: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.width < 1:
            raise ValueError(f"width is {self.width}; expected at least 1")
        self.shapes()  # raises if sizes do not fit together

    @property
    def forms(self) -> tuple[str, ...]:
        return max((m.forms for m in self.mixers), key=len, default=())

    @property
    def has_memory(self) -> bool:
        return any(m.has_memory for m in self.mixers)

    @property
    def thresholds(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(name for m in self.mixers for name in m.thresholds))

    @property
    def sharpens(self) -> bool:
        return any(m.sharpens for m in self.mixers)

    @property
    def takes_noise(self) -> bool:
        return any(m.takes_noise for m in self.mixers)

    @property
    def places(self) -> list[tuple[str, Mixer]]:
        """Each mixer with the prefix of its parameters' names."""
        names = self.names or [f"blocks.{i}.mixer" for i in range(len(self.mixers))]
        return [(f"{name}.", mixer) for name, mixer in zip(names, self.mixers, strict=True)]

    @property
    def memory(self) -> tuple[str, Mixer] | None:
        """The first mixer with a memory, with the prefix of its parameters' names."""
        return next((place for place in self.places if place[1].has_memory), None)

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Name and shape of every parameter, in the order of a checkpoint."""
        shapes: dict[str, tuple[int, ...]] = {}
        for i, (name, mixer) in enumerate(self.places):
            block = {} if self.names else {f"blocks.{i}.{k}": v for k, v in block_shapes(self.width).items()}
            shapes |= {k: v for k, v in block.items() if ".norm1." in k}
            shapes |= {f"{name}{k}": v for k, v in mixer.shapes(self.width).items()}
            shapes |= block
        return shapes

    def parameter_count(self) -> int:
        return sum(math.prod(shape) for shape in self.shapes().values())

    def init(self, rng: np.random.Generator, dtype: DType = FLOAT32, start: str = "uniform") -> Params:
        """Initial parameters for training."""
        return {name: initial_weight(rng, name, shape, start).astype(dtype) for name, shape in self.shapes().items()}

    def initial_state(
        self, batch: int, memory_size: int = TRAINING_MEMORY, *, xp: Namespace = np, dtype: DType = FLOAT32
    ) -> States:
        """The mixers' states before the first token. ``memory_size``, in cells, applies to mixers with a memory."""
        if batch < 0:
            raise ValueError(f"batch is {batch}; expected 0 or more")
        memory_size = expect.integer("memory_size", memory_size)
        if memory_size < 1:
            raise ValueError(f"memory_size is {memory_size}; expected at least 1")
        return tuple(m.start(xp, batch, self.width, memory_size, dtype) for m in self.mixers)

    def run(self, params: Weights, x: Array, state: States, options: Options = DEFAULT) -> tuple[Value, States]:
        """y (B, T, d) of a sequence x (B, T, d), and the state after it."""
        return self.through(params, x, state, options, whole=True)

    def step(self, params: Weights, state: States, x: Array, options: Options = DEFAULT) -> tuple[States, Value]:
        """The next state, and y (B, d), for one vector x (B, d) of each sequence."""
        y, state = self.through(params, x, state, options, whole=False)
        return state, y

    def through(
        self, params: Weights, x: Value, state: States, options: Options, whole: bool, prepared: bool = False
    ) -> tuple[Value, States]:
        """Pass a whole sequence or one time step through all mixers. ``prepared``: x is prepared for the first one."""
        after = []
        for i, ((name, mixer), before) in enumerate(zip(self.places, state, strict=True)):
            shown = options if options.observer is None else replace(options, block=i)
            run = mixer.sequence if whole else mixer.step
            if self.names:
                w = part(params, name)
                x, now = run(w, x if prepared and i == 0 else mixer.prepare(w, x), before, shown)
            else:
                block = part(params, f"blocks.{i}.")
                w = part(block, "mixer.")
                y, now = run(w, mixer.prepare(w, norm(block, "norm1", x)), before, shown)
                x = x + y
                x = x + feed_forward(block, norm(block, "norm2", x))
            after.append(now)
        return x, tuple(after)
