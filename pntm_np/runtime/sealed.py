"""Arrays and a JSON configuration in one safetensors file in which every changed bit is detected.

In the metadata, ``pntm`` is the kind and version of the file; ``format`` is "pt", because other libraries refuse names
that they do not know. The metadata hold the SHA-256 of every array and of themselves. Nothing in a file is executed or
trusted: names, shapes and dtypes are compared with those that the configuration implies before any array is read.
The safetensors library reads the file, but does not write it: it orders the metadata differently from run to run, and
equal runs must give equal bytes.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable

import numpy as np
import safetensors

from pntm_np.runtime.untrusted import CheckpointError, Json, open_regular, parse

Shapes = dict[str, tuple[int, ...]]
FORMAT = "pt"
SEALED = ("format", "pntm", "config", "sha256")


def pack(arrays: dict[str, np.ndarray], kind: str, config: Json) -> bytes:
    """The file's content: float32 arrays, C-contiguous, in the given order; ``kind`` is for example machine-2."""
    data = {name: np.ascontiguousarray(a, np.float32).tobytes() for name, a in arrays.items()}
    metadata = {
        "format": FORMAT,
        "pntm": kind,
        "config": json.dumps(config, sort_keys=True),
        "sha256": json.dumps({name: hashlib.sha256(raw).hexdigest() for name, raw in data.items()}, sort_keys=True),
    }
    header: Json = {"__metadata__": {**metadata, "seal": seal(metadata)}}
    start = 0
    for name, raw in data.items():
        header[name] = {"dtype": "F32", "shape": arrays[name].shape, "data_offsets": [start, start + len(raw)]}
        start += len(raw)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text + b"".join(data.values())


def seal(metadata: dict[str, str]) -> str:
    content = "\0".join(metadata[key] for key in SEALED)
    return hashlib.sha256(content.encode()).hexdigest()


def unpack(
    path: str | os.PathLike, kind: str, expected: Callable[[Json], Shapes]
) -> tuple[Json, dict[str, np.ndarray]]:
    """Configuration and arrays; ``expected`` gives the shapes of the arrays that the configuration implies.

    Raises CheckpointError if the file is not as expected, and OSError if it cannot be read.
    """
    path = os.fspath(path)
    os.close(open_regular(path, os.O_RDONLY))  # raises the system's own error for a missing or unreadable file
    try:
        with safetensors.safe_open(path, framework="numpy") as file:
            config, sums = _metadata(file.metadata() or {}, kind)
            slices = {key: file.get_slice(key) for key in file.keys()}  # noqa: SIM118  not a dict
            for name, found in slices.items():
                if found.get_dtype() != "F32":
                    raise CheckpointError(f"{short(name)} has dtype {found.get_dtype()}; expected F32")
            shapes = expected(config | {"arrays": len(slices)})
            check_shapes(shapes, {name: tuple(found.get_shape()) for name, found in slices.items()})
            arrays = {name: file.get_tensor(name) for name in shapes}
    except (CheckpointError, safetensors.SafetensorError) as error:
        raise CheckpointError(f"{path}: not a usable checkpoint: {error}") from None
    for name, array in arrays.items():
        if hashlib.sha256(array.tobytes()).hexdigest() != sums.get(name):
            raise CheckpointError(f"{path}: not a usable checkpoint: {name} is damaged: its SHA-256 differs")
    return config, arrays


def _metadata(metadata: dict[str, str], kind: str) -> tuple[Json, dict[str, str]]:
    if "pntm" not in metadata and metadata.get("format", "").startswith("pntm-"):
        raise CheckpointError(f"pntm 0.1 made it (format {metadata['format'][:60]}), which this version does not read")
    if metadata.get("pntm") != kind:
        raise CheckpointError(f"it says that it is {metadata.get('pntm')!r:.60}; expected {kind!r}")
    if not {*SEALED, "seal"} <= metadata.keys() or seal(metadata) != metadata["seal"]:
        raise CheckpointError("its metadata are damaged: their SHA-256 differs")
    try:
        config, sums = parse(metadata["config"]), parse(metadata["sha256"])
    except ValueError:
        config = sums = None
    if not isinstance(config, dict) or not isinstance(sums, dict):
        raise CheckpointError("its configuration is not readable")
    return config, sums


def check_shapes(expected: Shapes, found: Shapes) -> None:
    """Raise CheckpointError unless the arrays and their shapes are exactly those expected."""
    missing, unknown = expected.keys() - found.keys(), found.keys() - expected.keys()
    if missing or unknown:
        parts = [
            f"{word} {', '.join(short(n) for n in sorted(names)[:3])}"
            for word, names in (("missing", missing), ("unknown", unknown))
            if names
        ]
        raise CheckpointError(f"parameters do not fit the configuration: {'; '.join(parts)}")
    for name, shape in expected.items():
        if found[name] != shape:
            raise CheckpointError(f"{name} has shape {found[name]}; the configuration asks for {shape}")


def short(name: str) -> str:
    """A name from a file, made safe to show: at most 60 characters, all of them printable."""
    return name if name.isprintable() and len(name) <= 60 else f"{name!r:.60}"
