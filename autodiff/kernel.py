"""Loops compiled by Numba and cached on disk.

Kernels are serial and release the interpreter's lock, so threads can run them in parallel, one per shard of a batch.
"""

from __future__ import annotations

import functools
import glob
import hashlib
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from numba import njit
from numba.core.caching import CompileResultCacheImpl, FunctionCache

ONE = np.float32(1)
ENGINE = Path(__file__).resolve().parent
IMPORT = re.compile(r"^\s*(?:from\s+([\w.]+)\s+import\s+(\([^)]*\)|.*)|import\s+([\w.]+))", re.MULTILINE)


def package_of(path: Path) -> Path:
    """The outermost package that a file is in, or the file itself."""
    while (path.parent / "__init__.py").exists():
        path = path.parent
    return path


def made_of(package: Path, engine: Path = ENGINE) -> list[Path]:
    """The files that a package's kernels depend on: those with kernels, and all that they import, directly or not, from
    the package and the engine. Functions and numbers from other files are compiled into a kernel.
    """
    every = package.rglob("*.py") if package.is_dir() else [package]
    found, left = set(), [path for path in every if f"from {engine.name}.kernel import" in path.read_text("utf-8")]
    while left:
        path = left.pop()
        if path not in found:
            found.add(path)
            left += _imported(path, (package, engine))
    return sorted(found)


def _imported(path: Path, packages: tuple[Path, ...]) -> Iterator[Path]:
    for module, names, whole in IMPORT.findall(path.read_text("utf-8")):
        first, *rest = (module or whole).split(".")
        for package in packages:
            if package.name == first:
                place = package.joinpath(*rest)
                inner = [place / f"{name}.py" for name in re.findall(r"\w+", names)]
                # a module, or a package and the modules in it
                files = [place.with_suffix(".py"), place / "__init__.py", *inner]
                yield from (file for file in files if file.exists())


@functools.cache
def fingerprint(package: Path, engine: Path = ENGINE) -> str:
    """A hash of all files that a package's kernels depend on."""
    files = made_of(package, engine)
    content = [(path.relative_to(package_of(path).parent).as_posix(), path.read_text("utf-8")) for path in files]
    return hashlib.sha256(repr(content).encode()).hexdigest()[:16]


_unkept = ""


def unkept() -> str:
    """Why compiled kernels cannot be cached on disk; empty if they can."""
    return _unkept


class _Named(CompileResultCacheImpl):
    """Numba checks only a kernel's own file for changes, so the names of cache files also contain the fingerprint of
    all files that the kernels depend on."""

    def __init__(self, function: Callable) -> None:
        self.fingerprint = fingerprint(package_of(Path(function.__code__.co_filename).resolve()))
        super().__init__(function)

    def get_filename_base(self, fullname: str, abiflags: str) -> str:
        return f"{super().get_filename_base(fullname, abiflags)}.{self.fingerprint}"


class _Cache(FunctionCache):
    """A cache that never raises: damaged files are compiled again, and what cannot be written is not kept."""

    _impl_class = _Named

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        try:
            if self._index.is_file() or not self._index.exists():
                return super().load_overload(sig, target_context)
        except Exception:  # reading a damaged file can raise anything
            pass
        self._forget()
        return None

    def save_overload(self, sig: Any, data: Any) -> None:
        global _unkept
        try:
            super().save_overload(sig, data)
        except OSError as error:
            self._forget()  # the index may name what was not written
            _unkept = f"{error.filename or self._cache_path}: {error.strerror}"
        else:
            _remove(path for path in self._files(self._name_of_all) if self._impl.fingerprint not in path.name)

    @property
    def _index(self) -> Path:
        return Path(self._cache_file._index_path)

    @property
    def _name_of_all(self) -> str:
        """The prefix of this kernel's files for any version of the sources; the line number comes next."""
        return self._impl.filename_base.rsplit(".py", 1)[0].rpartition("-")[0] + "-"

    def _files(self, beginning: str) -> list[Path]:
        return list(Path(self._cache_path).glob(f"{glob.escape(beginning)}*.nb[ci]"))

    def _forget(self) -> None:
        _remove(self._files(self._impl.filename_base))


def _remove(paths: Iterable[Path]) -> None:
    for path in paths:
        with suppress(OSError):
            path.unlink()


def kernel(function: Callable) -> Callable:
    """Compile with sums reordered, in the same way every time. NaN and infinity are kept, not the sign of 0."""
    return _compiled(function, {"reassoc", "contract", "nsz"})


def exact_kernel(function: Callable) -> Callable:
    """Compile with operations in the order in which they are written."""
    return _compiled(function, {"contract", "nsz"})


def selecting_kernel(function: Callable) -> Callable:
    """Compile a maximum, which vectorizes only if it need not propagate NaN."""
    return _compiled(function, {"reassoc", "contract", "nsz", "nnan"})


def inlined(function: Callable) -> Callable:
    """Inline a function into kernels, since a call would copy the descriptor of every array argument."""
    return njit(inline="always")(function)


@njit(fastmath={"contract", "nsz"})
def blend(share, old, new):
    """(1 - share) old + share new, which is exactly ``new`` where share is 1. A kernel that may reorder sums would turn
    it into old + share (new - old), which is not exact; compiled here, it keeps its order inside every kernel."""
    return (ONE - share) * old + share * new


@njit(fastmath={"contract", "nsz"})
def remains(share, old):
    """(1 - share) old, and never old - share old, which loses digits where share is nearly 1."""
    return (ONE - share) * old


def _compiled(function: Callable, freedom: set[str]) -> Callable:
    """A kernel that another kernel calls is inlined. As a call, the process that compiles both would run the standalone
    version, and processes that load the caller from the cache would run the copy in it, which is optimised in its
    context: sums in another order, and different bits."""
    dispatcher: Any = njit(nogil=True, error_model="numpy", fastmath=freedom, forceinline=True)(function)
    try:
        dispatcher._cache = _Cache(dispatcher.py_func)  # as cache=True does, with other file names
    except RuntimeError:  # there is no place for the cache: every process compiles anew
        global _unkept
        beside = Path(function.__code__.co_filename).parent / "__pycache__"
        _unkept = f"neither {beside} nor the user's cache can be written to; NUMBA_CACHE_DIR names another place"
    return dispatcher
