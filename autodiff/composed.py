"""Compositions with their own pullbacks, for speed and numerical stability."""

from __future__ import annotations

import math

from autodiff import expect
from autodiff.backend import Array, array_module, kernels, on_host
from autodiff.tape import Pullback, differentiable


@differentiable
def layer_norm(x: Array, scale: Array, bias: Array, *, eps: float = 1e-5) -> tuple[Array, Pullback]:
    """(x - mean) / sqrt(variance + eps) * scale + bias over the last axis."""
    xp = array_module(x, scale, bias)
    if x.ndim == 0 or scale.shape != x.shape[-1:] or bias.shape != x.shape[-1:]:
        raise ValueError("expected scale and bias of the length of x's last axis")
    expect.real(x, scale, bias)
    n, eps = x.shape[-1], expect.number("eps", eps)
    if n == 0:
        raise ValueError("expected at least one element on the last axis")
    if fast := kernels(x, scale, bias):
        return fast.layer_norm(x, scale, bias, eps)
    normal = x - xp.mean(x, axis=-1, keepdims=True)
    inverse = 1 / xp.sqrt(xp.einsum("...i,...i->...", normal, normal)[..., None] / n + eps)
    normal *= inverse
    y = normal * scale
    y += bias

    def pullback(g):
        def to_x():
            d = g * scale
            along = xp.einsum("...i,...i->...", d, normal)[..., None] / n
            d -= xp.mean(d, axis=-1, keepdims=True)
            d -= normal * along
            d *= inverse
            return d

        return to_x, lambda: g * normal, g

    return y, pullback


@differentiable
def softmax_cross_entropy(
    logits: Array, targets: Array, mask: Array | None = None, *, total: float | None = None
) -> tuple[Array, Pullback]:
    """-log softmax(logits)[target], averaged over the positions where the mask is true.

    logits (..., V), targets (...) integers, mask (...) boolean or None for all. The sum is divided by ``total``
    if given (a shard of a batch divides by the whole batch's count), else by the number of unmasked positions;
    if there are none, the loss is 0. Masked positions have no effect. A target outside 0 .. V-1 in any other position
    is an IndexError with NumPy and an infinite loss on a device, where checking would synchronise.
    """
    xp = array_module(logits, targets, mask)
    if logits.ndim == 0 or targets.shape != logits.shape[:-1]:
        raise ValueError("expected targets of the shape of logits without its last axis")
    expect.real(logits)
    if targets.dtype.kind not in "iu":
        raise TypeError("expected integers as targets")
    if mask is None:
        mask = xp.ones(targets.shape, bool)
    if mask.shape != targets.shape or mask.dtype.kind != "b":
        raise ValueError("expected a boolean mask of the shape of targets")
    if total is None:
        count = xp.sum(mask, dtype=logits.dtype)
        total = xp.maximum(count, 1)
    else:
        total = expect.number("total", total)
        if not total > 0:
            raise ValueError(f"total is {total}; expected a positive number")
    mask = mask[..., None]
    chosen = xp.arange(logits.shape[-1]) == targets[..., None]  # one-hot
    if on_host(targets) and not xp.all(chosen.any(axis=-1, keepdims=True) | ~mask):
        raise IndexError(f"a target is out of range; expected 0 to {logits.shape[-1] - 1}")
    shifted = logits - xp.max(logits, axis=-1, keepdims=True)
    exps = xp.exp(shifted)
    norm = xp.sum(exps, axis=-1, keepdims=True)
    nll = xp.log(norm) - xp.max(xp.where(chosen, shifted, -math.inf), axis=-1, keepdims=True)
    loss = xp.sum(xp.where(mask, nll, 0.0)) / total

    def pullback(g):
        c = exps / norm
        c -= chosen
        c *= g / total
        return xp.where(mask, c, 0.0), None, None

    return loss, pullback
