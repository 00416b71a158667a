"""A strict stand-in for CuPy: arrays that are not ndarrays, in a namespace that has only what CuPy has.

Where CuPy differs from NumPy, this differs in the same way: no implicit conversion, no mixing with NumPy
arrays, 0-d arrays from reductions and indexing, no ``accumulate`` or ``reduce`` but for add and multiply, no
``where=``, no ``errstate``. Reading a value (``float``, ``bool``, ``get``, ...) counts as a synchronisation.
Names and parameters are written out below and compared with the real CuPy by ``make cuda-check``.
"""

from __future__ import annotations

import contextlib
import inspect
import operator
from types import SimpleNamespace
from typing import Any

import numpy as np
import scipy.special

from autodiff import backend

UFUNCS = [
    "absolute",
    "add",
    "conj",
    "cos",
    "divide",
    "equal",
    "exp",
    "expm1",
    "floor",
    "greater",
    "greater_equal",
    "isfinite",
    "isinf",
    "isnan",
    "less",
    "less_equal",
    "log",
    "log1p",
    "logaddexp",
    "logical_and",
    "logical_not",
    "logical_or",
    "maximum",
    "minimum",
    "multiply",
    "negative",
    "not_equal",
    "power",
    "sign",
    "sin",
    "sqrt",
    "square",
    "subtract",
    "tanh",
]
SPECIAL_UFUNCS = ["erf", "expit", "ndtr"]
ACCUMULATING = ("add", "multiply")

FUNCTIONS = {
    "all": "a, axis=None, out=None, keepdims=False",
    "any": "a, axis=None, out=None, keepdims=False",
    "arange": "start, stop=None, step=1, dtype=None",
    "argmax": "a, axis=None, dtype=None, out=None, keepdims=False",
    "ascontiguousarray": "a, dtype=None",
    "broadcast_arrays": "*args",
    "broadcast_to": "array, shape",
    "concatenate": "tup, axis=0, out=None, *, dtype=None, casting='same_kind'",
    "cumprod": "a, axis=None, dtype=None, out=None",
    "cumsum": "a, axis=None, dtype=None, out=None",
    "einsum": "*operands, **kwargs",
    "empty": "shape, dtype=float, order='C'",
    "empty_like": "prototype, dtype=None, order='K', subok=None, shape=None",
    "expand_dims": "a, axis",
    "eye": "N, M=None, k=0, dtype=float, order='C'",
    "flip": "a, axis=None",
    "full": "shape, fill_value, dtype=None, order='C'",
    "matmul": "*args, axes=None, axis=None, keepdims=False, casting='same_kind', dtype=None, signature=None, order='K', out=None",
    "max": "a, axis=None, out=None, keepdims=False",
    "mean": "a, axis=None, dtype=None, out=None, keepdims=False",
    "min": "a, axis=None, out=None, keepdims=False",
    "moveaxis": "a, source, destination",
    "ones": "shape, dtype=float, order='C'",
    "ones_like": "a, dtype=None, order='K', subok=None, shape=None",
    "pad": "array, pad_width, mode='constant', **kwargs",
    "prod": "a, axis=None, dtype=None, out=None, keepdims=False",
    "result_type": "*arrays_and_dtypes",
    "roll": "a, shift, axis=None",
    "stack": "tup, axis=0, out=None, *, dtype=None, casting='same_kind'",
    "sum": "a, axis=None, dtype=None, out=None, keepdims=False",
    "swapaxes": "a, axis1, axis2",
    "take": "a, indices, axis=None, out=None",
    "take_along_axis": "a, indices, axis",
    "transpose": "a, axes=None",
    "where": "condition, x=None, y=None",
    "zeros": "shape, dtype=float, order='C'",
    "zeros_like": "a, dtype=None, order='K', subok=None, shape=None",
}
FFT_FUNCTIONS = {
    "irfft": "a, n=None, axis=-1, norm=None",
    "rfft": "a, n=None, axis=-1, norm=None",
}
STRIDE_FUNCTIONS = {
    "sliding_window_view": "x, window_shape, axis=None, *, subok=False, writeable=False",
}
CONSTANTS = ["bool_", "complex64", "complex128", "float32", "float64", "inf", "int32", "int64", "nan", "newaxis", "pi"]

synchronisations = 0


def _synchronise() -> None:
    global synchronisations
    synchronisations += 1


@contextlib.contextmanager
def no_synchronisation():
    """Fails if a value is read inside."""
    before = synchronisations
    yield
    assert synchronisations == before, f"{synchronisations - before} synchronisations where there should be none"


# ---- the array ----------------------------------------------------------------------------------


def _unwrap(x: Any) -> Any:
    if type(x) is DeviceArray:
        return x._host
    if isinstance(x, np.ndarray):
        raise TypeError("Unsupported type <class 'numpy.ndarray'>")
    if isinstance(x, (list, tuple)):
        return type(x)(map(_unwrap, x))
    return x


def _wrap(x: Any) -> Any:
    if isinstance(x, (np.ndarray, np.generic)):
        return DeviceArray(np.asarray(x))
    if isinstance(x, (list, tuple)):
        return type(x)(map(_wrap, x))
    return x


def _defers(other: Any) -> bool:
    """As CuPy: an operand that opts out of ufuncs is asked for its reflected operator."""
    return getattr(other, "__array_ufunc__", ...) is None


class DeviceArray:
    __slots__ = ("__weakref__", "_host")
    __hash__ = None

    def __init__(self, host: np.ndarray) -> None:
        self._host = host

    shape = property(lambda self: self._host.shape)
    dtype = property(lambda self: self._host.dtype)
    ndim = property(lambda self: self._host.ndim)
    size = property(lambda self: self._host.size)
    nbytes = property(lambda self: self._host.nbytes)
    base = property(lambda self: self._host.base)
    T = property(lambda self: DeviceArray(self._host.T))
    real = property(lambda self: DeviceArray(self._host.real), lambda self, x: setattr(self._host, "real", _unwrap(x)))
    imag = property(lambda self: DeviceArray(self._host.imag), lambda self, x: setattr(self._host, "imag", _unwrap(x)))

    def __repr__(self) -> str:
        return f"DeviceArray({self.dtype} {self.shape})"

    def __len__(self) -> int:
        return len(self._host)

    def __iter__(self):
        return (self[i] for i in range(len(self)))

    def __getitem__(self, key: Any) -> DeviceArray:
        return _wrap(self._host[self._key(key)])

    def __setitem__(self, key: Any, value: Any) -> None:
        self._host[self._key(key)] = _unwrap(value)

    @staticmethod
    def _key(key: Any) -> Any:
        for k in key if isinstance(key, tuple) else (key,):
            if getattr(k, "dtype", None) == np.bool_:
                _synchronise()  # the size of the result depends on the values
        return _unwrap(key)

    # implicit conversions, and functions of NumPy on device arrays
    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        raise TypeError("Implicit conversion to a NumPy array is not allowed. Please use `.get()`")

    def __array_ufunc__(self, *args: Any, **kwargs: Any) -> Any:
        raise TypeError("Unsupported type <class 'numpy.ndarray'>: a NumPy function or array meets a device array")

    __array_function__ = __array_ufunc__

    # reading a value waits for the device
    def get(self) -> np.ndarray:
        _synchronise()
        return self._host.copy()

    def item(self) -> Any:
        _synchronise()
        return self._host.item()

    def tolist(self) -> Any:
        _synchronise()
        return self._host.tolist()

    def __float__(self) -> float:
        return float(self.item())

    def __int__(self) -> int:
        return int(self.item())

    def __complex__(self) -> complex:
        return complex(self.item())

    def __bool__(self) -> bool:
        _synchronise()
        return bool(self._host)

    def __index__(self) -> int:
        return operator.index(self.item())


METHODS = {
    "all": "axis=None, out=None, keepdims=False",
    "any": "axis=None, out=None, keepdims=False",
    "astype": "dtype, order='K', casting=None, subok=None, copy=True",
    "conj": "",
    "conjugate": "",
    "copy": "order='C'",
    "max": "axis=None, out=None, keepdims=False",
    "mean": "axis=None, dtype=None, out=None, keepdims=False",
    "min": "axis=None, out=None, keepdims=False",
    "ravel": "order='C'",
    "reshape": "*shape, order='C', copy=None",
    "sum": "axis=None, dtype=None, out=None, keepdims=False",
    "swapaxes": "axis1, axis2",
    "transpose": "*axes",
}


def _signature(parameters: str) -> inspect.Signature:
    return inspect.signature(eval(f"lambda {parameters}: None", {"float": float}))


def _function(name: str, parameters: str, target: Any) -> Any:
    signature = _signature(parameters)

    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            signature.bind(*args, **kwargs)
        except TypeError as error:
            raise TypeError(f"{name}: {error}") from None
        return _wrap(target(*_unwrap(args), **{k: _unwrap(v) for k, v in kwargs.items()}))

    call.__name__ = name
    return call


def _method(name: str, parameters: str) -> Any:
    signature = _signature(parameters)

    def method(self: DeviceArray, *args: Any, **kwargs: Any) -> Any:
        signature.bind(*args, **kwargs)
        return _wrap(getattr(self._host, name)(*_unwrap(args), **kwargs))

    method.__name__ = name
    return method


for _name, _parameters in METHODS.items():
    setattr(DeviceArray, _name, _method(_name, _parameters))


def _binary(name: str) -> tuple[Any, Any, Any]:
    apply = getattr(operator, name)

    def forward(self: DeviceArray, other: Any) -> Any:
        return NotImplemented if _defers(other) else _wrap(apply(self._host, _operand(other)))

    def reflected(self: DeviceArray, other: Any) -> Any:
        return NotImplemented if _defers(other) else _wrap(apply(_operand(other), self._host))

    def in_place(self: DeviceArray, other: Any) -> DeviceArray:
        getattr(operator, "i" + name.strip("_"))(self._host, _operand(other))
        return self

    return forward, reflected, in_place


def _operand(x: Any) -> Any:
    if not isinstance(x, (DeviceArray, bool, int, float, complex, np.generic)):
        raise TypeError(f"Unsupported type {type(x)}")
    return _unwrap(x)


for _name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul"):
    _forward, _reflected, _in_place = _binary(_name)
    setattr(DeviceArray, f"__{_name}__", _forward)
    setattr(DeviceArray, f"__r{_name}__", _reflected)
    setattr(DeviceArray, f"__i{_name}__", _in_place)
for _name in ("and_", "or_", "xor", "lt", "le", "gt", "ge", "eq", "ne"):
    setattr(DeviceArray, f"__{_name.strip('_')}__", _binary(_name)[0])
for _name in ("neg", "abs", "invert", "pos"):
    setattr(DeviceArray, f"__{_name}__", lambda self, apply=getattr(operator, _name): _wrap(apply(self._host)))


# ---- the namespace ------------------------------------------------------------------------------


class Ufunc:
    """A ufunc without ``where=``; ``accumulate`` and ``reduce`` only where CuPy has them."""

    def __init__(self, name: str, target: Any) -> None:
        self._call = _function(name, "*args, out=None, dtype=None, casting='same_kind'", target)
        if name in ACCUMULATING:
            self.accumulate = _function(f"{name}.accumulate", "array, axis=0, dtype=None, out=None", target.accumulate)
            self.reduce = _function(
                f"{name}.reduce", "array, axis=0, dtype=None, out=None, keepdims=False", target.reduce
            )

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._call(*args, **kwargs)


def asarray(a, dtype=None, order=None, *, copy=None, blocking=False):
    """From host or device; a host array is copied, as it would be to a GPU."""
    if isinstance(a, DeviceArray):
        return a if dtype in (None, a.dtype) else a.astype(dtype)
    return DeviceArray(np.array(a, dtype=dtype, order=order))


def asnumpy(a, stream=None, order="C", out=None, *, blocking=True):
    return a.get()


xp = SimpleNamespace(asarray=asarray, asnumpy=asnumpy, ndarray=DeviceArray)
for _name in UFUNCS:
    setattr(xp, _name, Ufunc(_name, getattr(np, _name)))
for _name, _parameters in FUNCTIONS.items():
    setattr(xp, _name, _function(_name, _parameters, getattr(np, _name)))
for _name in CONSTANTS:
    setattr(xp, _name, getattr(np, _name))
xp.fft = SimpleNamespace(**{n: _function(n, p, getattr(np.fft, n)) for n, p in FFT_FUNCTIONS.items()})
xp.lib = SimpleNamespace(
    stride_tricks=SimpleNamespace(
        **{n: _function(n, p, getattr(np.lib.stride_tricks, n)) for n, p in STRIDE_FUNCTIONS.items()}
    )
)
xp.cuda = SimpleNamespace(get_current_stream=lambda: SimpleNamespace(synchronize=_synchronise))
special = SimpleNamespace(**{n: Ufunc(n, getattr(scipy.special, n)) for n in SPECIAL_UFUNCS})

DEVICE = backend.Backend("standin", xp, special, DeviceArray)
backend.register("standin", lambda: DEVICE)
backend.load("standin")
