"""Differentiate a function: ``value_and_grad`` for a loss, ``vjp`` for anything else."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from autodiff import backend, tree
from autodiff.backend import Array
from autodiff.backward import fit, sweep
from autodiff.tape import CONSTANT, Tape, TapeError, Tensor, describe, stop_gradient


def vjp(function: Callable[..., Any], *args: Any) -> tuple[Any, Callable[[Any], tuple[Any, ...]]]:
    """``function(*args)`` and its pullback, the function from the value's cotangent to those of ``args``.

    ``args`` are arrays; integer ones are constants, whose cotangents are None. The value is one array or a tuple of
    arrays. The pullback can be called only once, since it frees what it uses.
    """
    if any(type(x) is Tensor for x in args):
        raise TapeError("vjp: an argument is a Tensor of another tape; nested differentiation is not supported")
    device = backend.common_owner(args)
    tape, xp = Tape(device), device.xp
    tracked = [i for i, x in enumerate(args) if getattr(x, "dtype", np.dtype(int)).kind in "fc"]
    inputs = list(args)
    for i in tracked:
        inputs[i] = tape.leaf(args[i])
    output = function(*inputs)
    outputs = output if type(output) is tuple else (output,)
    slots = [_slot_of(y, tape, "vjp") for y in outputs]
    value = stop_gradient(output)

    def pullback(cotangent: Any) -> tuple[Any, ...]:
        if tape.ended:
            raise TapeError("vjp: this pullback has already run; call vjp again for another cotangent")
        given = cotangent if type(output) is tuple else (cotangent,)
        if type(given) is not tuple or len(given) != len(outputs):
            raise ValueError(f"vjp: expected a tuple of {len(outputs)} cotangents, one for each value")
        seeds: dict[int, Array] = {}
        for k, (slot, y, g) in enumerate(zip(slots, outputs, given, strict=True)):
            y = stop_gradient(y)
            _check_cotangent(k, y, g)
            if slot != CONSTANT:
                g = fit(g, y.shape, y.dtype, "vjp", k)
                seeds[slot] = seeds[slot] + g if slot in seeds else g
        with np.errstate(all="ignore"):
            gradients = iter(sweep(tape, seeds, len(tracked), xp))
        return tuple(next(gradients) if i in tracked else None for i in range(len(args)))

    return value, pullback


def value_and_grad(loss: Callable[..., Any], has_aux: bool = False) -> Callable[..., tuple[Any, Any]]:
    """The function that returns ``loss(params, ...)`` and its gradient with respect to ``params``.

    ``params`` is a float array or a nested dict of them; the gradient has the same structure, shapes
    and dtypes, and the caller may write into its arrays. With ``has_aux`` the loss returns
    ``(value, aux)`` and so does the result: ``(value, aux), gradient``, with plain arrays in ``aux``.
    """

    @functools.wraps(loss)
    def with_gradient(params: Any, *args: Any, **kwargs: Any) -> tuple[Any, Any]:
        plain: list[Array] = []

        def place(name: str, leaf: Any) -> int:
            _check_parameter(name, leaf)
            plain.append(leaf)
            return len(plain) - 1

        # a tree of the leaves' numbers, so that the gradient's dicts stay as they are whatever the loss does to its own
        structure = tree.map_named_leaves(place, params, "params")
        device = backend.common_owner(plain)
        tape, xp, leaves = Tape(device), device.xp, len(plain)
        tensors = [tape.leaf(leaf) for leaf in plain]
        tracked = tree.map_named_leaves(lambda name, k: tensors[k], structure, "params")
        value, aux = loss(tracked, *args, **kwargs), None
        if has_aux:
            if type(value) is not tuple or len(value) != 2:
                raise TypeError("value_and_grad: with has_aux the loss must return (value, aux)")
            value, aux = value
        slot = _slot_of(value, tape, "value_and_grad")
        value, aux = stop_gradient(value), stop_gradient(aux)
        if value.shape != () or value.dtype.kind != "f":
            raise ValueError(
                f"value_and_grad: the loss is {describe(value)}; expected a real scalar: reduce it with sum or mean"
            )
        if value.base is not None or 0 <= slot < leaves:
            value = value.copy()  # not a view of a parameter, which the caller is about to change
        seeds = {} if slot == CONSTANT else {slot: xp.ones((), value.dtype)}
        with np.errstate(all="ignore"):  # infinite slopes at the edge of a domain are valid results
            gradients = sweep(tape, seeds, leaves, xp)
        gradient = tree.map_named_leaves(lambda name, place: gradients[place], structure, "params")
        return ((value, aux) if has_aux else value), gradient

    return with_gradient


def _check_cotangent(k: int, y: Array, g: Any) -> None:
    if type(g) is Tensor or getattr(g, "shape", None) != y.shape:
        raise ValueError(f"vjp: the cotangent of value {k} is {describe(g)}; expected an array of shape {y.shape}")
    if g.dtype.kind not in ("fc" if y.dtype.kind == "c" else "f"):
        raise TypeError(f"vjp: the cotangent of value {k} is {describe(g)}; expected one that fits {y.dtype}")
    backend.array_module(y, g)


def _slot_of(y: Any, tape: Tape, caller: str) -> int:
    """The slot of ``y`` on ``tape``; CONSTANT for a plain array, which depends on nothing there."""
    if type(y) is Tensor:
        if y.tape is not tape:
            raise TapeError(f"{caller}: the function returned a Tensor of another tape")
        return y.slot
    if getattr(y, "shape", None) is None:
        raise TypeError(f"{caller}: the function returned {describe(y)}; expected an array")
    return CONSTANT


def _check_parameter(name: str, leaf: Any) -> None:
    if type(leaf) is Tensor:
        raise TapeError(f"{name} is a Tensor of another tape; nested differentiation is not supported")
    dtype = getattr(leaf, "dtype", None)
    if dtype not in (np.float32, np.float64):
        raise TypeError(f"{name} is {describe(leaf)}; expected a float32 or float64 array")
    backend.owner(leaf)
