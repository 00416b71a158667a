"""Files that survive anything: the old content or the new one, never something in between."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from pntm_np.runtime.untrusted import CheckpointError, open_regular

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)  # there may be room again later


def unusable(directory: Path) -> str:
    """Why no files can be put into that directory, which need not exist yet; found out without writing any."""
    place = directory
    while not place.exists() and place != place.parent:
        place = place.parent
    if not place.is_dir():
        return f"{place} is not a directory"
    return "" if os.access(place, os.W_OK | os.X_OK) else f"{place} cannot be written to"


def open_own(path: Path, flags: int) -> int:
    """A descriptor of a file to be changed where it is. A link is not followed: it would be changed elsewhere."""
    try:
        return open_regular(path, flags | getattr(os, "O_NOFOLLOW", 0))
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise CheckpointError(f"{path}: a link; it is not followed") from None
        raise


def beside(path: Path) -> Path:
    return path.with_name(f".{path.name}.partial")


def write_atomically(path: Path, content: bytes) -> None:
    """Write beside ``path``, sync, and put in place in one step; on any failure the old file stays."""
    partial = beside(path)
    try:
        partial.unlink(missing_ok=True)  # of a killed process, or a link to another place
        file = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
        try:
            write_all(file, content)
            os.fsync(file)
        finally:
            os.close(file)
        os.replace(partial, path)
    except BaseException as error:
        partial.unlink(missing_ok=True)
        if isinstance(error, OSError) and error.errno:
            error.filename = error.filename or str(path)  # a write or a sync names no file
        raise
    sync_directory(path.parent)  # the rename itself


def hold(lock: int, wait: bool = True) -> bool:
    """Keep out others who hold the same file, until it is closed; whether that was possible without waiting."""
    with suppress(ImportError):  # no such locks on this system
        import fcntl

        try:
            fcntl.flock(lock, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            return False
    return True


def json_bytes(content: Any, indent: int | None = None) -> bytes:
    """A line of JSON, or several; refuses what JSON has no number for."""
    return (json.dumps(content, indent=indent, allow_nan=False) + "\n").encode()


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """One process at a time; the others wait."""
    lock = open_own(path, os.O_RDWR | os.O_CREAT)
    try:
        hold(lock)
        yield
    finally:
        os.close(lock)


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


def clear_partial(paths: Iterable[Path]) -> None:
    """What a killed process left half written beside these files."""
    for path in paths:
        beside(path).unlink(missing_ok=True)
