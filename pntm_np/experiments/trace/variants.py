"""Change one thing in a model to see what it does."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from autodiff import array_module, to_host
from pntm_np.experiments.trace.record import READ, WRITE, Head, Trace
from pntm_np.models import Options
from pntm_np.models.checkpoint import Model
from pntm_np.models.layers import Params, part
from pntm_np.models.mixer import Mixer
from pntm_np.runtime.signals import Stopped


def memory_of(model: Model) -> tuple[str, Mixer, Params]:
    """The layer with the memory: the prefix of its parameters' names, its mixer, and its parameters."""
    found = model.architecture.memory
    if found is None:
        raise ValueError(f"{model.name} has no memory")
    return *found, part(model.params, found[0])


def changed(model: Model, name: str, edits: Params) -> Model:
    return model.with_params(model.params | {f"{name}{k}": w for k, w in edits.items()})


def rounded(model: Model, options: Options) -> tuple[Model, Options]:
    """The model with every shift rounded to one-hot."""
    name, layer, w = memory_of(model)
    return changed(model, name, layer.rounded(w)), replace(options, tau=1.0)  # of shifts below 1, the largest remains


def without_reads(model: Model, index: int) -> Model:
    """The model without the reads of head ``index``, which are replaced by zeros."""
    name, layer, w = memory_of(model)
    return changed(model, name, layer.without_reads(w, index))


def effect_of_reads(model: Model, trace: Trace, stop: Callable[[], bool] = lambda: False) -> dict[str, float]:
    """How much the mean probability of the answer's tokens drops without the reads of each head."""
    steps = np.arange(trace.separator, len(trace))
    given = trace.predicted[steps]
    tokens = array_module(model.params["embed.weight"]).asarray(trace.tokens[None])

    def probability(other: Model) -> np.ndarray:
        if stop():
            raise Stopped
        logits = to_host(other.forward(tokens, trace.cells, trace.options))[0, steps].astype(np.float64)
        logits -= logits.max(axis=1, keepdims=True)
        return np.exp(logits[np.arange(len(steps)), given]) / np.exp(logits).sum(axis=1)

    whole = probability(model)
    return {
        head.name: float(np.mean(whole - probability(without_reads(model, k)))) for k, head in enumerate(trace.of(READ))
    }


def source_of_reads(model: Model, trace: Trace) -> dict[str, str]:
    """For each read head of a P-NTM, the write head whose share of the cells changes the output most."""
    _, layer, w = memory_of(model)
    w = {name: to_host(weights) for name, weights in w.items()}
    writers, found = trace.of(WRITE), {}
    for k, head in enumerate(trace.of(READ)):
        mixed = layer.read_mixing(w, k)  # d, n
        if mixed is None or head.vectors is None:
            return {}  # the write heads of an NTM have no shares: each writes whole cells
        steps = head.vectors[trace.separator :]
        changes = np.square(mixed[None] * (steps - steps.mean(axis=0))[:, None])  # T, d, n
        shares = changes.sum(axis=(0, 1)).reshape(len(writers), -1).sum(axis=1)
        found[head.name] = writers[int(shares.argmax())].name
    return found


def leaves(heads: list[Head], straight: list[Head]) -> dict[str, int]:
    """The first step at which a head is on another cell than in the other trace, for each head that ever is."""
    apart = {a.name: np.flatnonzero(a.path != b.path) for a, b in zip(heads, straight, strict=True)}
    return {name: int(steps[0]) for name, steps in apart.items() if len(steps)}
