"""Finished runs and a bench that were never run: what a report is made of, with numbers that are known."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from pntm_np.evaluation import Evaluation, LengthScore, Settings
from pntm_np.experiments.bench.record import with_speedup
from pntm_np.models import Options
from pntm_np.training.config import Config
from pntm_np.training.run import Run
from tasks import TASKS

FORMS = {("ntm", "fused"): 1e-4, ("ntm", "sequential"): 1e-3, ("pntm", "sequential"): 2e-4, ("pntm", "paper"): 1e-3}
FORMS |= {("pntm", "fused"): 2e-5}


def write_run(
    directory: Path,
    task: str,
    model: str,
    seed: int,
    right: Callable[[int], float],
    preset: str = "recipe",
    **given: Any,
) -> Path:
    """A run whose exact match at a length is ``right(length)``."""
    config = Config.of(TASKS[task], preset, model=model, seed=seed, form="chunked", **given)
    first, last = config.lengths
    rows = [LengthScore(n, config.samples, right(n), right(n), 0.0) for n in range(first, last + 1)]
    run = Run(directory / f"{task}-{model}-{preset}-{seed}")
    run.directory.mkdir(parents=True)
    run.write_config(config)
    for step in range(1, 1001):
        run.append("metrics.jsonl", {"step": step, "loss": 1 / step, "length": 3, "gradient_norm": 1.0})
        if step % 250 == 0:
            run.append("metrics.jsonl", {"step": step, "exact_match": 0.5, "judged_loss": 0.1, "by_length": {}})
    spent = {"training_seconds": 60.0, "training_cpu_seconds": 90.0, "threads": 2, "pntm": "0.2.0", "commit": "abc"}
    run.append("timing.jsonl", spent)
    settings = Settings(max_length=config.max_length, options=Options(tau=0.01))
    run.write_result(
        Evaluation(task, model, config.end_token, settings, rows).as_json()
        | {"parameters": 1, "seed": seed, "preset": preset, "step": 1000, "restarts": 0, "stopped_by": "solved"}
        | {"evaluation_seed": 0, "learnt_at": 500, "solved_at": 500, "config": config.as_json()}
    )
    return run.directory


def fails_after(last: int) -> Callable[[int], float]:
    return lambda length: float(length <= last)


def write_runs(directory: Path) -> None:
    """P-NTM twice for every task, in both ways; one run of some others."""
    for k, task in enumerate(TASKS):
        for seed in (1, 2):
            write_run(directory, task, "pntm", seed, fails_after(120))
            write_run(directory, task, "pntm", seed, fails_after(120 if seed == 1 else 80), "paper", steps=3000)
        write_run(directory, task, "lstm", 1, fails_after(44 + k))
        write_run(directory, task, "transformer-nope", 1, fails_after(48))
        write_run(directory, task, "transformer-rope", 1, fails_after(41))


def bench() -> dict[str, Any]:
    rows = []
    for length in (2**k for k in range(3, 17)):
        for (model, form), per_step in FORMS.items():
            tried = form != "paper" or length <= 2048
            mean = per_step * length if tried else None
            row = {"model": model, "form": form, "length": length, "mean": mean, "std": mean and mean / 20}
            row |= {"best": mean, "runs": 10, "agrees": form != "paper" or length < 100, "difference": 0.0}
            rows.append(row | {"peak_bytes": 1000 * length if tried else None})
    settings = {"batch": 8, "runs": 10, "warmup": 3, "threads": 2, "backend": "cpu"}
    return {"machine": {"processor": "made up"}, "settings": settings, "rows": with_speedup(rows)}


def write_all(directory: Path) -> None:
    write_runs(directory / "runs")
    (directory / "bench.json").write_text(json.dumps(bench()))
    row = {"length": 1000, "samples": 128, "exact_match": 0.5, "token_accuracy": 0.75}
    found = {"task": "reverse-string", "model": "pntm", "exact_match": 0.5, "token_accuracy": 0.75, "tau": 0.1}
    found |= {"gate_tau": 0.01, "memory_size": 2016, "seed": 7, "by_length": [row]}
    (directory / "far.json").write_text(json.dumps(found))


def mean_to(last: int) -> float:
    """The score of a run that is exact up to that length."""
    return float(np.mean([n <= last for n in range(41, 121)]))
