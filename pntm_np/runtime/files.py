"""Atomic and locked files: a crash leaves the old content or the new one, never a mixture."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from pntm_np.runtime.untrusted import CheckpointError, open_regular

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)  # no space now, but perhaps later


def unusable(directory: Path) -> str:
    """Why no files can be created in ``directory``, which need not exist yet, or ""; nothing is written to find out."""
    place = directory
    while not place.exists() and place != place.parent:
        place = place.parent
    if not place.is_dir():
        return f"{place} is not a directory"
    return "" if os.access(place, os.W_OK | os.X_OK) else f"{place} cannot be written to"


def open_own(path: Path, flags: int) -> int:
    """A descriptor of a file to change in place; a link is refused, because it leads to another place."""
    try:
        return open_regular(path, flags | getattr(os, "O_NOFOLLOW", 0))
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise CheckpointError(f"{path} is a link; expected a regular file") from None
        raise


def beside(path: Path) -> Path:
    return path.with_name(f".{path.name}.partial")


def write_atomically(path: Path, content: bytes) -> None:
    """Write beside ``path``, sync, and rename; on any failure the old file stays."""
    partial = beside(path)
    try:
        partial.unlink(missing_ok=True)  # left by a killed process, or a link to another place
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
            error.filename = error.filename or str(path)  # errors of write and fsync do not name the file
        raise
    sync_directory(path.parent)  # the rename itself


def hold(lock: int, wait: bool = True) -> bool:
    """Lock a file until it is closed; False if another process holds the lock and ``wait`` is false."""
    with suppress(ImportError):  # this system has no such locks
        import fcntl

        try:
            fcntl.flock(lock, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            return False
    return True


def json_bytes(content: Any, indent: int | None = None) -> bytes:
    """JSON with a final newline; NaN and infinity raise ValueError."""
    return (json.dumps(content, indent=indent, allow_nan=False) + "\n").encode()


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Let one process in at a time; the others wait."""
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
    """Remove partial files that a killed process left beside ``paths``."""
    for path in paths:
        beside(path).unlink(missing_ok=True)
