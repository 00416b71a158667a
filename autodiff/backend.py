"""Where arrays live: NumPy on the CPU, CuPy on CUDA. The data decides; there is no global ``xp``.

An op asks ``xp = array_module(x)`` and works in that namespace. This is the only file that imports
CuPy, and it does so when CUDA is asked for or a CuPy array turns up, never on ``import autodiff``.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import sys
from collections.abc import Callable, Iterable
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
import scipy.special

DType = np.dtype[Any]
Array = np.ndarray[Any, DType]  # or a CuPy array, which has the same methods
Pair = tuple[Array, Array]
Arrays = tuple[Array, ...]
Namespace = ModuleType  # numpy, or cupy, which has the same functions


class BackendUnavailable(RuntimeError):
    """The device cannot be used here; the message says why."""


class Backend(NamedTuple):
    name: str  # what the user types: "cpu", "cuda"
    xp: Namespace
    special: Namespace  # its scipy.special
    array: type  # the type of its arrays


NUMPY = Backend("cpu", np, scipy.special, np.ndarray)
SCALAR = Backend("scalar", np, scipy.special, np.generic)  # numbers and None work with any device

FLOAT32 = np.dtype(np.float32)

_OWNERS: dict[type, Backend] = {t: SCALAR for t in (bool, int, float, complex, type(None))}
_OWNERS[np.ndarray] = NUMPY


def _load_cuda() -> Backend:
    try:
        cupy = importlib.import_module("cupy")
        special = importlib.import_module("cupyx.scipy.special")
    except ImportError as error:
        raise BackendUnavailable(
            f"CuPy cannot be imported ({error}); install it with: pip install 'pntm[cuda]'"
        ) from None
    if int(cupy.__version__.split(".")[0]) < 14:
        raise BackendUnavailable(f"CuPy {cupy.__version__} is too old; CuPy 14 or newer is needed")
    try:
        devices = cupy.cuda.runtime.getDeviceCount()
    except Exception as error:  # CuPy's own error type is only known once it is imported
        raise BackendUnavailable(f"CuPy finds no usable GPU: {error}") from None
    if devices == 0:
        raise BackendUnavailable("CuPy finds no GPU")
    return Backend("cuda", cupy, special, cupy.ndarray)


_LOADERS: dict[str, Callable[[], Backend]] = {"cpu": lambda: NUMPY, "cuda": _load_cuda}
_LOADED: dict[str, Backend] = {}


def register(name: str, loader: Callable[[], Backend]) -> None:
    """Register another device by name; ``loader`` is called when the device is first used."""
    _LOADERS[name] = loader
    _LOADED.pop(name, None)


def names() -> tuple[str, ...]:
    """Every known device, usable here or not."""
    return tuple(_LOADERS)


def load(name: str) -> Backend:
    """The backend of that name, or ``BackendUnavailable`` with the reason."""
    if name not in _LOADERS:
        raise ValueError(f"unknown backend {name!r}; expected one of {', '.join(_LOADERS)}")
    if name not in _LOADED:
        backend = _LOADERS[name]()  # failures are not cached: the next call tries again
        _LOADED[name] = _OWNERS[backend.array] = backend
    return _LOADED[name]


def available() -> dict[str, str]:
    """Every known backend with the reason why it cannot be used, which is empty if it can."""
    reasons = {}
    for name in _LOADERS:
        try:
            load(name)
            reasons[name] = ""
        except BackendUnavailable as error:
            reasons[name] = str(error)
    return reasons


def owner(x: Any) -> Backend:
    """The backend that ``x`` belongs to; ``SCALAR`` for a number or None, which work with any."""
    found = _OWNERS.get(type(x))
    return found if found is not None else _recognise(type(x))


def _recognise(kind: type) -> Backend:
    """Find the backend of a type that is seen for the first time, and remember it."""
    if issubclass(kind, np.generic):
        found = SCALAR
    elif issubclass(kind, np.memmap):
        found = NUMPY
    elif kind.__module__.split(".")[0] == "cupy":
        found = load("cuda")
    else:
        raise TypeError(f"{kind.__name__} is not an array; expected a NumPy or CuPy array or a number")
    _OWNERS[kind] = found
    return found


def common_owner(arrays: Iterable[Any]) -> Backend:
    """The one backend of all ``arrays``; a TypeError if they are on different devices."""
    found = SCALAR
    for x in arrays:
        backend = owner(x)
        if backend is not SCALAR and backend is not found:
            if found is not SCALAR:
                raise TypeError(
                    f"arrays on different devices: {found.array.__name__} on {found.name} and "
                    f"{backend.array.__name__} on {backend.name}; move them with to_device or to_host"
                )
            found = backend
    return found


def array_module(*arrays: Any) -> Namespace:
    """The namespace (numpy, cupy) that the arrays belong to; mixing two is a TypeError."""
    return common_owner(arrays).xp


def special_module(*arrays: Any) -> Namespace:
    """The counterpart of scipy.special for these arrays."""
    return common_owner(arrays).special


def on_host(x: Any) -> bool:
    """Whether the values of ``x`` can be read without synchronising with a device."""
    return owner(x) is NUMPY or owner(x) is SCALAR


@functools.cache
def compiled() -> bool:
    """Whether Numba is installed; this does not import it."""
    return importlib.util.find_spec("numba") is not None


def kernels(*arrays: Any) -> ModuleType | None:
    """The compiled kernels (``autodiff.compiled``) if Numba is installed and all arrays are NumPy's in float32."""
    for x in arrays:
        if type(x) is not np.ndarray or x.dtype is not FLOAT32:
            return None
    return _load_kernels() if compiled() else None


@functools.cache
def _load_kernels() -> ModuleType:
    return importlib.import_module("autodiff.compiled")


def unkept() -> str:
    """Why compiled kernels cannot be cached on disk; empty if they can, or if nothing was compiled."""
    kernel = sys.modules.get("autodiff.kernel")
    return kernel.unkept() if kernel else ""


def to_device(x: Any, name: str) -> Array:
    """``x`` as an array of the named backend; the same array if it is there already."""
    target = load(name)
    if owner(x) is not target:
        x = to_host(x)
    return target.xp.asarray(x)


def to_host(x: Any) -> np.ndarray:
    """``x`` as a NumPy array. For an array on a device, this synchronises."""
    return np.asarray(x) if on_host(x) else owner(x).xp.asnumpy(x)


def describe_device(name: str) -> str:
    """The device and its library in one line, or ``BackendUnavailable`` with the reason."""
    backend = load(name)
    if backend is NUMPY:
        return f"{name}: NumPy {np.__version__}"
    version = getattr(backend.xp, "__version__", "")
    if name != "cuda":
        return f"{name} {version}".strip()
    runtime = backend.xp.cuda.runtime
    gpu = runtime.getDeviceProperties(runtime.getDevice())["name"].decode()
    return f"{name}: {gpu}, CuPy {version}, CUDA runtime {runtime.runtimeGetVersion()}"


def synchronize(name: str) -> None:
    """Wait until the device has finished its work; on the CPU, there is nothing to wait for."""
    backend = load(name)
    if backend is not NUMPY:
        backend.xp.cuda.get_current_stream().synchronize()
