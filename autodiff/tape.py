"""Recording: a Tensor is an array whose use is recorded on a tape, and ops do the recording.

An op is one function that returns its value and its pullback, the function from the value's
cotangent to the cotangents of its inputs:

    @differentiable
    def tanh(x):
        y = array_module(x).tanh(x)
        return y, lambda g: g * (1 - y * y)

Arrays are positional, static parameters keyword-only. A pullback returns one cotangent per array
(a tuple, or the cotangent itself if there is one array), each of which is one of these:
- an array: the cotangent ``g`` itself, a view of it, or a new array, but never a saved one; ``g`` must not be
  written to. The array may have the broadcast shape and promoted dtype of the result, which the backward pass undoes.
- None, if the input has no influence.
- a function without arguments that returns the array; it is called only if that input is tracked.
- a ``Part``: the cotangent of a basic slice of the input, which is zero elsewhere.

For a complex value z the cotangent is dL/dRe z + i dL/dIm z, so a holomorphic f gives g conj(f').

The tape is a list of entries, one slot per recorded value, in the order of computation, so that the
backward pass (``sweep``) is a loop from the last to the first. Entries hold pullbacks, pullbacks hold plain
arrays, and nothing refers back to a Tensor or the tape, so there are no reference cycles. There is no global state:
tapes are independent of each other.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn, Protocol, TypeGuard, TypeVar, overload

import numpy as np

from autodiff import backend, tree
from autodiff.backend import SCALAR, Array, Arrays, DType, Pair

CONSTANT = -1  # in place of a slot: this input is not tracked
OP, INPUTS, PULLBACK, SHAPE, DTYPE, COUNT = range(6)  # the fields of an entry: a plain tuple, for speed
SINGLE, LATER = 1, 0  # as COUNT: the op returned one value; this is not the first of those that it returned
Pullback = Callable[[Any], Any]  # from the cotangent of the value to those of the arrays, as above
Entry = tuple[str, tuple[int, ...], Any, tuple[int, ...], DType, int]  # Any: a Pullback, or None


class TapeError(RuntimeError):
    """A Tensor was used outside the differentiation that created it."""


class Part(NamedTuple):
    """The cotangent of ``x[key]`` for an ``x`` that is zero elsewhere; ``key`` is basic indexing."""

    key: Any
    cotangent: Array


class Tape:
    """One entry (op name, input slots, pullback, shape, dtype, count) per recorded value; its index is the slot.

    The slot of an untracked input is CONSTANT. The count is SINGLE for an op that returned one value. An op that
    returned a tuple of k values takes k slots: the first has the pullback and the count -k, the others have LATER.
    """

    __slots__ = ("device", "ended", "entries")

    def __init__(self, device: backend.Backend) -> None:
        self.device = device  # where all recorded values live
        self.entries: list[Entry] = []
        self.ended = False  # True once the backward pass has begun, which takes the entries

    def leaf(self, value: Array) -> Tensor:
        self.entries.append(("input", (), None, value.shape, value.dtype, SINGLE))
        return Tensor(value, len(self.entries) - 1, self)


class Tensor:
    """An array whose use is recorded. Operators and the functions of ``autodiff`` work on it."""

    __slots__ = ("slot", "tape", "value")
    __array_ufunc__ = None  # ndarray + Tensor calls Tensor.__radd__; np.exp(Tensor) is a TypeError

    def __init__(self, value: Array, slot: int, tape: Tape) -> None:
        self.value = value
        self.slot = slot
        self.tape = tape

    @property
    def shape(self) -> tuple[int, ...]:
        return self.value.shape

    @property
    def dtype(self) -> DType:
        return self.value.dtype

    @property
    def ndim(self) -> int:
        return self.value.ndim

    @property
    def size(self) -> int:
        return self.value.size

    def __repr__(self) -> str:
        return f"Tensor({describe(self.value)})"

    def __array__(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise TypeError(
            "a Tensor is not a NumPy array: use the function of the same name in autodiff, "
            "or stop_gradient(x) for its plain value"
        )

    __float__ = __int__ = __bool__ = __complex__ = __index__ = __array__

    if TYPE_CHECKING:  # assigned in ``operators``

        def __add__(self, other: Operand) -> Tensor: ...
        def __lt__(self, other: Operand) -> Array: ...
        def __pow__(self, exponent: float) -> Tensor: ...
        def __neg__(self) -> Tensor: ...
        def __getitem__(self, key: Any) -> Tensor: ...
        def __len__(self) -> int: ...
        def __iter__(self) -> Iterator[Tensor]: ...

        __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __add__
        __truediv__ = __rtruediv__ = __matmul__ = __rmatmul__ = __add__
        __le__ = __gt__ = __ge__ = __lt__
        __abs__ = __neg__


Value = Array | Tensor  # what layers work on: Tensors while gradients are recorded, otherwise plain arrays
Same = TypeVar("Same", Array, Value)  # one type per call: plain arrays in, a plain array out
Plain = Array | complex | np.generic | None  # type checkers accept bool, int and float as complex
Operand = Plain | Tensor  # the arguments of ops
A = TypeVar("A", covariant=True)
V = TypeVar("V", covariant=True)


class Op(Protocol[A, V]):
    """A function of arrays that returns an ``A``, or a ``V`` if one of them is a Tensor."""

    __name__: str

    @overload
    def __call__(self, *arrays: Plain, **static: Any) -> A: ...
    @overload
    def __call__(self, *arrays: Operand, **static: Any) -> V: ...


def describe(x: Any) -> str:
    """How errors describe an argument: ``float32 (3, 4)`` for an array, ``2.5`` for a number."""
    shape = getattr(x, "shape", None)
    return f"{x.dtype} {tuple(shape)}" if shape is not None else repr(x)[:40]


@overload
def differentiable(rule: Callable[..., tuple[Array, Pullback]]) -> Op[Array, Value]: ...
@overload
def differentiable(rule: Callable[..., tuple[Pair, Pullback]]) -> Op[Pair, tuple[Value, Value]]: ...
@overload
def differentiable(rule: Callable[..., tuple[Arrays, Pullback]]) -> Op[Arrays, tuple[Value, ...]]: ...
def differentiable(rule: Callable[..., tuple[Any, Pullback]]) -> Callable[..., Any]:
    """Turn ``rule(*arrays, **static) -> (value, pullback)`` into an op on arrays and Tensors.

    With only plain arrays, the op records nothing and returns a plain array. A rule may return a tuple of values; its
    pullback then takes a tuple with a cotangent for each.
    """
    name = rule.__name__
    owner_of = backend._OWNERS.get
    parameters = inspect.signature(rule).parameters.values()
    positional = {p.name for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD}

    @functools.wraps(rule)
    def op(*args: Any, **static: Any) -> Any:
        if static:
            _check_static(name, positional, static)
        tape: Tape | None = None
        device = SCALAR
        inputs: tuple[int, ...] = ()
        values: list = []
        for x in args:
            if type(x) is Tensor:
                if x.tape is not tape:
                    if tape is not None or x.tape.ended:
                        raise _foreign(name, x)
                    tape = x.tape
                    if device is not tape.device:
                        device = _same_device(name, device, tape.device, len(values))
                inputs += (x.slot,)
                values.append(x.value)
            else:
                found = owner_of(type(x))
                if found is not SCALAR and found is not device:
                    device = _same_device(name, device, found or _owner(name, x, len(values)), len(values))
                inputs += (CONSTANT,)
                values.append(x)
        try:
            result: Any = rule(*values, **static)
        except (TypeError, ValueError, IndexError, OverflowError, AttributeError) as error:
            raise explain(name, values, static, error) from None
        if type(result) is not tuple or len(result) != 2:
            raise TypeError(f"{name}: the rule returned {type(result).__name__}; expected (value, pullback)")
        value, pullback = result
        if tape is None:
            return value
        entries = tape.entries
        slot = len(entries)
        if type(value) is tuple:
            count = -len(value)
            for v in value:
                entries.append((name, inputs, pullback, v.shape, _floating(name, v.dtype), count))
                inputs, pullback, count = (), None, LATER
            return tuple(Tensor(v, slot + k, tape) for k, v in enumerate(value))
        dtype = value.dtype
        if dtype.kind not in "fc":
            _floating(name, dtype)
        entries.append((name, inputs, pullback, value.shape, dtype, SINGLE))
        return Tensor(value, slot, tape)

    return op


def _floating(op: str, dtype: DType) -> DType:
    if dtype.kind not in "fc":
        raise TypeError(f"{op}: the result has dtype {dtype}; expected a floating-point one")
    return dtype


def _check_static(op: str, positional: set[str], static: dict) -> None:
    """Only positional arguments are tracked, so an array given by keyword would lose its gradient."""
    for key, value in static.items():
        if key in positional:
            raise TypeError(f"{op}: {key} is an array argument; give it by position")
        if type(value) is Tensor:
            raise TypeError(f"{op}: {key} is a Tensor; expected a plain value, of which no gradient is taken")


def _foreign(op: str, x: Tensor) -> TapeError:
    if x.tape.ended:
        return TapeError(
            f"{op}: an input is a Tensor of a finished backward pass; return it as auxiliary output "
            "of the loss, or take its value with stop_gradient"
        )
    return TapeError(
        f"{op}: the inputs are Tensors of different tapes; each differentiation has its own, "
        "and nested ones do not mix: take the value of the outer one with stop_gradient"
    )


def _owner(op: str, x: Any, position: int) -> backend.Backend:
    try:
        return backend.owner(x)
    except TypeError as error:
        raise TypeError(f"{op}: argument {position}: {error}") from None


def _same_device(op: str, device: backend.Backend, found: backend.Backend, position: int) -> backend.Backend:
    if found is SCALAR or found is device:
        return device
    if device is not SCALAR:
        raise TypeError(
            f"{op}: arrays on different devices: argument {position} is on {found.name}, those before "
            f"it on {device.name}; move them with to_device or to_host"
        )
    return found


def explain(op: str, values: list, static: dict, error: Exception) -> Exception:
    """The same error, with the op and its arguments in the message."""
    given = [describe(v) for v in values] + [f"{k}={describe(v)}" for k, v in static.items()]
    message = str(error).strip()
    if isinstance(error, AttributeError):
        if all(hasattr(v, "shape") for v in values):
            return error  # the arguments are fine: a mistake in the rule
        error, message = TypeError(), "expected arrays; a number, or None, cannot stand here"
    elif "broadcast" in message:
        message = "expected shapes that broadcast: axes, from the last, equal or 1"
    kind = next(k for k in (IndexError, TypeError, ValueError, OverflowError) if isinstance(error, k))
    return kind(f"{op}({', '.join(given)}): {message}")


def plain(values: tuple[Value, ...]) -> TypeGuard[Arrays]:
    """Whether none of the values is recorded."""
    return not any(type(x) is Tensor for x in values)


def stop_gradient(x: Any) -> Any:
    """A Tensor's plain value, or a nested container with such values in place of Tensors: constant from here on."""
    return tree.map_leaves(lambda leaf: leaf.value if type(leaf) is Tensor else leaf, x)
