"""The models as a list of facts, for people and scripts."""

from __future__ import annotations

from typing import Any

import numpy as np

from autodiff.tree import map_leaves
from pntm_np.models.architecture import TRAINING_MEMORY, Architecture, Stack
from pntm_np.models.attention.layer import Attention
from pntm_np.models.bench import BENCH_MODELS, CELLS
from pntm_np.models.registry import MODELS, build

VOCABULARY = 6  # of parity-check, for which the paper's counts hold


def state_size(model: Any, memory_size: int) -> int:
    """Numbers of state per sequence before the first token."""
    sizes: list[int] = []
    map_leaves(lambda x: sizes.append(x.size), model.initial_state(1, memory_size))
    return int(np.sum(sizes, dtype=int))


def cache_growth(model: Any) -> int:
    """Numbers that every further token adds to the state: a Transformer's keys and values."""
    return sum(2 * model.width for m in getattr(model, "mixers", ()) if isinstance(m, Attention))


def configuration(model: Any) -> dict[str, int]:
    """Width, depth, heads, cell: the columns of the paper's table, where they apply."""
    config = {"width": model.width}
    parts = (
        model.mixers if isinstance(model, Stack) else [layer for _, layer in getattr(model, "layers", ())] or [model]
    )
    if isinstance(model, Stack):
        config["depth"] = len(model.mixers)
    for item in parts:
        config |= {k: getattr(item, k) for k in ("heads", "cell", "expansion") if hasattr(item, k)}
    return config


def summaries() -> list[dict[str, Any]]:
    every: dict[str, tuple[Architecture | Any, int]] = {n: (build(n, VOCABULARY), TRAINING_MEMORY) for n in MODELS}
    every |= {name: (model, CELLS) for name, model in BENCH_MODELS.items()}
    return [
        {
            "name": name,
            "parameters": model.parameter_count(),
            "config": configuration(model),
            "forms": list(model.forms),
            "state": state_size(model, memory),
            "state_per_token": cache_growth(model),
            "memory_size": memory,
        }
        for name, (model, memory) in every.items()
    ]
