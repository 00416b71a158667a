"""Reading untrusted files, and making text safe to show.

Only regular files are read, because others may never end. JSON is limited to what pntm writes: finite numbers, integers
of 64 bits, a few levels of nesting.
"""

from __future__ import annotations

import errno
import json
import math
import os
import stat
from pathlib import Path
from typing import Any, TypeGuard

from pntm_np.runtime.errors import BAD_FILE, PntmError

Json = dict[str, Any]  # a JSON object; its values are checked where they are used
LARGEST = 2**28  # bytes of a file that is read whole
DEEPEST = 32  # levels of nesting
LIMIT = 2**63


class CheckpointError(PntmError, ValueError):
    """A file is not as expected; the message says what is wrong."""

    exit_code = BAD_FILE


def open_regular(path: Path | str, flags: int) -> int:
    """``os.open`` for regular files only; it never blocks, as opening a FIFO would."""
    try:
        file = os.open(path, flags | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0), 0o666)
    except OSError as error:
        if error.errno in (errno.ENXIO, errno.EISDIR):  # a FIFO or a socket, or a directory
            raise CheckpointError(f"{path}: not a regular file") from None
        raise
    if not stat.S_ISREG(os.fstat(file).st_mode):
        os.close(file)
        raise CheckpointError(f"{path}: not a regular file")
    return file


def read_bytes(path: Path) -> bytes:
    """The file's content; raises CheckpointError if the file is not regular or too large, OSError if it is missing."""
    with os.fdopen(open_regular(path, os.O_RDONLY), "rb") as file:
        size = os.fstat(file.fileno()).st_size
        if size > LARGEST:
            raise CheckpointError(f"{path} has {size:,} bytes; expected at most {LARGEST:,}")
        return file.read()


def read_end(path: Path, size: int, start: int = 0) -> bytes:
    """The last ``size`` bytes, none of them before ``start``."""
    with os.fdopen(open_regular(path, os.O_RDONLY), "rb") as file:
        file.seek(max(start, os.fstat(file.fileno()).st_size - size))
        return file.read(size)


def read_json(path: Path) -> Any:
    content = read_bytes(path)
    try:
        return parse(content)
    except ValueError as error:
        why = "" if isinstance(error, (json.JSONDecodeError, UnicodeDecodeError)) else f": {error}"
        raise CheckpointError(f"{path}: not readable as JSON{why}") from None


def parse(text: str | bytes) -> Any:
    """Parse JSON within the limits above; raises ValueError for anything else."""
    text = text.decode() if isinstance(text, bytes) else text
    try:
        content = json.loads(text, parse_constant=_refuse, parse_float=_finite, parse_int=_integer)
        if is_shallow(content, DEEPEST):
            return content
    except RecursionError:
        pass
    raise ValueError(f"it is nested more than {DEEPEST} deep")


def is_shallow(content: Any, levels: int) -> bool:
    """Whether ``content`` has at most ``levels`` of nesting; a loop, because recursion fails on deep content."""
    layer = [content]
    for _ in range(levels + 1):
        inner = [node.values() if isinstance(node, dict) else node for node in layer if isinstance(node, (dict, list))]
        layer = [value for values in inner for value in values]
        if not inner:
            return True
    return False


def _refuse(text: str) -> float:
    raise ValueError(f"{text} is not a finite number")


def _finite(text: str) -> float:
    value = float(text)
    return value if math.isfinite(value) else _refuse(f"{text:.20}")


def _integer(text: str) -> int:
    value = int(text) if len(text) <= 20 else LIMIT
    if not -LIMIT <= value < LIMIT:
        raise ValueError(f"{text:.20} has more than 64 bits")
    return value


def is_number(value: Any, least: float = -math.inf, most: float = math.inf) -> TypeGuard[float]:
    """Whether ``value`` is a finite number within the bounds; booleans are not numbers."""
    return type(value) in (int, float) and -math.inf < value < math.inf and least <= value <= most


def is_count(value: object, least: int = 0) -> TypeGuard[int]:
    return type(value) is int and value >= least


def printable(text: str) -> str:
    """The text with escapes in place of characters that are not printable."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
