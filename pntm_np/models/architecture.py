"""A model: an embedding, a stack of mixers, a decoder.

``run`` takes a whole sequence of tokens and ``step`` one token; both take a state, return the next one, and compute the
same function. Parameters are a flat dict with the names that checkpoints use, such as ``blocks.0.mixer.W_z``.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

import autodiff as ad
from autodiff import Array, Value
from pntm_np.models.layers import Weights, linear, part
from pntm_np.models.options import DEFAULT, Options
from pntm_np.models.stack import Stack, States
from pntm_np.protocol import TRAINING_MEMORY


@dataclass(frozen=True)
class Architecture(Stack):
    vocabulary: int = 6

    def __post_init__(self) -> None:
        if self.vocabulary < 1:
            raise ValueError(f"vocabulary is {self.vocabulary}; expected at least 1")
        super().__post_init__()

    def shapes(self) -> dict[str, tuple[int, ...]]:
        matrix = self.vocabulary, self.width
        ends = {"decoder.weight": matrix, "decoder.bias": (self.vocabulary,)}
        return {"embed.weight": matrix, **super().shapes(), **ends}

    def run(self, params: Weights, tokens: Array, state: States, options: Options = DEFAULT) -> tuple[Value, States]:
        """Logits (B, T, V) of a sequence of tokens (B, T), and the state after it."""
        self._check_tokens(tokens, 2)
        x, state = self.through(params, self._embedded(params, tokens), state, options, whole=True, prepared=True)
        return self._decode(params, x), state

    def step(self, params: Weights, state: States, tokens: Array, options: Options = DEFAULT) -> tuple[States, Value]:
        """The next state, and logits (B, V), for one token (B,) of each sequence."""
        self._check_tokens(tokens, 1)
        x, state = self.through(params, self._embedded(params, tokens), state, options, whole=False, prepared=True)
        return state, self._decode(params, x)

    def forward(
        self, params: Weights, tokens: Array, memory_size: int = TRAINING_MEMORY, options: Options = DEFAULT
    ) -> Value:
        """Logits (B, T, V) of whole sequences, from the initial state; training calls this."""
        self._check_tokens(tokens, 2)
        embedding = ad.stop_gradient(params["embed.weight"])
        start = self.initial_state(tokens.shape[0], memory_size, xp=ad.array_module(embedding), dtype=embedding.dtype)
        return self.run(params, tokens, start, options)[0]

    @property
    def looked_up(self) -> set[str]:
        """The matrices that are multiplied once for each symbol of the vocabulary, not for every token."""
        name, mixer = self.places[0]
        return {"embed.weight", *(f"{name}{k}" for k in mixer.prepares if self.names)}

    def _embedded(self, params: Weights, tokens: Array) -> Value:
        """The input of the first mixer for each token."""
        table = params["embed.weight"]
        if self.names:
            name, mixer = self.places[0]
            table = mixer.prepare(part(params, name), table)
        return ad.take(table, tokens)

    def _decode(self, params: Weights, x: Value) -> Value:
        return linear(x, params["decoder.weight"]) + params["decoder.bias"]

    def _check_tokens(self, tokens: Array, ndim: int) -> None:
        shape = getattr(tokens, "shape", None)
        expected = "(B, T) with T >= 1" if ndim == 2 else "(B,)"
        if shape is None or len(shape) != ndim or tokens.dtype.kind not in "iu" or (ndim == 2 and shape[1] < 1):
            given = f"a {type(tokens).__name__}" if shape is None else f"{tokens.dtype} {tuple(shape)}"
            raise ValueError(f"tokens are {given}; expected integers {expected}")
        if isinstance(tokens, np.ndarray) and tokens.size and not 0 <= tokens.min() <= tokens.max() < self.vocabulary:
            raise ValueError(f"tokens range from {tokens.min()} to {tokens.max()}; expected 0 to {self.vocabulary - 1}")
