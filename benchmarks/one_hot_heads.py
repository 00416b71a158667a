"""Which heads of a machine need a blurred address: exact match with the shifts of one head made one-hot.

    python benchmarks/one_hot_heads.py results/checkpoints/*-pntm*.safetensors

On 1,024 inputs of lengths of training. A machine that loses nothing moves its heads cell by cell.
"""

from __future__ import annotations

import sys
from pathlib import Path

from pntm_np.checkpoint import Model
from pntm_np.evaluation.score import evaluation_memory
from pntm_np.evaluation.thresholds import fit
from pntm_np.evaluation.trained import load_trained, task_of
from pntm_np.models import Options
from pntm_np.scans import default_form
from pntm_np.trace.variants import SHARP, changed
from pntm_np.workers import Workers, cores

LAYER = "blocks.1.mixer"


def one_hot(model: Model, name: str, head: int | None) -> Model:
    """The machine with one head, or all heads of a kind, that moves by a whole cell or not at all."""
    weights = model.params[name].copy()
    weights[slice(None) if head is None else head] *= SHARP
    return changed(model, **{name: weights})


def main(paths: list[str]) -> None:
    print(f"{'exact match with one-hot shifts of':40} none   read heads                 write heads")
    with Workers(cores()) as workers:
        for path in paths:
            trained = load_trained(Path(path))
            task = task_of(trained, None)

            def exact(model: Model) -> str:
                cells = evaluation_memory(trained.max_length)
                args = (cells, Options(default_form("cpu")), workers, trained.end_token, lambda: False)
                return f"{fit(model, task, trained.max_length, *args).exact_match:.3f}"

            row = [exact(trained.model)]
            for name in (f"{LAYER}.W_r", f"{LAYER}.W_w"):
                heads = range(len(trained.model.params[name]))
                row.append("  ".join(exact(one_hot(trained.model, name, head)) for head in heads))
            print(f"{Path(path).stem:40} {'  '.join(row)}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
