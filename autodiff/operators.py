"""The operators ``+ - * / ** @ []`` of a Tensor, each of which calls the op of that name."""

from __future__ import annotations

import operator
from collections.abc import Callable

from autodiff import elementwise, linalg, shape
from autodiff.backend import Array
from autodiff.tape import Op, Operand, Tensor, explain, stop_gradient


def _reflected(op: Op) -> Callable:
    return lambda self, other: op(other, self)


def _compare(op: Callable) -> Callable:
    """A comparison is constant almost everywhere, so it returns a plain boolean array, which ``where`` accepts."""

    def compare(self: Tensor, other: Operand) -> Array:
        other = stop_gradient(other)
        try:
            return op(self.value, other)
        except (TypeError, ValueError) as error:
            raise explain(op.__name__, [self.value, other], {}, error) from None

    return compare


def _length(self: Tensor) -> int:
    if self.ndim == 0:
        raise TypeError("len() of a Tensor without axes")
    return self.shape[0]


_METHODS: dict[str, Callable] = {
    "neg": elementwise.negative,
    "abs": elementwise.absolute,
    "pow": lambda self, exponent: elementwise.power(self, exponent=exponent),
    "getitem": lambda self, key: shape.index(self, key=key),
    "len": _length,
    "iter": lambda self: (self[i] for i in range(len(self))),
    "hash": object.__hash__,
    **{name: _compare(getattr(operator, name)) for name in ("lt", "le", "gt", "ge", "eq", "ne")},
}
_ARITHMETIC = {"add": elementwise.add, "sub": elementwise.subtract, "mul": elementwise.multiply}
_ARITHMETIC |= {"truediv": elementwise.divide, "matmul": linalg.matmul}
for _name, _op in _ARITHMETIC.items():
    _METHODS |= {_name: _op, f"r{_name}": _reflected(_op)}
for _name, _method in _METHODS.items():
    setattr(Tensor, f"__{_name}__", _method)
