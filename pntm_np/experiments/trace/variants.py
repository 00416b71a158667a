"""The same machine with one thing changed, to see what that thing does."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from autodiff import array_module, to_host
from pntm_np.experiments.trace.record import READ, WRITE, Head, Trace
from pntm_np.models import Options
from pntm_np.models.checkpoint import Model
from pntm_np.runtime.signals import Stopped

SHARP = 1e6  # times the logits of a shift: the softmax is one-hot for all that are not equal


def changed(model: Model, **edits: np.ndarray) -> Model:
    return model.with_params(model.params | edits)


def rounded(model: Model, options: Options) -> tuple[Model, Options]:
    """With every shift one-hot: its largest strength becomes 1."""
    if model.name == "pntm":
        return model, replace(options, tau=1.0)  # of what is below 1 the largest remains
    names = [f"mixer.{side}.{kind}_s" for side in ("read", "write") for kind in "Wb"]
    return changed(model, **{name: model.params[name] * SHARP for name in names}), options


def without_reads(model: Model, index: int) -> Model:
    """With read head number ``index`` finding zeros only: nothing that is made of its reads counts any more."""
    cell = model.architecture.layer.cell if model.name == "ntm" else model.architecture.mixers[1].cell
    columns = slice(index * cell, (index + 1) * cell)
    if model.name == "pntm":
        W = model.params["blocks.1.mixer.W_o"].copy()
        W[:, columns] = 0
        return changed(model, **{"blocks.1.mixer.W_o": W})
    W_or, W_x = model.params["mixer.W_or"].copy(), model.params["mixer.controller.W_x"].copy()
    W_or[:, columns] = 0
    W_x[:, model.architecture.width :][:, columns] = 0  # the columns of W_x are [x_t ; r_{t-1}]
    return changed(model, **{"mixer.W_or": W_or, "mixer.controller.W_x": W_x})


def effect_of_reads(model: Model, trace: Trace, stop: Callable[[], bool] = lambda: False) -> dict[str, float]:
    """By how much the probability of the tokens it gave falls if a read head finds nothing, a mean over the answer."""
    steps = np.arange(trace.separator, len(trace))
    given = trace.predicted[steps]
    tokens = array_module(model.params["embed.weight"]).asarray(trace.tokens[None])

    def probability(machine: Model) -> np.ndarray:
        if stop():
            raise Stopped
        logits = to_host(machine.forward(tokens, trace.cells, trace.options))[0, steps].astype(np.float64)
        logits -= logits.max(axis=1, keepdims=True)
        return np.exp(logits[np.arange(len(steps)), given]) / np.exp(logits).sum(axis=1)

    whole = probability(model)
    return {
        head.name: float(np.mean(whole - probability(without_reads(model, k)))) for k, head in enumerate(trace.of(READ))
    }


def source_of_reads(model: Model, trace: Trace) -> dict[str, str]:
    """For each read head of a P-NTM the write head in whose share of a cell it finds what changes the output most."""
    if model.name != "pntm":
        return {}  # all write heads of an NTM write to all of a cell
    w = {name: to_host(model.params[f"blocks.1.mixer.{name}"]) for name in ("W_o", "W_m")}
    writers, cell = trace.of(WRITE), len(w["W_m"])
    found = {}
    for k, head in enumerate(trace.of(READ)):
        mixed = w["W_o"][:, k * cell : (k + 1) * cell] @ w["W_m"]  # d, n
        steps = head.vectors[trace.separator :]
        changes = np.square(mixed[None] * (steps - steps.mean(axis=0))[:, None])  # T, d, n
        shares = changes.sum(axis=(0, 1)).reshape(len(writers), -1).sum(axis=1)
        found[head.name] = writers[int(shares.argmax())].name
    return found


def leaves(heads: list[Head], straight: list[Head]) -> dict[str, int]:
    """The step at which a head is first on another cell than in the other trace, of those that ever are."""
    found = {}
    for head, other in zip(heads, straight, strict=True):
        apart = np.flatnonzero(head.path != other.path)
        if len(apart):
            found[head.name] = int(apart[0])
    return found
