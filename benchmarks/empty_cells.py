"""Count the cells that no head of an NTM has written, and measure what is in them and how much heads read there.

    python benchmarks/empty_cells.py results/checkpoints/reverse-string-ntm.safetensors

Inputs have the longest training length, and the model reads the right answers. A cell counts as empty as long as no
write head has had 1 % of its address on it. An NTM's memory starts with 1e-6 in every number.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from pntm_np.evaluation.score import problems
from pntm_np.evaluation.trained import load_trained
from pntm_np.models import Options
from tasks import TASKS

SAMPLES, SEED = 32, 5
TOUCHED = 0.01


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", nargs="+", type=Path)
    parser.add_argument("--cells", nargs="+", type=int, default=[96, 256])
    asked = parser.parse_args()
    print("task                cells  right  empty  their norm: median  largest  read there: input  answer")
    for path in asked.models:
        trained = load_trained(path)
        task = TASKS[trained.task].with_end_token() if trained.end_token else TASKS[trained.task]
        for cells in asked.cells:
            print(f"{task.name:19} {cells:5}", *measure(trained.model, task, trained.max_length, cells))


def measure(model, task, length: int, cells: int) -> list[str]:
    given = problems(task, length, SAMPLES, SEED)
    steps = min(len(p.prompt) + len(p.answer) for p in given)
    tokens = np.array([np.concatenate([p.prompt, p.answer])[:steps] for p in given])
    asking = len(given[0].prompt)  # time steps up to the separator
    state, touched = model.initial_state(SAMPLES, cells), np.zeros((SAMPLES, cells))
    right, read_there = np.ones(SAMPLES, bool), []
    for t in range(steps - 1):
        state, logits = model.step(state, tokens[:, t], Options())
        touched = np.maximum(touched, state[0].write_address.max(axis=1))
        empty = touched < TOUCHED
        share = (state[0].read_address * empty[:, None]).sum(axis=-1).mean(axis=0)
        read_there.append(share.max())  # of the head that reads there most
        if t >= asking - 1:
            right &= logits.argmax(axis=1) == tokens[:, t + 1]
    norms = np.linalg.norm(state[0].memory, axis=-1)[empty] if empty.any() else np.zeros(1)
    shares = (np.mean(read_there[: asking - 1]), np.mean(read_there[asking - 1 :]))
    return [
        f"{right.mean():6.2f} {empty.sum(axis=1).mean():6.0f}",
        f"{np.median(norms):19.1e} {norms.max():8.1e}",
        f"{shares[0]:18.2f} {shares[1]:7.2f}",
    ]


if __name__ == "__main__":
    main()
