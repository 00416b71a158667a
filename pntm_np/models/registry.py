"""Every model by its name, at the paper's sizes."""

from __future__ import annotations

import difflib
from collections.abc import Callable
from typing import Any

from pntm_np.models.architecture import Architecture, LSTMModel, NTMModel, Stack
from pntm_np.models.attention import POSITIONS, Attention
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


def build(name: str, vocabulary: int, **sizes: Any) -> Architecture:
    """The model of that name; sizes that are not given are the paper's."""
    if name not in MODELS:
        near = difflib.get_close_matches(name, MODELS, 1, 0.0)
        raise ValueError(f"unknown model {name!r}; did you mean {near[0]!r}? There are {', '.join(MODELS)}")
    return MODELS[name](vocabulary, **sizes)
