"""Every model by name, with the paper's sizes as defaults."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable
from typing import SupportsIndex

from pntm_np.models.architecture import Architecture
from pntm_np.models.attention.layer import POSITIONS, Attention
from pntm_np.models.lstm.layer import LSTM
from pntm_np.models.mingru import MinGRU
from pntm_np.models.mixer import Mixer
from pntm_np.models.ntm.layer import NTM
from pntm_np.models.pntm import PNTM
from pntm_np.protocol import SIZES


def _blocks(vocabulary: int, width: int, *mixers: Mixer) -> Architecture:
    return Architecture(width, mixers, vocabulary=vocabulary)


def _alone(vocabulary: int, width: int, mixer: Mixer) -> Architecture:
    """One mixer between the embedding and the decoder, without residual blocks."""
    return Architecture(width, (mixer,), ("mixer",), vocabulary)


def _pntm(vocabulary: int, width: int, heads: int, cell: int, expansion: int) -> Architecture:
    return _blocks(vocabulary, width, MinGRU(expansion), PNTM(heads, cell))


def _ntm(vocabulary: int, width: int, heads: int, cell: int) -> Architecture:
    return _alone(vocabulary, width, NTM(heads, cell, width))


def _lstm(vocabulary: int, width: int) -> Architecture:
    return _alone(vocabulary, width, LSTM())


def _mingru(vocabulary: int, width: int, depth: int, expansion: int) -> Architecture:
    return _blocks(vocabulary, width, *[MinGRU(expansion)] * depth)


def _transformer(positions: str) -> Callable[..., Architecture]:
    def build(vocabulary: int, width: int, depth: int, heads: int) -> Architecture:
        return _blocks(vocabulary, width, *[Attention(heads, positions)] * depth)

    return build


MODELS: dict[str, Callable[..., Architecture]] = {
    "pntm": _pntm,
    "ntm": _ntm,
    "lstm": _lstm,
    "mingru": _mingru,
    **{f"transformer-{p}": _transformer(p) for p in POSITIONS},
}
LARGEST = {"vocabulary": 1 << 20, "depth": 1 << 10}  # a checkpoint that asks for more is refused
LARGEST_SIZE = 1 << 16


def check_size(name: str, value: SupportsIndex) -> int:
    """Return a size as a plain integer; refuse what is not an integer, or too large."""
    limit = LARGEST.get(name, LARGEST_SIZE)
    if isinstance(value, bool) or not hasattr(value, "__index__") or not 1 <= int(value) <= limit:
        raise ValueError(f"{name} is {value!r:.60}; expected an integer from 1 to {limit:,}")
    return int(value)


def build(name: str, vocabulary: int, **sizes: int) -> Architecture:
    """The model of that name; sizes default to the paper's."""
    if name not in MODELS:
        near = difflib.get_close_matches(str(name)[:60].lower(), MODELS, 1, 0.0)
        raise ValueError(f"unknown model {name!r:.60}; did you mean {near[0]!r}? There are {', '.join(MODELS)}")
    made = inspect.signature(MODELS[name]).parameters.values()
    defaults = {p.name: p.default for p in made if p.default is not p.empty}  # of a model that is not the paper's
    known = SIZES.get(name.partition("-")[0], defaults)
    for size in sizes:
        if size not in known:
            raise ValueError(f"{name} has no size {size!r:.60}; expected {', '.join(known)}")
    checked = {k: check_size(k, v) for k, v in (known | sizes).items()}
    return MODELS[name](check_size("vocabulary", vocabulary), **checked)
