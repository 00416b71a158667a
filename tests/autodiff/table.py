"""One row per public op: what it should compute, and at which inputs its value and gradient are proven.

A row's cases are (arrays, static parameters). Arrays are float64 or complex128 (integers and booleans are
constants); the tests derive the float32, non-contiguous and on-device versions themselves. Kinks and
infinities, where differences say nothing, are in test_edges.py.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import autodiff as ad

Case = tuple[tuple[Any, ...], dict[str, Any]]


@dataclass(frozen=True)
class Row:
    op: Callable
    reference: Callable  # NumPy, SciPy or a written-out loop, with the same arguments
    cases: list[Case]
    tolerance: float = 1e-9  # of the gradient, relative; the five-point differences reach about 1e-11
    float32: float = 1e-5  # of the value in float32 against float64: some tens of roundings of 6e-8

    @property
    def name(self) -> str:
        return self.op.__name__


rng = np.random.default_rng(7)


def real(*shape: int, low: float = -2.0, high: float = 2.0) -> np.ndarray:
    return np.asarray(rng.uniform(low, high, shape))


def complex_(*shape: int) -> np.ndarray:
    """Away from 0 and from the negative real axis, where the logarithm jumps."""
    return np.asarray(rng.uniform(0.5, 2.0, shape) * np.exp(1j * rng.uniform(-2.5, 2.5, shape)))


SHAPES = [(), (1,), (7,), (3, 4), (1, 1), (5, 1), (1, 6), (2, 3, 4), (4, 1, 3), (2, 1, 1, 3), (13,), (30, 40)]
EMPTY = [(0,), (0, 3), (2, 0)]
PAIRS = [
    ((), ()), ((3,), ()), ((), (3,)), ((3,), (3,)), ((3, 4), (4,)), ((4,), (3, 4)), ((3, 1), (1, 4)),
    ((2, 3, 4), (3, 1)), ((1,), (5,)), ((2, 1, 3), (4, 1)), ((1, 1), (1,)), ((20, 30), (30,)), ((6, 5), (6, 5)),
    ((0, 3), (3,)), ((1,), (0,)),
]  # fmt: skip


def unary(low: float = -2.0, high: float = 2.0, edges: tuple = (), **static: Any) -> list[Case]:
    arrays = [real(*s, low=low, high=high) for s in SHAPES + EMPTY] + [np.array(e) for e in edges]
    return [((x,), static) for x in arrays]


def of_complex(**static: Any) -> list[Case]:
    return [((complex_(*s),), static) for s in [(), (3,), (2, 3), (4, 1), (0,), (20, 20)]]


def binary(low: float = -2.0, high: float = 2.0) -> list[Case]:
    return [((real(*a, low=low, high=high), real(*b, low=low, high=high)), {}) for a, b in PAIRS] + [
        ((real(3, low=low, high=high), 1.5), {}),
        ((0.5, real(2, 2, low=low, high=high)), {}),
    ]


def of_two_complex() -> list[Case]:
    return [((complex_(*a), complex_(*b)), {}) for a, b in PAIRS[:6]] + [
        ((complex_(3), real(2, 3, low=0.5)), {}),
        ((real(2, 3, low=0.5), complex_(3)), {}),
        ((complex_(3), 2.0), {}),
    ]


def apart(low: float = -2.0, high: float = 2.0) -> list[Case]:
    """Pairs that differ by at least 0.1 everywhere: no ties."""

    def case(a: tuple, b: tuple) -> Case:
        x, y = real(*a, low=low, high=high), real(*b, low=low, high=high)
        x = np.round(x * 5) / 5  # multiples of 0.2 against odd multiples of 0.1
        return (np.asarray(x), np.asarray(np.round(y * 5) / 5 + 0.1)), {}

    return [case(a, b) for a, b in PAIRS] + [((np.array([-1.0, 1.0, 3.0]), 0.0), {}), ((0.5, np.array([0.2, 1.0])), {})]


REDUCTIONS: list[tuple[tuple, dict]] = [
    ((), {}), ((1,), {}), ((7,), {}), ((3, 4), {}), ((3, 4), {"axis": 0}), ((3, 4), {"axis": -1}),
    ((3, 4), {"axis": (0, 1)}), ((3, 4), {"axis": 1, "keepdims": True}), ((2, 3, 4), {"axis": (0, 2)}),
    ((2, 3, 4), {"axis": (-1, 0), "keepdims": True}), ((2, 3, 4), {"axis": 1}), ((1, 5), {"axis": 0}),
    ((3, 4), {"keepdims": True}), ((30, 40), {"axis": 0}),
]  # fmt: skip
EMPTY_REDUCTIONS: list[tuple[tuple, dict]] = [((0, 3), {"axis": 1}), ((3, 0), {"axis": 0})]


def reductions(make: Callable = real, empty: bool = True) -> list[Case]:
    return [((make(*s),), kw) for s, kw in REDUCTIONS + (EMPTY_REDUCTIONS if empty else [])]


def distinct(*shape: int) -> np.ndarray:
    """All elements at least 0.1 apart, in random order."""
    n = math.prod(shape)
    return (rng.permutation(n) * 0.1 - 1.0).reshape(shape)


AXIS_SHAPES = [
    ((1,), 0), ((2,), 0), ((7,), 0), ((8,), -1), ((9,), 0), ((3, 4), 0), ((3, 4), 1), ((3, 4), -1), ((2, 3, 4), 1),
    ((2, 3, 4), 0), ((1, 6), 0), ((17, 2), 0), ((65, 3), 0), ((4, 33), 1), ((0, 3), 0), ((3, 0), 0),
]  # fmt: skip


def along_axis(low: float = -2.0, high: float = 2.0) -> list[Case]:
    return [((real(*s, low=low, high=high),), {"axis": a}) for s, a in AXIS_SHAPES]


def with_zeros(*shape: int) -> np.ndarray:
    x = real(*shape)
    x.flat[:: max(1, x.size // 2)] = 0.0
    return x


def cumprod_edges() -> list[Case]:
    return [((with_zeros(*s),), {"axis": a}) for s, a in AXIS_SHAPES] + [
        ((np.zeros(5),), {"axis": 0}),
        ((np.array([2.0, 0.0, 3.0, 0.0, 4.0]),), {"axis": 0}),
        ((np.ones(4),), {"axis": 0}),
    ]


def written_gelu(x: np.ndarray) -> np.ndarray:
    return np.vectorize(lambda v: 0.5 * v * math.erfc(-v / math.sqrt(2)), otypes=[float])(x)


def written_layer_norm(x: np.ndarray, scale: np.ndarray, bias: np.ndarray, eps: float = 1e-5) -> np.ndarray:
    return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + eps) * scale + bias


def written_logsumexp(x: np.ndarray, axis: Any = None, keepdims: bool = False) -> np.ndarray:
    return np.log(np.exp(x).sum(axis=axis, keepdims=keepdims))


def written_softmax(x: np.ndarray, axis: int = -1) -> np.ndarray:
    return np.exp(x) / np.exp(x).sum(axis=axis, keepdims=True)


def written_cross_entropy(logits, targets, mask=None, total=None):
    loss, weight = 0.0, 0.0
    for i in np.ndindex(targets.shape):
        if mask is None or mask[i]:
            loss -= math.log(written_softmax(logits[i])[targets[i]])
            weight += 1
    return np.asarray(loss / (total or weight or 1.0))


def written_logcumsumexp(x: np.ndarray, axis: int) -> np.ndarray:
    return np.logaddexp.accumulate(x, axis=axis) if x.shape[axis] else x


def layer_norm_cases() -> list[Case]:
    shapes = [(1,), (2,), (5,), (3, 4), (1, 6), (2, 3, 4), (2, 1, 5), (4, 1), (1, 1, 3), (7, 8), (20, 30), (0, 3)]
    cases = [((real(*s), real(s[-1]), real(s[-1])), {}) for s in shapes]
    return cases + [
        ((real(3, 4), real(4), real(4)), {"eps": 0.1}),
        ((real(3, 4) * 100 + 1000, real(4), real(4)), {"eps": 1e-3}),
    ]


def cross_entropy_cases() -> list[Case]:
    cases: list[Case] = []
    for shape, v in [((), 3), ((1,), 1), ((4,), 3), ((2, 3), 5), ((2, 3), 2), ((3, 1, 2), 4), ((0,), 3), ((20, 10), 6)]:
        logits, targets = real(*shape, v), np.asarray(rng.integers(0, v, shape))
        mask = np.asarray(rng.uniform(size=shape) < 0.6)
        cases.append(((logits, targets), {}))
        cases.append(((logits, targets, mask), {"total": 7.0}))
        cases.append(((logits, np.where(mask, targets, -1), mask), {}))
    return cases


def joined(op_shapes: list[tuple[list[tuple], int]]) -> list[Case]:
    return [(tuple(real(*s) for s in shapes), {"axis": axis}) for shapes, axis in op_shapes]


CONCATENATE = [
    ([(3,)], 0), ([(3,), (2,)], 0), ([(3,), (0,), (1,)], 0), ([(2, 3), (2, 3)], 0), ([(2, 3), (2, 1)], 1),
    ([(2, 3), (2, 1)], -1), ([(1, 2, 3), (1, 4, 3), (1, 1, 3)], 1), ([(2, 2, 2), (1, 2, 2)], 0),
    ([(1,), (1,), (1,), (1,)], 0), ([(2, 3, 1), (2, 3, 2)], -1), ([(5, 4), (5, 4)], -2), ([(2, 1), (2, 2), (2, 3)], 1), ([(20, 30), (10, 30)], 0),
]  # fmt: skip
STACK = [
    ([()], 0), ([(), ()], 0), ([(3,)], 0), ([(3,), (3,)], 0), ([(3,), (3,)], 1), ([(3,), (3,)], -1),
    ([(2, 3), (2, 3)], 1), ([(2, 3), (2, 3), (2, 3)], 2), ([(2, 3), (2, 3)], -2), ([(1, 1), (1, 1)], 0),
    ([(0, 2), (0, 2)], 1), ([(4,)] * 5, 0), ([(20, 30), (20, 30)], 1),
]  # fmt: skip

MATMUL = [
    ((3,), (3,)), ((1,), (1,)), ((3, 4), (4, 5)), ((3, 4), (4,)), ((4,), (4, 5)), ((2, 3, 4), (4, 5)), ((2, 3, 4), (4,)),
    ((2, 3, 4), (2, 4, 5)), ((3, 4), (2, 4, 5)), ((4,), (2, 4, 5)), ((2, 1, 3, 4), (5, 4, 2)), ((1, 3, 4), (2, 4, 1)),
    ((2, 2, 3, 4), (4, 1)), ((1, 1), (1, 1)), ((0, 4), (4, 3)), ((3, 0), (0, 2)), ((2, 0, 4), (4, 5)), ((20, 30), (30, 20)),
]  # fmt: skip
EINSUM = [
    ("ij,jk->ik", (3, 4), (4, 5)), ("bij,bjk->bik", (2, 3, 4), (2, 4, 5)), ("bij,jk->bik", (2, 3, 4), (4, 5)),
    ("i,i->", (4,), (4,)), ("i,j->ij", (3,), (4,)), ("ij->ji", (3, 4)), ("ij->", (3, 4)), ("ij->i", (3, 4)),
    ("bhi,bhij->bhj", (2, 3, 4), (2, 3, 4, 2)), ("ij,k->i", (3, 4), (2,)), ("i,i,i->i", (3,), (3,), (3,)),
    (",i->i", (), (3,)), ("ij,jk,kl->il", (2, 3), (3, 4), (4, 2)), ("ij,ij->j", (0, 3), (0, 3)),
    (" ij, jk -> ki ", (20, 10), (10, 20)),
]  # fmt: skip


def written_einsum(*arrays: np.ndarray, subscripts: str) -> np.ndarray:
    """The definition: for each result element, the sum over all other letters of the product."""
    terms, result = subscripts.replace(" ", "").split("->")
    sizes = {c: n for t, x in zip(terms.split(","), arrays, strict=True) for c, n in zip(t, x.shape, strict=True)}
    order = result + "".join(sorted(set(sizes) - set(result)))
    product: Any = 1.0
    for term, x in zip(terms.split(","), arrays, strict=True):
        present = "".join(c for c in order if c in term)
        x = x.transpose([term.index(c) for c in present])
        product = product * x.reshape([sizes[c] if c in term else 1 for c in order])
    product = np.broadcast_to(product, [sizes[c] for c in order])
    return product.sum(axis=tuple(range(len(result), len(order))))


def cases_of(pairs: list[tuple[tuple, dict]], make: Callable = real) -> list[Case]:
    return [((make(*shape),), static) for shape, static in pairs]


RESHAPE = [
    ((), {"shape": (1,)}), ((), {"shape": ()}), ((6,), {"shape": (2, 3)}), ((6,), {"shape": (-1, 2)}),
    ((2, 3), {"shape": (6,)}), ((2, 3), {"shape": (3, 2)}), ((2, 3, 4), {"shape": (4, 6)}), ((2, 3, 4), {"shape": (-1,)}),
    ((1,), {"shape": ()}), ((1, 1), {"shape": (1,)}), ((4, 1), {"shape": (2, 1, 2)}), ((0, 3), {"shape": (3, 0)}),
    ((2, 2), {"shape": 4}), ((30, 40), {"shape": (40, 30)}),
]  # fmt: skip
TRANSPOSE = [
    ((), {}), ((3,), {}), ((3, 4), {}), ((3, 4), {"axes": (1, 0)}), ((3, 4), {"axes": (0, 1)}), ((2, 3, 4), {}),
    ((2, 3, 4), {"axes": (1, 2, 0)}), ((2, 3, 4), {"axes": (2, 0, 1)}), ((2, 3, 4), {"axes": (-1, 0, -2)}),
    ((1, 5), {}), ((2, 1, 3, 2), {"axes": (3, 1, 0, 2)}), ((0, 3), {}), ((30, 40), {}),
]  # fmt: skip
SWAPAXES = [
    ((3,), {"first": 0, "second": 0}), ((3, 4), {"first": 0, "second": 1}), ((3, 4), {"first": -1, "second": -2}),
    ((2, 3, 4), {"first": 0, "second": 2}), ((2, 3, 4), {"first": 1, "second": 2}), ((2, 3, 4), {"first": -1, "second": 0}),
    ((2, 3, 4), {"first": 1, "second": 1}), ((1, 5), {"first": 0, "second": 1}), ((1, 1), {"first": 0, "second": 1}),
    ((2, 1, 3, 2), {"first": 0, "second": 3}), ((2, 1, 3, 2), {"first": -2, "second": 1}), ((0, 3), {"first": 0, "second": 1}),
    ((30, 40), {"first": 0, "second": 1}),
]  # fmt: skip
BROADCAST = [
    ((), {"shape": ()}), ((), {"shape": (3,)}), ((), {"shape": (2, 2)}), ((1,), {"shape": (4,)}), ((3,), {"shape": (3,)}),
    ((3,), {"shape": (2, 3)}), ((3, 1), {"shape": (3, 4)}), ((1, 4), {"shape": (3, 4)}), ((1, 1), {"shape": (2, 3)}),
    ((2, 1, 3), {"shape": (4, 2, 5, 3)}), ((1,), {"shape": (0,)}), ((3, 1), {"shape": (2, 3, 1)}),
    ((30, 1), {"shape": (30, 40)}),
]  # fmt: skip
SPLIT = [
    ((4,), {"sections": 1}), ((4,), {"sections": 2}), ((4,), {"sections": 4}), ((6, 2), {"sections": 3}),
    ((2, 6), {"sections": 3, "axis": 1}), ((2, 6), {"sections": 2, "axis": -1}), ((1, 3), {"sections": 1}),
    ((2, 3, 4), {"sections": 2, "axis": 2}), ((2, 3, 4), {"sections": 3, "axis": 1}), ((2, 3, 4), {"sections": 2}),
    ((5, 1), {"sections": 5}), ((0, 3), {"sections": 2}), ((20, 40), {"sections": 4, "axis": 1}),
]  # fmt: skip
PAD = [
    ((3,), {"widths": ((0, 0),)}), ((3,), {"widths": ((1, 0),)}), ((3,), {"widths": ((0, 2),)}),
    ((3,), {"widths": ((1, 2),)}), ((3,), {"widths": ((1, 1),), "value": 2.5}), ((2, 3), {"widths": ((1, 0), (0, 1))}),
    ((2, 3), {"widths": ((0, 0), (2, 2))}), ((2, 3), {"widths": [(1, 1), (1, 1)], "value": -1}),
    ((1, 1), {"widths": ((0, 3), (3, 0))}), ((2, 1, 3), {"widths": ((0, 0), (1, 0), (0, 0))}),
    ((0, 3), {"widths": ((1, 1), (0, 0))}), ((1,), {"widths": ((4, 4),)}), ((20, 30), {"widths": ((1, 2), (3, 4))}),
]  # fmt: skip
FLIP = [
    ((1,), {"axis": 0}), ((2,), {"axis": 0}), ((5,), {"axis": 0}), ((5,), {"axis": -1}), ((3, 4), {"axis": 0}),
    ((3, 4), {"axis": 1}), ((3, 4), {"axis": -2}), ((1, 4), {"axis": 0}), ((2, 3, 4), {"axis": 1}),
    ((2, 3, 4), {"axis": -1}), ((2, 3, 4), {"axis": 0}), ((0, 3), {"axis": 0}), ((30, 40), {"axis": 1}),
]  # fmt: skip
ROLL = [
    ((1,), {"shift": 1, "axis": 0}), ((5,), {"shift": 0, "axis": 0}), ((5,), {"shift": 1, "axis": 0}),
    ((5,), {"shift": -1, "axis": 0}), ((5,), {"shift": 7, "axis": 0}), ((5,), {"shift": -12, "axis": -1}),
    ((3, 4), {"shift": 1, "axis": 0}), ((3, 4), {"shift": 2, "axis": 1}), ((2, 3, 4), {"shift": -1, "axis": 1}),
    ((2, 3, 4), {"shift": 3, "axis": -1}), ((2, 1), {"shift": 1, "axis": 0}), ((0, 3), {"shift": 1, "axis": 0}),
    ((30, 40), {"shift": 11, "axis": 1}),
]  # fmt: skip
INDEX = [
    ((5,), 2), ((5,), -1), ((5,), slice(1, 4)), ((5,), slice(None, None, -1)), ((5,), slice(None, None, 2)),
    ((5,), None), ((5,), ...), ((), ()), ((), None), ((3, 4), 1), ((3, 4), (slice(None), 2)), ((3, 4), (1, -1)),
    ((3, 4), (..., slice(1, 3))), ((3, 4), (slice(2, 0, -1), None, 0)), ((2, 3, 4), (..., 0)), ((2, 3, 4), (0, ..., 1)),
    ((5,), slice(3, 3)), ((0, 3), slice(None)), ((30, 40), (slice(1, None, 2), slice(None, -3))),
]  # fmt: skip


def take_cases() -> list[Case]:
    settings = [
        ((5,), [0, 2, 2, -1], 0), ((5,), [[1, 1], [0, 4]], 0), ((5,), 3, 0), ((1,), [0, 0, 0], 0), ((4, 3), [1, 1, 1], 0),
        ((4, 3), [[0, 3], [3, 0]], 0), ((4, 3), [2, 0, 2], 1), ((4, 3), [-1, -3], -1), ((2, 3, 4), [1, 0, 1], 1),
        ((2, 3, 4), [[3], [3]], 2), ((4, 3), [], 0), ((2, 3), 1, 1), ((6, 20), [0, 1, 2, 3, 4, 5] * 5, 0),
    ]  # fmt: skip
    return [((real(*s), np.array(i, dtype=np.int64)), {"axis": a}) for s, i, a in settings]


def where_cases() -> list[Case]:
    cases: list[Case] = []
    for a, b in PAIRS:
        x, y = real(*a), real(*b)
        cases.append(((np.asarray(rng.uniform(size=np.broadcast_shapes(a, b)) < 0.5), x, y), {}))
    return cases + [((np.array([True, False]), real(2), 0.5), {}), ((np.array([True, False]), 1.0, real(3, 1)), {})]


def spectra(*shape: int) -> np.ndarray:
    return np.asarray(real(*shape) + 1j * real(*shape))


RFFT = [(1,), (2,), (3,), (4,), (7,), (8,), (3, 5), (3, 6), (2, 1, 9), (1, 16), (2, 3, 4), (20, 31)]
IRFFT = [
    ((1,), 1),
    ((2,), 2),
    ((2,), 3),
    ((3,), 4),
    ((3,), 5),
    ((4, 3), 5),
    ((4, 4), 6),
    ((2, 1, 5), 8),
    ((2, 1, 5), 9),
]

CLIP_INPUT = [np.array(0.7), np.array([-3.0, -0.7, 0.2, 0.9, 3.0]), np.linspace(-2.05, 2.05, 12).reshape(3, 4)]
CLIP_BOUNDS = [
    {"low": -1.0, "high": 1.0}, {"low": 0.0}, {"high": 0.5}, {"low": -1, "high": 1}, {"low": 0.3, "high": 0.3}
]  # fmt: skip
EXPONENTS = [1, 2, 3, -1, -2, 0, 0.5, 1.5, -0.5, 2.0]

ROWS = [
    Row(ad.add, lambda x, y: x + y, binary() + of_two_complex()),
    Row(ad.subtract, lambda x, y: x - y, binary() + of_two_complex()),
    Row(ad.multiply, lambda x, y: x * y, binary() + of_two_complex()),
    Row(ad.divide, lambda x, y: x / y, binary(0.5, 2.0) + binary(-2.0, -0.5) + of_two_complex()),
    Row(ad.negative, np.negative, unary() + of_complex()),
    Row(
        ad.power,
        lambda x, exponent: np.asarray(x) ** exponent,
        [((real(3, 2, low=0.5), ), {"exponent": p}) for p in EXPONENTS]
        + [((real(4), ), {"exponent": p}) for p in (0, 1, 2, 3)]
        + of_complex(exponent=2) + of_complex(exponent=-1) + unary(0.5, 2.0, exponent=1.7),
    ),
    Row(ad.exp, np.exp, unary(edges=([-30.0, -1e-8, 0.0, 1e-8],)) + of_complex()),
    Row(ad.log, np.log, unary(0.3, 3.0, edges=([0.25, 1.0, 1e3],)) + of_complex()),
    Row(ad.log1p, np.log1p, unary(-0.8, 2.0, edges=([-1e-9, 0.0, 1e-9],))),
    Row(ad.sqrt, np.sqrt, unary(0.3, 3.0, edges=([0.25, 1.0, 1e3],)) + of_complex()),
    Row(ad.tanh, np.tanh, unary(edges=([-20.0, 0.0, 20.0],))),
    Row(ad.sigmoid, lambda x: 1 / (1 + np.exp(-x)), unary(edges=([-30.0, 0.0, 30.0],))),
    Row(ad.softplus, lambda x: np.logaddexp(x, 0), unary(-3, 3, edges=([-30.0, 0.5, 30.0],))),
    Row(ad.gelu, written_gelu, unary(-4, 4, edges=([-10.0, -1e-9, 0.0, 10.0],))),
    Row(ad.maximum, np.maximum, apart()),
    Row(ad.minimum, np.minimum, apart()),
    Row(ad.where, np.where, where_cases()),
    Row(
        ad.clip,
        lambda x, low=None, high=None: np.clip(x, low, high),
        [((x,), b) for x in CLIP_INPUT for b in CLIP_BOUNDS] + [((real(0),), {"low": 0.0})],
    ),
    Row(ad.absolute, np.abs, unary(0.2, 2.0) + unary(-2.0, -0.2) + of_complex()),
    Row(ad.real, lambda z: z.real, [((spectra(*s),), {}) for s in SHAPES + EMPTY]),
    Row(ad.imag, lambda z: z.imag, [((spectra(*s),), {}) for s in SHAPES + EMPTY]),
    Row(ad.make_complex, lambda x, y: x + 1j * y, binary()[:-2]),
    Row(ad.astype, lambda x, dtype: x.astype(dtype), unary(dtype=np.float64) + [((real(3),), {"dtype": np.complex128})]),
    Row(ad.sum, np.sum, reductions() + reductions(complex_, empty=False)),
    Row(ad.mean, np.mean, reductions(empty=False) + reductions(complex_, empty=False)),
    Row(ad.max, np.max, reductions(distinct, empty=False)),
    Row(ad.logsumexp, written_logsumexp, reductions(empty=False)),
    Row(ad.softmax, written_softmax, along_axis()[:-1]),
    Row(ad.log_softmax, lambda x, axis: np.log(written_softmax(x, axis)), along_axis()[:-1]),
    Row(ad.cumsum, np.cumsum, along_axis()),
    Row(ad.cumprod, np.cumprod, along_axis() + cumprod_edges()),
    Row(ad.logcumsumexp, written_logcumsumexp, along_axis() + [((real(40) * 20,), {"axis": 0})]),
    Row(ad.reshape, np.reshape, cases_of(RESHAPE)),
    Row(ad.transpose, np.transpose, cases_of(TRANSPOSE)),
    Row(ad.swapaxes, lambda x, first, second: np.swapaxes(x, first, second), cases_of(SWAPAXES)),
    Row(ad.broadcast_to, np.broadcast_to, cases_of(BROADCAST)),
    Row(ad.concatenate, lambda *xs, axis: np.concatenate(xs, axis), joined(CONCATENATE)),
    Row(ad.stack, lambda *xs, axis: np.stack(xs, axis), joined(STACK)),
    Row(ad.split, lambda x, sections, axis=0: np.split(x, sections, axis), cases_of(SPLIT)),
    Row(ad.pad, lambda x, widths, value=0.0: np.pad(x, widths, constant_values=value), cases_of(PAD)),
    Row(ad.flip, np.flip, cases_of(FLIP)),
    Row(ad.roll, np.roll, cases_of(ROLL)),
    Row(ad.index, lambda x, key: x[key], [((real(*s),), {"key": k}) for s, k in INDEX]),
    Row(ad.take, np.take, take_cases()),
    Row(ad.matmul, np.matmul, [((real(*a), real(*b)), {}) for a, b in MATMUL] + [((complex_(3, 4), complex_(4, 2)), {}), ((complex_(2, 3, 4), complex_(4, 2)), {})]),
    Row(ad.einsum, written_einsum, [(tuple(real(*s) for s in shapes), {"subscripts": t}) for t, *shapes in EINSUM]
        + [((complex_(3, 4), complex_(4, 2)), {"subscripts": "ij,jk->ik"})]),
    Row(ad.rfft, np.fft.rfft, [((real(*s),), {}) for s in RFFT] + [((real(4, 3),), {"axis": 0}), ((real(0, 4),), {})]),
    Row(
        ad.irfft,
        np.fft.irfft,
        [((spectra(*s),), {"n": n}) for s, n in IRFFT]
        + [((spectra(4, 3),), {"n": n, "axis": 0}) for n in (6, 7)]
        + [((spectra(0, 3),), {"n": 4}), ((spectra(20, 16),), {"n": 31})],
    ),
    Row(ad.layer_norm, written_layer_norm, layer_norm_cases(), tolerance=1e-7),  # of two elements the slopes nearly cancel
    Row(ad.softmax_cross_entropy, written_cross_entropy, cross_entropy_cases()),
]  # fmt: skip
