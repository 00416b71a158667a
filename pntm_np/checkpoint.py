"""A trained machine in one safetensors file: parameters by name, and what they belong to as JSON in the metadata.

Nothing in a file is executed, and nothing is believed: names, shapes and dtypes are compared with what the
configuration asks for before an array is made.
"""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import Any

import numpy as np
import safetensors
import safetensors.numpy

from autodiff import array_module, to_host
from autodiff.backend import Array
from pntm_np.layers import Weights
from pntm_np.models import DEFAULT, TRAINING_MEMORY, Architecture, Options, build

FORMAT = "pntm-1"


class CheckpointError(ValueError):
    """The file is not a checkpoint, or does not fit its own configuration; the message says what is wrong."""


class Model:
    """A machine with its parameters: ``forward``, ``step`` and ``initial_state`` on NumPy arrays."""

    def __init__(self, name: str, vocabulary: int, sizes: dict[str, int], params: Weights) -> None:
        self.architecture: Architecture = build(name, vocabulary, **sizes)
        self.name, self.vocabulary = name, int(vocabulary)
        self.sizes = {k: int(v) for k, v in sizes.items()}
        check_parameters(self.architecture, params)
        self.params = params

    @classmethod
    def new(cls, name: str, vocabulary: int, rng: np.random.Generator, **sizes: int) -> Model:
        """A machine that has learnt nothing yet."""
        return cls(name, vocabulary, sizes, build(name, vocabulary, **sizes).init(rng))

    def forward(self, tokens: Array, memory_size: int = TRAINING_MEMORY, options: Options = DEFAULT) -> Array:
        """Logits (B, T, V) of tokens (B, T)."""
        return self.architecture.forward(self.params, tokens, memory_size, options)

    def initial_state(self, batch: int, memory_size: int = TRAINING_MEMORY) -> Any:
        like = self.params["embed.weight"]
        return self.architecture.initial_state(batch, memory_size, xp=array_module(like), dtype=like.dtype)

    def step(self, state: Any, tokens: Array, options: Options = DEFAULT) -> tuple[Any, Array]:
        """The next state, and logits (B, V), for one token (B,) of each sequence."""
        return self.architecture.step(self.params, state, tokens, options)


def check_parameters(architecture: Architecture, params: Weights) -> None:
    """Every parameter that the architecture has, and no other, in its shape."""
    expected = architecture.shapes()
    missing, unknown = expected.keys() - params.keys(), params.keys() - expected.keys()
    if missing or unknown:
        parts = [
            f"{word} {', '.join(_short(n) for n in sorted(names)[:3])}"
            for word, names in (("missing", missing), ("unknown", unknown))
            if names
        ]
        raise CheckpointError(f"parameters do not fit the configuration: {'; '.join(parts)}")
    for name, shape in expected.items():
        if tuple(params[name].shape) != shape:
            raise CheckpointError(f"{name} has shape {tuple(params[name].shape)}; the configuration asks for {shape}")


def _short(name: str) -> str:
    """A name from a file as it may be shown: no control characters, no end of text."""
    return name if name.isprintable() and len(name) <= 60 else f"{name!r:.60}"


def save(path: str | os.PathLike, model: Model) -> None:
    """Write the model beside ``path``, sync it, and put it in place in one step."""
    check_parameters(model.architecture, model.params)
    for name, w in model.params.items():
        if w.dtype.kind != "f":
            raise CheckpointError(f"{name} has dtype {w.dtype}; expected a real floating-point one")
    # safetensors writes the buffer as it lies: strided and Fortran-ordered arrays must be laid out first
    arrays = {k: np.array(to_host(v), np.float32, order="C") for k, v in model.params.items()}
    config = {"model": model.name, "vocabulary": model.vocabulary, "sizes": model.sizes}
    metadata = {"format": FORMAT, "config": json.dumps(config, sort_keys=True)}
    write_atomically(Path(path), safetensors.numpy.save(arrays, metadata))


def write_atomically(path: Path, content: bytes) -> None:
    """The old file or the new one, whatever happens in between."""
    beside = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        with open(beside, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, path)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise
    directory = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


def load(path: str | os.PathLike) -> Model:
    """The model in a checkpoint; ``CheckpointError`` if it is none, OSError if it cannot be read."""
    if not stat.S_ISREG(os.stat(path).st_mode):
        raise CheckpointError(f"{os.fspath(path)}: not a usable checkpoint: not a regular file")
    with open(path, "rb"):
        pass  # a missing or unreadable file is the operating system's message
    try:
        with safetensors.safe_open(path, framework="numpy") as file:
            name, vocabulary, sizes = _configuration(file.metadata() or {})
            if sizes.get("depth", 1) > len(file.keys()):
                raise CheckpointError("its configuration has more layers than the file has parameters")
            try:
                architecture = build(name, vocabulary, **sizes)
            except (TypeError, ValueError) as error:
                raise CheckpointError(f"its configuration is not usable: {error}") from None
            _check_header(file, architecture)
            params = {key: file.get_tensor(key) for key in architecture.shapes()}
    except (CheckpointError, safetensors.SafetensorError) as error:
        raise CheckpointError(f"{os.fspath(path)}: not a usable checkpoint: {error}") from None
    return Model(name, vocabulary, sizes, params)


def _configuration(metadata: dict[str, str]) -> tuple[str, int, dict[str, int]]:
    if metadata.get("format") != FORMAT:
        raise CheckpointError(f"its format is {metadata.get('format')!r:.60}; expected {FORMAT!r}")
    try:
        config = json.loads(metadata["config"])
        name, vocabulary, sizes = config["model"], config["vocabulary"], config["sizes"]
        usable = isinstance(name, str) and type(vocabulary) is int and isinstance(sizes, dict)
        usable = usable and all(type(v) is int for v in sizes.values())
    except (KeyError, TypeError, ValueError, RecursionError):
        usable = False
    if not usable:
        raise CheckpointError("its configuration is not readable")
    return name, vocabulary, sizes


def _check_header(file: Any, architecture: Architecture) -> None:
    """Names, shapes and dtypes as the header gives them, before any array is made."""

    class Header:
        def __init__(self, shape: list[int]) -> None:
            self.shape = tuple(shape)

    slices = {key: file.get_slice(key) for key in file.keys()}  # noqa: SIM118  not a dict
    for key, tensor in slices.items():
        if tensor.get_dtype() != "F32":
            raise CheckpointError(f"{_short(key)} has dtype {tensor.get_dtype()}; expected F32")
    check_parameters(architecture, {key: Header(tensor.get_shape()) for key, tensor in slices.items()})
