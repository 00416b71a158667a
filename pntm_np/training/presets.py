"""Default options of runs: those that the paper states, or our recipe for the architecture.

A recipe is the same for all tasks. Lengths and memory sizes are computed from the longest training input.
"""

from __future__ import annotations

from typing import Any

from pntm_np.protocol import MARGIN, REACH, evaluation_memory, memory_for

PRESETS = ("recipe", "paper")

BASELINE: dict[str, Any] = {"batch_size": 32, "eval_every": 1_000, "checkpoint_every": 500}
MACHINE: dict[str, Any] = {"steps": 20_000, "lr": 1e-3, "clip": 0.1, "noise": 1.0, "stop_when_solved": True}
MACHINE |= {"eval_every": 100, "checkpoint_every": 200}
OTHERS = BASELINE | {"steps": 20_000, "cool_down": 4_000}  # Transformers, and models that have no recipe of their own
RECIPES: dict[str, dict[str, Any]] = {
    "pntm": MACHINE
    | {
        "batch_size": 64,
        "start": "flax",
        "head_gain": 4.0,
        "warm_up": 200,
        "restart_after": 1_500,
        "cool_down": 1_500,
        "rounding": True,
        "tau": "auto",
    },
    "ntm": MACHINE | {"batch_size": 32, "restart_after": 2_000, "cool_down": 6_000, "blur": 0.1},
    "lstm": BASELINE | {"steps": 40_000, "cool_down": 8_000},
    "mingru": BASELINE | {"steps": 40_000, "cool_down": 8_000},
}


def preset_options(preset: str, model: str, max_length: int) -> dict[str, Any]:
    """The options that a preset sets; the others keep the paper's values."""
    usual, longest = memory_for(max_length), REACH * max_length
    common: dict[str, Any] = {"memory_size": usual, "lengths": (1, longest)}
    if preset == "paper":
        return common
    recipe = common | RECIPES.get(model.partition("-")[0], OTHERS)
    if model == "pntm":  # heads that meet in small memories learn to stay close
        recipe["memory_size"] = (2 * usual // 3, usual)
    if model == "ntm":  # likewise, more gently; and content addressing has to see as many cells as in the evaluation
        recipe["learnt_memory_size"] = (2 * max_length + MARGIN // 2, evaluation_memory(longest))
    return recipe
