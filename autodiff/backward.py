"""The backward pass: one loop over the tape, from the cotangent of the last value to those of the inputs.

A cotangent is freed when it is consumed, and an entry, with the arrays that its pullback saved, as soon as the pullback
has run. ``fit`` is the one place where cotangents get the shape and dtype of their inputs.
"""

from __future__ import annotations

from types import FunctionType
from typing import Any

from autodiff.backend import Array, DType, Namespace
from autodiff.tape import CONSTANT, DTYPE, LATER, SHAPE, SINGLE, Entry, Part, Tape, describe


class PullbackError(RuntimeError):
    """A pullback failed or returned cotangents that do not fit its inputs: the bug is in the op, not in its caller."""


def sweep(tape: Tape, seeds: dict[int, Array], leaves: int, xp: Namespace) -> list[Array]:
    """The cotangents of the first ``leaves`` slots, given those of some later ones. This ends the tape."""
    entries: list = tape.entries  # None in place of used entries
    tape.entries, tape.ended = [], True
    cotangents: list = [None] * len(entries)
    owned = bytearray(len(entries))  # 1: nothing else refers to this buffer, so adding in place is safe
    for slot, seed in seeds.items():
        cotangents[slot] = seed

    for slot in range(len(entries) - 1, leaves - 1, -1):
        op, inputs, pullback, _, _, count = entries[slot]
        if count == SINGLE:
            g = cotangents[slot]
            entries[slot] = cotangents[slot] = None
        elif count == LATER:
            continue  # collected when the op's first slot is reached
        else:
            g = _collect(entries, cotangents, slot, -count, xp)
        if g is None:
            continue
        try:
            contributions = pullback(g)
            g = pullback = None
            if type(contributions) is not tuple:
                contributions = (contributions,)
            if len(contributions) != len(inputs):
                _check_count(op, contributions, inputs)
            for source, c in zip(inputs, contributions, strict=False):
                if source == CONSTANT:
                    continue
                if type(c) is FunctionType:
                    c = c()
                if c is None:
                    continue
                total = cotangents[source]
                if type(c) is Part:
                    cotangents[source] = _add_part(total, owned[source], c, entries[source], op, xp)
                    owned[source] = 1
                    continue
                _, _, _, shape, dtype, _ = entries[source]
                try:
                    fits = c.shape == shape and c.dtype is dtype
                except AttributeError:  # not an array: fit raises
                    fits = False
                if not fits:
                    c = fit(c, shape, dtype, op, inputs.index(source))
                if total is None:
                    cotangents[source] = c
                elif owned[source]:
                    total += c
                    cotangents[source] = total  # 0-d results are immutable scalars: rebind
                else:
                    cotangents[source] = total + c
                    owned[source] = 1
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
            raise PullbackError(f"the pullback of {op} failed: {error}") from error
        contributions = c = total = None

    return _gradients(cotangents, owned, entries, leaves, seeds, xp)


def _check_count(op: str, contributions: tuple, inputs: tuple) -> None:
    """Require one cotangent per input; those of omitted optional arguments must be None."""
    surplus = contributions[len(inputs) :]
    if len(contributions) < len(inputs) or any(c is not None for c in surplus):
        raise PullbackError(f"the pullback of {op} returned {len(contributions)} cotangents for {len(inputs)} inputs")


def _add_part(total: Array | None, owned: int, part: Part, entry: Entry, op: str, xp: Namespace) -> Array:
    """Add the cotangent of a slice to that of the whole array, which starts as zeros."""
    if total is None:
        total = xp.zeros(entry[SHAPE], entry[DTYPE])
    elif not owned:
        total = total.copy()
    if not entry[SHAPE]:
        total = xp.asarray(total)  # NumPy adds arrays without axes to immutable scalars
    expected = total[part.key].shape
    if part.cotangent.shape != expected:
        raise PullbackError(
            f"the pullback of {op} returned {describe(part.cotangent)} for the part {part.key} of an input; "
            f"expected shape {expected}"
        )
    total[part.key] += part.cotangent
    return total


def _collect(entries: list, cotangents: list, slot: int, count: int, xp: Namespace) -> tuple | None:
    """The cotangents of an op with several values, with zeros for unused ones; None if all are unused."""
    slots = range(slot, slot + count)
    collected = [cotangents[s] for s in slots]
    used = any(c is not None for c in collected)
    for k, s in enumerate(slots):
        if used and collected[k] is None:
            collected[k] = xp.zeros(entries[s][SHAPE], entries[s][DTYPE])
        entries[s] = cotangents[s] = None
    return tuple(collected) if used else None


def fit(c: Any, shape: tuple[int, ...], dtype: DType, op: str, position: int) -> Array:
    """Undo broadcasting and promotion: return the cotangent in the shape and dtype of its input."""
    given = getattr(c, "shape", None)
    if given is None:
        raise PullbackError(f"the pullback of {op} returned {describe(c)} for input {position}; expected an array")
    if given != shape:
        extra = len(given) - len(shape)
        if extra < 0 or any(n not in (1, m) for n, m in zip(shape, given[extra:], strict=True)):
            raise PullbackError(
                f"the pullback of {op} returned a cotangent of shape {given} for input {position} of "
                f"shape {shape}; expected that shape or one that it broadcasts to"
            )
        stretched = tuple(extra + i for i, n in enumerate(shape) if n == 1)
        c = c.sum(axis=tuple(range(extra)) + stretched).reshape(shape)
    if c.dtype != dtype:
        if c.dtype.kind == "c" and dtype.kind == "f":
            c = c.real
        c = c.astype(dtype)
    return c


def _gradients(
    cotangents: list, owned: bytearray, entries: list, leaves: int, seeds: dict[int, Array], xp: Namespace
) -> list[Array]:
    """The leaves' cotangents, copied where they share memory, so that the caller may write into any of them."""
    handed_out = {id(seed) for seed in seeds.values()}
    gradients = []
    for slot in range(leaves):
        g = cotangents[slot]
        if g is None:
            g = xp.zeros(entries[slot][SHAPE], entries[slot][DTYPE])
        elif not owned[slot] and (g.base is not None or id(g) in handed_out):
            g = g.copy()
        handed_out.add(id(g))
        gradients.append(xp.asarray(g))
    return gradients
