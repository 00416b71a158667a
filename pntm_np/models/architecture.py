"""The contract of all models: what each is made of, how it starts, and the two ways to run it.

A model is a frozen dataclass that describes it; parameters and states are values that are passed in and out. ``run``
takes a whole sequence and ``step`` one token; both take a state and return the next one, and are the same machine.
Parameters are a flat dict by the names of a checkpoint: ``blocks.0.mixer.W_z``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import Any, ClassVar

import numpy as np

import autodiff as ad
from autodiff import expect
from autodiff.backend import Array
from pntm_np.models.initial import initial_weight
from pntm_np.models.layers import Weights, block_shapes, feed_forward, linear, norm, part
from pntm_np.models.lstm.sequential import lstm_cell, lstm_scan
from pntm_np.models.ntm.layer import NTM
from pntm_np.models.options import DEFAULT, Options
from pntm_np.scans.forms import check_form

TRAINING_MEMORY = 96  # cells; the paper's 2 x 40 + 16


@dataclass(frozen=True)
class Architecture:
    """Embedding, a sequence-processing part, decoder. Subclasses say what is in between."""

    vocabulary: int = 6
    width: int = 64
    forms: ClassVar[tuple[str, ...]] = ()
    has_memory: ClassVar[bool] = False  # whose size is chosen for every run
    thresholds: ClassVar[tuple[str, ...]] = ()  # those of Thresholds that change it
    takes_noise: ClassVar[bool] = False  # on the logits of its gates and shifts, in training

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, int) and value < 1:
                raise ValueError(f"{field.name} is {value}; expected at least 1")
        self.shapes()  # sizes that do not fit together are found now

    # what a subclass gives
    def inner_shapes(self) -> dict[str, tuple[int, ...]]:
        raise NotImplementedError

    def inner_state(self, xp: Any, batch: int, memory_size: int, dtype: Any) -> Any:
        raise NotImplementedError

    def inner_sequence(self, params: Weights, x: Any, state: Any, options: Options) -> tuple[Any, Any]:
        raise NotImplementedError

    def inner_step(self, params: Weights, x: Any, state: Any, options: Options) -> tuple[Any, Any]:
        raise NotImplementedError

    def embedded(self, params: Weights, tokens: Array) -> Any:
        """What the sequence-processing part is given for each token."""
        return ad.take(params["embed.weight"], tokens)

    # what everyone uses
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Name and shape of every parameter, in the order of a checkpoint."""
        return {
            "embed.weight": (self.vocabulary, self.width),
            **self.inner_shapes(),
            "decoder.weight": (self.vocabulary, self.width),
            "decoder.bias": (self.vocabulary,),
        }

    def parameter_count(self) -> int:
        return sum(math.prod(shape) for shape in self.shapes().values())

    def init(self, rng: np.random.Generator, dtype: Any = np.float32, start: str = "uniform") -> Weights:
        """Parameters that training can start from."""
        return {name: initial_weight(rng, name, shape, start).astype(dtype) for name, shape in self.shapes().items()}

    def initial_state(
        self, batch: int, memory_size: int = TRAINING_MEMORY, *, xp: Any = np, dtype: Any = np.float32
    ) -> Any:
        """The state before the first token; ``memory_size`` counts for models with a memory."""
        if batch < 0:
            raise ValueError(f"batch is {batch}; expected 0 or more")
        memory_size = expect.integer("memory_size", memory_size)
        if memory_size < 1:
            raise ValueError(f"memory_size is {memory_size}; expected at least 1")
        return self.inner_state(xp, batch, memory_size, dtype)

    def run(self, params: Weights, tokens: Array, state: Any, options: Options = DEFAULT) -> tuple[Array, Any]:
        """Logits (B, T, V) of a sequence of tokens (B, T), and the state after it."""
        self._check_tokens(tokens, 2)
        x, state = self.inner_sequence(params, self.embedded(params, tokens), state, options)
        return self._decode(params, x), state

    def step(self, params: Weights, state: Any, tokens: Array, options: Options = DEFAULT) -> tuple[Any, Array]:
        """The next state, and logits (B, V), for one token (B,) of each sequence."""
        self._check_tokens(tokens, 1)
        x, state = self.inner_step(params, self.embedded(params, tokens), state, options)
        return state, self._decode(params, x)

    def forward(
        self, params: Weights, tokens: Array, memory_size: int = TRAINING_MEMORY, options: Options = DEFAULT
    ) -> Array:
        """Logits (B, T, V) of whole sequences from their start: what training calls."""
        self._check_tokens(tokens, 2)
        embedding = ad.stop_gradient(params["embed.weight"])
        start = self.initial_state(tokens.shape[0], memory_size, xp=ad.array_module(embedding), dtype=embedding.dtype)
        return self.run(params, tokens, start, options)[0]

    def _decode(self, params: Weights, x: Any) -> Any:
        return linear(x, params["decoder.weight"]) + params["decoder.bias"]

    def _check_tokens(self, tokens: Any, ndim: int) -> None:
        shape = getattr(tokens, "shape", None)
        expected = "(B, T) with T >= 1" if ndim == 2 else "(B,)"
        if shape is None or len(shape) != ndim or tokens.dtype.kind not in "iu" or (ndim == 2 and shape[1] < 1):
            given = "nothing that has a shape" if shape is None else f"{tokens.dtype} {tuple(shape)}"
            raise ValueError(f"tokens are {given}; expected integers {expected}")
        if isinstance(tokens, np.ndarray) and tokens.size and not 0 <= tokens.min() <= tokens.max() < self.vocabulary:
            raise ValueError(f"tokens range from {tokens.min()} to {tokens.max()}; expected 0 to {self.vocabulary - 1}")


@dataclass(frozen=True)
class Stack(Architecture):
    """Residual blocks: x + mixer(norm x), then x + feed-forward(norm x). minGRU, P-NTM and Transformers."""

    mixers: tuple[Any, ...] = ()

    @property
    def forms(self) -> tuple[str, ...]:  # type: ignore[override]
        return max((m.forms for m in self.mixers), key=len, default=())

    @property
    def has_memory(self) -> bool:  # type: ignore[override]
        return any(m.has_memory for m in self.mixers)

    @property
    def thresholds(self) -> tuple[str, ...]:  # type: ignore[override]
        return tuple(dict.fromkeys(m.threshold for m in self.mixers if m.threshold))

    @property
    def takes_noise(self) -> bool:  # type: ignore[override]
        return bool(self.thresholds)  # what they round is what noise disturbs

    def inner_shapes(self) -> dict[str, tuple[int, ...]]:
        shapes = {}
        for i, mixer in enumerate(self.mixers):
            block = block_shapes(self.width)
            names = {"norm1.scale", "norm1.bias"}
            shapes |= {f"blocks.{i}.{k}": v for k, v in block.items() if k in names}
            shapes |= {f"blocks.{i}.mixer.{k}": v for k, v in mixer.shapes(self.width).items()}
            shapes |= {f"blocks.{i}.{k}": v for k, v in block.items() if k not in names}
        return shapes

    def inner_state(self, xp: Any, batch: int, memory_size: int, dtype: Any) -> tuple[Any, ...]:
        return tuple(m.start(xp, batch, self.width, memory_size, dtype) for m in self.mixers)

    def inner_sequence(self, params: Weights, x: Any, state: Any, options: Options) -> tuple[Any, Any]:
        return self._through(params, x, state, options, "sequence")

    def inner_step(self, params: Weights, x: Any, state: Any, options: Options) -> tuple[Any, Any]:
        return self._through(params, x, state, options, "step")

    def _through(self, params: Weights, x: Any, state: Any, options: Options, way: str) -> tuple[Any, Any]:
        after = []
        for i, (mixer, before) in enumerate(zip(self.mixers, state, strict=True)):
            w = part(params, f"blocks.{i}.")
            y, now = getattr(mixer, way)(part(w, "mixer."), norm(w, "norm1", x), before, options)
            x = x + y
            x = x + feed_forward(w, norm(w, "norm2", x))
            after.append(now)
        return x, tuple(after)


@dataclass(frozen=True)
class LSTMModel(Architecture):
    """One LSTM layer between embedding and decoder."""

    width: int = 192
    forms: ClassVar[tuple[str, ...]] = ("sequential", "fused")

    def inner_shapes(self) -> dict[str, tuple[int, ...]]:
        d = self.width
        return {"mixer.W_x": (4 * d, d), "mixer.W_h": (4 * d, d), "mixer.b": (4 * d,)}

    def inner_state(self, xp: Any, batch: int, memory_size: int, dtype: Any) -> tuple[Any, Any]:
        rest = xp.zeros((batch, self.width), dtype)
        return rest, rest

    def embedded(self, params: Weights, tokens: Array) -> Any:
        """W_x x_t + b (.., 4 h): a product for each symbol, not for each place where it stands."""
        return ad.take(linear(params["embed.weight"], params["mixer.W_x"]) + params["mixer.b"], tokens)

    def inner_sequence(self, params: Weights, x: Any, state: Any, options: Options) -> tuple[Any, Any]:
        scan = lstm_scan
        if options.form == "fused":
            check_form("LSTM", "fused", x, *state)
            from pntm_np.models.lstm.fused import lstm_scan_fused as scan
        states, h, c = scan(x, params["mixer.W_h"], *state)
        return states, (h, c)

    def inner_step(self, params: Weights, x: Any, state: Any, options: Options) -> tuple[Any, Any]:
        h, c = state
        h, c = lstm_cell(x + linear(h, params["mixer.W_h"]), c)
        return h, (h, c)


@dataclass(frozen=True)
class NTMModel(Architecture):
    """One NTM layer between embedding and decoder."""

    width: int = 104
    heads: int = 4
    cell: int = 32
    forms: ClassVar[tuple[str, ...]] = NTM.forms
    has_memory: ClassVar[bool] = True
    takes_noise: ClassVar[bool] = True

    @property
    def layer(self) -> NTM:
        return NTM(self.heads, self.cell, self.width)

    def inner_shapes(self) -> dict[str, tuple[int, ...]]:
        return {f"mixer.{k}": v for k, v in self.layer.shapes(self.width).items()}

    def inner_state(self, xp: Any, batch: int, memory_size: int, dtype: Any) -> Any:
        return self.layer.start(xp, batch, self.width, memory_size, dtype)

    def inner_sequence(self, params: Weights, x: Any, state: Any, options: Options) -> tuple[Any, Any]:
        return self.layer.sequence(part(params, "mixer."), x, state, options)

    def inner_step(self, params: Weights, x: Any, state: Any, options: Options) -> tuple[Any, Any]:
        return self.layer.step(part(params, "mixer."), x, state, options)
