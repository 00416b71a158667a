"""Every model by its name, at the paper's sizes."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable
from typing import Any

from pntm_np.models.architecture import Architecture, LSTMModel, NTMModel, Stack
from pntm_np.models.attention.layer import POSITIONS, Attention
from pntm_np.models.mingru import MinGRU
from pntm_np.models.pntm import PNTM


def _pntm(vocabulary: int, width: int = 104, heads: int = 4, cell: int = 32, expansion: int = 2) -> Stack:
    return Stack(vocabulary, width, (MinGRU(expansion), PNTM(heads, cell)))


def _mingru(vocabulary: int, width: int = 64, depth: int = 5, expansion: int = 2) -> Stack:
    return Stack(vocabulary, width, (MinGRU(expansion),) * depth)


def _transformer(positions: str) -> Callable[..., Stack]:
    def build(vocabulary: int, width: int = 64, depth: int = 5, heads: int = 8) -> Stack:
        return Stack(vocabulary, width, (Attention(heads, positions),) * depth)

    return build


MODELS: dict[str, Callable[..., Architecture]] = {
    "pntm": _pntm,
    "ntm": NTMModel,
    "lstm": LSTMModel,
    "mingru": _mingru,
    **{f"transformer-{p}": _transformer(p) for p in POSITIONS},
}


LARGEST = {"vocabulary": 1 << 20, "depth": 1 << 10}  # a checkpoint that asks for more is not believed
LARGEST_SIZE = 1 << 16


def check_size(name: str, value: Any) -> int:
    """A size as a plain integer, if it is one."""
    limit = LARGEST.get(name, LARGEST_SIZE)
    if isinstance(value, bool) or not hasattr(value, "__index__") or not 1 <= int(value) <= limit:
        raise ValueError(f"{name} is {value!r:.60}; expected an integer from 1 to {limit:,}")
    return int(value)


def build(name: str, vocabulary: int, **sizes: int) -> Architecture:
    """The model of that name; sizes that are not given are the paper's."""
    if name not in MODELS:
        near = difflib.get_close_matches(str(name)[:60].lower(), MODELS, 1, 0.0)
        raise ValueError(f"unknown model {name!r:.60}; did you mean {near[0]!r}? There are {', '.join(MODELS)}")
    make = MODELS[name]
    known = [p for p in inspect.signature(make).parameters if p != "vocabulary"]
    for size in sizes:
        if size not in known:
            raise ValueError(f"{name} has no size {size!r:.60}; expected {', '.join(known)}")
    return make(check_size("vocabulary", vocabulary), **{k: check_size(k, v) for k, v in sizes.items()})
