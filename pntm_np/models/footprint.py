"""Estimates of how much RAM a model needs in training and in decoding, made before anything is allocated."""

from __future__ import annotations

from autodiff.tree import map_leaves
from pntm_np.models.mixer import Load
from pntm_np.models.stack import Stack

BYTES = 4  # float32
STATES = 4  # copies of a sequence's state in a training step


def state_size(model: Stack, memory_size: int) -> int:
    """How many numbers the state of one sequence has before the first token."""
    sizes: list[int] = []
    map_leaves(lambda x: sizes.append(x.size), model.initial_state(1, memory_size))
    return sum(sizes)


def state_numbers(model: Stack, cells: int) -> int:
    """``state_size`` without a state of that size: every cell adds the same amount."""
    one, two = state_size(model, 1), state_size(model, 2)
    return one + (cells - 1) * (two - one)


def cache_growth(model: Stack) -> int:
    """How many numbers each token adds to the state: a Transformer's keys and values."""
    return sum(m.growth(model.width) for m in model.mixers)


def training_need(model: Stack, rows: int, steps: int, cells: int, form: str, device: str = "cpu") -> int:
    """Bytes at the peak of one shard's forward and backward pass; factors are fitted to peaks that tracemalloc saw."""
    load = Load(rows, steps, cells, form, device)
    per_step = sum(m.training_numbers(model.width, load) for m in model.mixers)
    states = STATES * state_numbers(model, cells)
    return int(BYTES * (rows * (steps * per_step + states) + 3 * model.parameter_count()))


def decoding_need(model: Stack, rows: int, steps: int, cells: int) -> int:
    """Bytes at the peak of decoding ``rows`` sequences together: states and temporaries, fitted in the same way."""
    copies = max(m.decoding_copies for m in model.mixers)
    per_row = copies * state_numbers(model, cells) + 2.2 * steps * cache_growth(model) + 14 * model.width
    return int(BYTES * rows * per_row)
