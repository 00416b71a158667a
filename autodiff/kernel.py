"""Loops compiled by Numba, kept on disk.

Kernels are serial and release the interpreter's lock: threads call them side by side, one for each shard of a batch.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numba import njit
from numba.core.caching import FunctionCache

ONE = np.float32(1)
SOURCES = Path(__file__).resolve().parent.parent


def _fingerprint() -> str:
    """Of all files with kernels."""
    texts = (path.read_bytes() for name in ("autodiff", "pntm_np") for path in sorted((SOURCES / name).rglob("*.py")))
    return hashlib.sha256(b"".join(text for text in texts if b"from autodiff.kernel import" in text)).hexdigest()


class _Cache(FunctionCache):
    """Numba looks at a kernel's own file for changes; what is compiled in from others may change, too."""

    fingerprint = _fingerprint()

    def _index_key(self, *args: Any) -> tuple:
        return (*super()._index_key(*args), self.fingerprint)


def kernel(function: Callable) -> Callable:
    """Sums may be reordered, the same way every time; but for the sign of a zero, nothing is assumed about numbers."""
    return _compiled(function, {"reassoc", "contract", "nsz"})


def exact_kernel(function: Callable) -> Callable:
    """Operations in the order in which they are written."""
    return _compiled(function, {"contract", "nsz"})


def selecting_kernel(function: Callable) -> Callable:
    """For a maximum, which becomes vector code only if NaN need not come out of it."""
    return _compiled(function, {"reassoc", "contract", "nsz", "nnan"})


def inlined(function: Callable) -> Callable:
    """A part of kernels: a call would copy the description of every array that it is given."""
    return njit(inline="always")(function)


@njit(fastmath={"contract", "nsz"})
def blend(share, old, new):
    """(1 - share) old + share new: exactly ``new`` where share is 1. Where sums may be reordered, this would become
    old + share (new - old), which is not; what is compiled here keeps its order in whatever kernel it is a part of."""
    return (ONE - share) * old + share * new


@njit(fastmath={"contract", "nsz"})
def remains(share, old):
    """(1 - share) old, and never old - share old, which cancels where share is nearly 1."""
    return (ONE - share) * old


def _compiled(function: Callable, freedom: set[str]) -> Callable:
    dispatcher = njit(nogil=True, error_model="numpy", fastmath=freedom)(function)
    with contextlib.suppress(RuntimeError):  # nowhere to keep it: compiled anew in every process
        dispatcher._cache = _Cache(dispatcher.py_func)  # what cache=True does, with another key
    return dispatcher
