"""The paper's numbers in one place: sizes of models, training, evaluation, and timing.

Commands, help texts, presets and the report use them. A comment marks numbers that the paper does not give.
"""

from __future__ import annotations

import numpy as np

# models
SIZES = {
    "pntm": {"width": 104, "heads": 4, "cell": 32, "expansion": 2},
    "ntm": {"width": 104, "heads": 4, "cell": 32},
    "lstm": {"width": 192},
    "mingru": {"width": 64, "depth": 5, "expansion": 2},
    "transformer": {"width": 64, "depth": 5, "heads": 8},  # with every positional encoding
}

# training
STEPS = 500_000
BATCH = 128
LEARNING_RATE = 5e-4
BETA_1, BETA_2, ADAM_EPSILON = 0.9, 0.999, 1e-8  # Adam's usual values
QUIET, PATIENCE = 1e-8, 500  # early stop: the gradient's infinity norm stays below QUIET for PATIENCE steps
MAX_LENGTH = 40  # symbols of the longest training input
SEEDS = tuple(int(s) for s in np.random.SeedSequence(0).generate_state(10))  # the paper has ten, but does not list them
EVAL_EVERY, CHECKPOINT_EVERY = 5_000, 1_000  # steps; ours

# evaluation
REACH = 3  # the longest test input as a multiple of the longest training input
LONGEST = REACH * MAX_LENGTH
SAMPLES = 128  # inputs of each length
TAU = 0.01  # shifts below it are set to 0
EVALUATION_SEED = 0  # ours

# memory
MARGIN = 16


def memory_for(longest: int) -> int:
    """Cells for inputs of up to ``longest`` symbols: no head comes round to where it began."""
    return 2 * longest + MARGIN


TRAINING_MEMORY, EVALUATION_MEMORY = memory_for(MAX_LENGTH), memory_for(LONGEST)
EVALUATION_MEMORY_DEFAULT = f"[default: {EVALUATION_MEMORY}; for longer inputs 2 x length + {MARGIN}]"  # in help texts


def evaluation_memory(longest: int) -> int:
    """Cells in the paper's evaluation, or, by the same rule, for longer inputs."""
    return max(EVALUATION_MEMORY, memory_for(longest))


# efficiency
BENCH_WIDTH, BENCH_MEMORY, BENCH_CELL = 128, 512, 16  # with one read and one write head
BENCH_LENGTHS = tuple(2**k for k in range(3, 17))
BENCH_BATCH, BENCH_RUNS, BENCH_WARMUP = 8, 10, 3
