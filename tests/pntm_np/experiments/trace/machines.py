"""Machines to be traced: small ones of every kind that have learnt nothing, and those that are shipped."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import pntm_np as pn
from pntm_np.experiments.trace.record import Trace, record
from pntm_np.models import MODELS, Options
from pntm_np.scans import default_form
from tasks import TASKS

SHIPPED = sorted((Path(__file__).resolve().parents[4] / "results" / "checkpoints").glob("*.safetensors"))
SIZES = {
    "pntm": {"width": 12, "heads": 2, "cell": 6},
    "ntm": {"width": 12, "heads": 2, "cell": 6},
    "lstm": {"width": 5},
    "mingru": {"width": 6, "depth": 2},
} | {name: {"width": 8, "depth": 2, "heads": 2} for name in MODELS if name.startswith("transformer")}
PARITY = TASKS["parity-check"].with_end_token()


def small(name: str, seed: int = 0, loud: float = 3.0) -> pn.Model:
    return untrained(name, seed, loud, **SIZES[name])


def untrained(name: str, seed: int = 0, loud: float = 3.0, **sizes: int) -> pn.Model:
    """Weights that are ``loud`` times those of a beginner: its heads have somewhere to go."""
    model = pn.Model.new(name, PARITY.vocabulary, np.random.default_rng(seed), **sizes)
    model.params = {k: w * np.float32(loud) if "norm" not in k else w for k, w in model.params.items()}
    model.training = {"task": "parity-check", "symbols": "ab01", "max_length": 8, "end_token": True}
    model.training |= {"lengths": [1, 24], "samples": 128}
    return model


def traced(model: pn.Model, text: str = "aababba", cells: int = 13, **options: float) -> Trace:
    return record(model, PARITY, text, cells, Options(default_form("cpu"), **options))


def problem(task_name: str, length: int, seed: int = 5) -> str:
    task = TASKS[task_name]
    return task.decode(task.sample(np.random.default_rng(seed), length, 1)[0][0])
