"""The models as a list of facts, for people and scripts."""

from __future__ import annotations

from pntm_np.models.bench import BENCH_MODELS
from pntm_np.models.footprint import cache_growth, state_size
from pntm_np.models.registry import MODELS, build
from pntm_np.models.stack import Stack
from pntm_np.protocol import BENCH_MEMORY, TRAINING_MEMORY
from pntm_np.runtime.untrusted import Json

VOCABULARY = 6  # that of parity-check, for which the paper counts parameters


def configuration(model: Stack) -> dict[str, int]:
    """Width, depth, heads and cell, as far as they apply: the columns of the paper's table."""
    config = {"width": model.width} | ({} if model.names else {"depth": len(model.mixers)})
    for mixer in model.mixers:
        config |= mixer.sizes()
    return config


def summaries() -> list[Json]:
    every: dict[str, tuple[Stack, int]] = {name: (build(name, VOCABULARY), TRAINING_MEMORY) for name in MODELS}
    every |= {name: (model, BENCH_MEMORY) for name, model in BENCH_MODELS.items()}
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
