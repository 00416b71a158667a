"""Which heads of a P-NTM need a blurred address: exact match with the shifts of one head, or of all, made one-hot.

    python benchmarks/one_hot_heads.py results/checkpoints/*-pntm.safetensors

On 1,024 inputs of lengths of training, without thresholds, every token predicted from the right ones before it.
"""

from __future__ import annotations

import sys
from pathlib import Path

from pntm_np.checkpoint import Model
from pntm_np.evaluation.score import evaluation_memory
from pntm_np.evaluation.thresholds import fit, samples
from pntm_np.evaluation.trained import load_trained, task_of
from pntm_np.models import Options
from pntm_np.scans import default_form
from pntm_np.trace.variants import SHARP, changed
from pntm_np.workers import Workers, cores

SHIFTS = ("blocks.1.mixer.W_r", "blocks.1.mixer.W_w")


def one_hot(model: Model, names: tuple[str, ...], heads: int | slice) -> Model:
    """The machine with these heads moving by a whole cell or not at all."""
    edits = {name: model.params[name].copy() for name in names}
    for weights in edits.values():
        weights[heads] *= SHARP
    return changed(model, **edits)


def main(paths: list[str]) -> None:
    if not paths:
        sys.exit("name the checkpoints of P-NTM machines")
    print(f"{'exact match with one-hot shifts of':34}  none   all    each read head              each write head")
    with Workers(cores()) as workers:
        for path in paths:
            trained = load_trained(Path(path))
            model = trained.model
            if model.name != "pntm":
                sys.exit(f"{path}: it is no P-NTM")
            shares = list(samples(task_of(trained, None), trained.max_length, trained.end_token))

            def exact(machine: Model) -> str:
                options = Options(default_form("cpu"))
                return (
                    f"{fit(machine, shares, evaluation_memory(trained.max_length), options, workers).exact_match:.3f}"
                )

            row = [exact(model), exact(one_hot(model, SHIFTS, slice(None)))]
            for name in SHIFTS:
                heads = range(len(model.params[name]))
                row.append(" ".join(exact(one_hot(model, (name,), head)) for head in heads))
            print(f"{Path(path).stem:34}  {'  '.join(row)}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
