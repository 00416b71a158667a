"""Files that survive anything: the old content or the new one, never something in between."""

from __future__ import annotations

import os
from pathlib import Path

PARTIAL = ".partial"


def write_atomically(path: Path, content: bytes) -> None:
    """Write beside ``path``, sync, and put in place in one step; on any failure the old file stays."""
    beside = path.with_name(f".{path.name}{PARTIAL}")
    try:
        file = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666)
        try:
            write_all(file, content)
            os.fsync(file)
        finally:
            os.close(file)
        os.replace(beside, path)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise
    sync_directory(path.parent)  # the rename itself


def write_all(file: int, content: bytes) -> None:
    rest = memoryview(content)
    while rest:
        rest = rest[os.write(file, rest) :]


def sync_directory(path: Path) -> None:
    directory = os.open(path, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


def clear_partial(directory: Path) -> None:
    """What a killed process left half written."""
    for path in directory.glob(f".*{PARTIAL}"):
        path.unlink(missing_ok=True)
