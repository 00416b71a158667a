"""Matrix products."""

from __future__ import annotations

import math
from collections.abc import Callable

from autodiff.backend import Array, array_module
from autodiff.tape import Pullback, differentiable


@differentiable
def matmul(x: Array, y: Array) -> tuple[Array, Pullback]:
    """Matrix product, batched over leading axes; a vector is a row on the left and a column on the right."""
    if min(getattr(x, "ndim", 0), getattr(y, "ndim", 0)) == 0:
        raise ValueError("expected arrays of at least one axis; for a number use multiply")
    inner = y.shape[-2] if y.ndim > 1 else y.shape[0]
    if x.shape[-1] != inner:
        raise ValueError(f"expected the last axis of x ({x.shape[-1]}) to equal the axis of y that it meets ({inner})")
    if x.ndim > 2 and y.ndim == 2:
        return _flat_matmul(x, y)

    def pullback(g):
        a = x if x.ndim > 1 else x[None, :]
        b = y if y.ndim > 1 else y[:, None]
        if x.ndim == 1:
            g = g[..., None, :] if y.ndim > 1 else g[None]
        if y.ndim == 1:
            g = g[..., None]
        return (
            lambda: _drop_row(g @ b.conj().swapaxes(-1, -2), x.ndim),
            lambda: _drop_column(a.conj().swapaxes(-1, -2) @ g, y.ndim),
        )

    return x @ y, pullback


def _drop_row(c: Array, ndim: int) -> Array:
    return c if ndim > 1 else c.reshape(c.shape[:-2] + c.shape[-1:])


def _drop_column(c: Array, ndim: int) -> Array:
    return c if ndim > 1 else c.reshape(c.shape[:-1])


def _flat_matmul(x: Array, y: Array) -> tuple[Array, Pullback]:
    """Many rows times one matrix: one large product in the forward pass, and one for each gradient."""
    rows = x.reshape(math.prod(x.shape[:-1]), x.shape[-1])
    shape = x.shape

    def pullback(g):
        g = g.reshape(rows.shape[0], y.shape[1])
        return lambda: (g @ y.conj().T).reshape(shape), lambda: rows.conj().T @ g

    return (rows @ y).reshape(shape[:-1] + y.shape[1:]), pullback


@differentiable
def einsum(*arrays: Array, subscripts: str) -> tuple[Array, Pullback]:
    """Sum of products, like numpy.einsum with an explicit ``->``, letters only, and no letter twice in a term."""
    if not isinstance(subscripts, str):
        raise TypeError("expected a text such as 'ij,jk->ik' as subscripts")
    given, arrow, result = subscripts.replace(" ", "").partition("->")
    terms = given.split(",")
    sizes: dict[str, int] = {}
    if not arrow or len(terms) != len(arrays):
        raise ValueError("expected one term per array, then -> and the result, as in 'ij,jk->ik'")
    for term, x in zip(terms, arrays, strict=True):
        if len(term) != x.ndim or len(set(term)) != len(term) or (not term.isalpha() and term):
            raise ValueError(f"term {term!r} does not fit shape {x.shape}; expected one letter per axis, none twice")
        for letter, n in zip(term, x.shape, strict=True):
            if sizes.setdefault(letter, n) != n:
                raise ValueError(f"axis {letter!r} has sizes {sizes[letter]} and {n}; expected them to be equal")
    if len(set(result)) != len(result) or not set(result) <= set(sizes):
        raise ValueError(f"result {result!r}: expected letters of the terms, none twice")
    xp = array_module(*arrays)

    def cotangent(k: int, g: Array) -> Array:
        """The same sum, with the k-th array and the result exchanged."""
        others = [j for j in range(len(arrays)) if j != k]
        reached = set(result).union(*(terms[j] for j in others))
        target = "".join(c for c in terms[k] if c in reached)  # letters that only this term has were summed over alone
        recipe = ",".join([result] + [terms[j] for j in others]) + "->" + target
        c = xp.einsum(recipe, g, *(arrays[j].conj() for j in others))
        kept = tuple(sizes[a] if a in reached else 1 for a in terms[k])
        return xp.broadcast_to(c.reshape(kept), arrays[k].shape)

    value = xp.einsum(subscripts.replace(" ", ""), *arrays)
    return value, lambda g: tuple(_later(cotangent, k, g) for k in range(len(arrays)))


def _later(cotangent: Callable[[int, Array], Array], k: int, g: Array) -> Callable[[], Array]:
    return lambda: cotangent(k, g)
