"""What ``+ - * / ** @ []`` mean on a Tensor: each is the op of that name."""

from __future__ import annotations

import operator
from collections.abc import Iterator
from typing import Any

from autodiff import elementwise, linalg, shape
from autodiff.tape import Tensor, explain, stop_gradient


def _reflected(op):
    return lambda self, other: op(other, self)


Tensor.__add__, Tensor.__radd__ = elementwise.add, _reflected(elementwise.add)
Tensor.__sub__, Tensor.__rsub__ = elementwise.subtract, _reflected(elementwise.subtract)
Tensor.__mul__, Tensor.__rmul__ = elementwise.multiply, _reflected(elementwise.multiply)
Tensor.__truediv__, Tensor.__rtruediv__ = elementwise.divide, _reflected(elementwise.divide)
Tensor.__matmul__, Tensor.__rmatmul__ = linalg.matmul, _reflected(linalg.matmul)
Tensor.__neg__ = elementwise.negative
Tensor.__abs__ = elementwise.absolute
Tensor.__pow__ = lambda self, exponent: elementwise.power(self, exponent=exponent)
Tensor.__getitem__ = lambda self, key: shape.index(self, key=key)


def _compare(op):
    """Comparisons are constant almost everywhere: a plain boolean array, as ``where`` takes it."""

    def compare(self: Tensor, other: Any) -> Any:
        other = stop_gradient(other)
        try:
            return op(self.value, other)
        except (TypeError, ValueError) as error:
            raise explain(op.__name__, [self.value, other], {}, error) from None

    return compare


for _name in ("lt", "le", "gt", "ge", "eq", "ne"):
    setattr(Tensor, f"__{_name}__", _compare(getattr(operator, _name)))
Tensor.__hash__ = object.__hash__


def _length(self: Tensor) -> int:
    if self.ndim == 0:
        raise TypeError("len() of a Tensor without axes")
    return self.shape[0]


def _iterate(self: Tensor) -> Iterator[Any]:
    return (self[i] for i in range(len(self)))


Tensor.__len__, Tensor.__iter__ = _length, _iterate
