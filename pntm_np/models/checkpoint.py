"""A trained model in one safetensors file: parameters by name, and its configuration as JSON in the metadata."""

from __future__ import annotations

import os
from pathlib import Path
from typing import cast

import numpy as np

from autodiff import Array, array_module, to_device, to_host
from pntm_np.models import TRAINING_MEMORY, Architecture, Options, Thresholds, build
from pntm_np.models.layers import Params
from pntm_np.models.stack import States
from pntm_np.runtime.files import write_atomically
from pntm_np.runtime.sealed import Shapes, check_shapes, pack, unpack
from pntm_np.runtime.untrusted import CheckpointError, Json

KIND = "machine-2"  # the kind and version of the file


class Model:
    """An architecture with its parameters: ``forward``, ``step`` and ``initial_state``.

    ``training`` records how it was trained, if it was: the task, its symbols, the longest input, and so on.
    ``thresholds`` were chosen at the end of training; the model runs with them unless it is given other options.
    """

    def __init__(
        self,
        name: str,
        vocabulary: int,
        sizes: dict[str, int],
        params: Params,
        training: Json | None = None,
        thresholds: Thresholds | None = None,
    ) -> None:
        self.architecture: Architecture = build(name, vocabulary, **sizes)
        self.name, self.vocabulary = name, int(vocabulary)
        self.sizes = {k: int(v) for k, v in sizes.items()}
        check_shapes(self.architecture.shapes(), {k: tuple(v.shape) for k, v in params.items()})
        self.params, self.training, self.thresholds = params, training, thresholds

    @classmethod
    def new(cls, name: str, vocabulary: int, rng: np.random.Generator, **sizes: int) -> Model:
        """An untrained model."""
        return cls(name, vocabulary, sizes, build(name, vocabulary, **sizes).init(rng))

    def to(self, device: str) -> Model:
        """The same model with its parameters on another device."""
        params = {name: to_device(w, device) for name, w in self.params.items()}
        return self.with_params(params)

    def with_params(self, params: Params) -> Model:
        """The same model with other parameters."""
        return Model(self.name, self.vocabulary, self.sizes, params, self.training, self.thresholds)

    @property
    def options(self) -> Options:
        """How it is run by default: with its own thresholds, if it has any."""
        return Options(**(self.thresholds or Thresholds())._asdict())

    def forward(self, tokens: Array, memory_size: int = TRAINING_MEMORY, options: Options | None = None) -> Array:
        """Logits (B, T, V) of tokens (B, T)."""
        return cast(Array, self.architecture.forward(self.params, tokens, memory_size, options or self.options))

    def initial_state(self, batch: int, memory_size: int = TRAINING_MEMORY) -> States:
        like = self.params["embed.weight"]
        return self.architecture.initial_state(batch, memory_size, xp=array_module(like), dtype=like.dtype)

    def step(self, state: States, tokens: Array, options: Options | None = None) -> tuple[States, Array]:
        """The next state, and logits (B, V), for one token (B,) of each sequence."""
        state, logits = self.architecture.step(self.params, state, tokens, options or self.options)
        return state, cast(Array, logits)


def save(path: str | os.PathLike, model: Model) -> None:
    """Write the model to a temporary file beside ``path``, sync it, and move it into place atomically."""
    check_shapes(model.architecture.shapes(), {k: tuple(v.shape) for k, v in model.params.items()})
    for name, w in model.params.items():
        if w.dtype.kind != "f":
            raise CheckpointError(f"{name} has dtype {w.dtype}; expected a real floating-point one")
    config: Json = {"model": model.name, "vocabulary": model.vocabulary, "sizes": model.sizes}
    if model.training is not None:
        config["training"] = model.training
    if model.thresholds is not None:
        config["thresholds"] = model.thresholds._asdict()
    arrays = {name: to_host(model.params[name]) for name in model.architecture.shapes()}
    write_atomically(Path(path), pack(arrays, KIND, config))


def load(path: str | os.PathLike) -> Model:
    """The model in a checkpoint; ``CheckpointError`` if the file is not a valid one, OSError if it cannot be read."""
    config, params = unpack(path, KIND, _expected)
    kept = config.get("thresholds")
    thresholds = None if kept is None else Thresholds(**kept)
    return Model(config["model"], config["vocabulary"], config["sizes"], params, config.get("training"), thresholds)


def _expected(config: Json) -> Shapes:
    """The shapes of the parameters that an untrusted configuration asks for."""
    name, vocabulary, sizes, training = (config.get(key) for key in ("model", "vocabulary", "sizes", "training"))
    if not (isinstance(name, str) and type(vocabulary) is int and isinstance(sizes, dict)):
        raise CheckpointError("its configuration is not readable")
    if not (all(type(v) is int for v in sizes.values()) and isinstance(training, dict | None)):
        raise CheckpointError("its configuration is not readable")
    if not _usable(config.get("thresholds")):
        raise CheckpointError(f"its thresholds are {config['thresholds']!r:.60}; expected tau and gate_tau")
    if sizes.get("depth", 1) > config["arrays"]:
        raise CheckpointError("its configuration has more layers than the file has parameters")
    try:
        return build(name, vocabulary, **sizes).shapes()
    except (TypeError, ValueError) as error:
        raise CheckpointError(f"its configuration is not usable: {error}") from None


def _usable(thresholds: object) -> bool:
    if thresholds is None:
        return True
    if not isinstance(thresholds, dict) or thresholds.keys() != set(Thresholds._fields):
        return False
    if not all(type(value) in (int, float) for value in thresholds.values()):
        return False
    return 0 <= thresholds["tau"] <= 1 and 0 <= thresholds["gate_tau"] <= 0.5
