"""Loops compiled by Numba, kept on disk.

Kernels are serial and release the interpreter's lock: threads call them side by side, one for each shard of a batch.
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
    """The files that the kernels of a package are made of: those with kernels, and all that they import of it and of
    the engine, directly or not. What a kernel uses of another file is compiled into it: functions, and also numbers.
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
                # a module, or a package and those in it
                files = [place.with_suffix(".py"), place / "__init__.py", *inner]
                yield from (file for file in files if file.exists())


@functools.cache
def fingerprint(package: Path, engine: Path = ENGINE) -> str:
    """Of all that the kernels of a package are made of."""
    files = made_of(package, engine)
    content = [(path.relative_to(package_of(path).parent).as_posix(), path.read_text("utf-8")) for path in files]
    return hashlib.sha256(repr(content).encode()).hexdigest()[:16]


_unkept = ""


def unkept() -> str:
    """Why compiled kernels are not kept for the next time; empty if they are."""
    return _unkept


class _Named(CompileResultCacheImpl):
    """Numba looks at a kernel's own file for changes. The fingerprint of all is a part of the files' names: nothing
    that was compiled of other sources has the same."""

    def __init__(self, function: Callable) -> None:
        self.fingerprint = fingerprint(package_of(Path(function.__code__.co_filename).resolve()))
        super().__init__(function)

    def get_filename_base(self, fullname: str, abiflags: str) -> str:
        return f"{super().get_filename_base(fullname, abiflags)}.{self.fingerprint}"


class _Cache(FunctionCache):
    """A cache is never in the way: what is damaged is compiled again, and what finds no room is not kept."""

    _impl_class = _Named

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        try:
            if self._index.is_file() or not self._index.exists():
                return super().load_overload(sig, target_context)
        except Exception:  # whatever comes of reading what is damaged
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
        """How the files of this kernel begin, of whatever sources; then comes its line."""
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
    """A kernel that is a part of another one is compiled into it. If it were called there, the process that compiles
    both would call the one that stands by itself, and those that load the other from the cache the copy in that, which
    was optimised with its surroundings: sums in another order, and not the same bits."""
    dispatcher: Any = njit(nogil=True, error_model="numpy", fastmath=freedom, forceinline=True)(function)
    try:
        dispatcher._cache = _Cache(dispatcher.py_func)  # what cache=True does, with other names
    except RuntimeError:  # nowhere to keep it: compiled anew in every process
        global _unkept
        beside = Path(function.__code__.co_filename).parent / "__pycache__"
        _unkept = f"neither {beside} nor the user's cache can be written to; NUMBA_CACHE_DIR names another place"
    return dispatcher
