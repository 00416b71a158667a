"""Time the training step of every model, and compare it with the time of its matrix products alone."""

from __future__ import annotations

import cProfile
import math
import pstats
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from autodiff import backend
from pntm_np.experiments.bench.clock import Stop, Watch, summary, time_once
from pntm_np.models.footprint import training_need
from pntm_np.protocol import BATCH, BENCH_RUNS, BENCH_WARMUP, TRAINING_MEMORY
from pntm_np.runtime.signals import Stopped
from pntm_np.runtime.untrusted import Json
from pntm_np.runtime.workers import Workers
from pntm_np.scans import default_form
from pntm_np.training.config import Config
from pntm_np.training.learner import Learner, shard_cuts
from pntm_np.training.optimizer import Moments, join
from pntm_np.training.rounding import FIRST, LAST
from pntm_np.training.schedule import Pace
from tasks import TASKS, Batch

FLOOR_WIDTH = 416  # of the square matrix whose product measures the computer's speed: the widest layer of P-NTM
SCANS = ("gated", "conv_shift", "memory")
PARTS = {  # file of a function: its part of a training step
    "autodiff/linalg.py": "products",
    "autodiff/backward.py": "adding up cotangents",
    "heads/fused.py": "heads and memory",
    "gated/fused.py": "gated scan",
    "memory/fused.py": "scans",
    "conv_shift/fused.py": "scans",
    "scans/scan.py": "scans",
    **{f"{scan}/{form}.py": "scans" for scan in SCANS for form in ("sequential", "chunked", "paper")},
    "lstm/sequential.py": "LSTM cell and its products",
    "lstm/fused.py": "LSTM cell and its products",
    "ntm/fused.py": "NTM's products",
    "ntm/kernels.py": "NTM heads and memory",
    "attention/layer.py": "attention",
    "attention/fused.py": "attention",
    "training/optimizer.py": "Adam",
}
ACTIVATIONS = ("layers", "positive", "shift_softmax", "activations_fused")
ELEMENT_BY_ELEMENT = (
    *(f"autodiff/{name}.py" for name in ("compiled", "host", "elementwise", "reduce", "composed")),
    *(f"models/{name}.py" for name in ACTIVATIONS),
)
KERNELS = {"gelu": "GELU", "layer_norm": "norms", "softmax": "softmax"}
KERNELS |= dict.fromkeys(("sigmoid", "positive", "expit"), "gates")


@dataclass(frozen=True)
class TrainSettings:
    models: tuple[str, ...] = ("pntm",)
    forms: tuple[str, ...] = ()  # empty: the fastest one
    lengths: tuple[int, ...] = (41, 81, 121)
    batch: int = BATCH
    memory_size: int = TRAINING_MEMORY
    runs: int = BENCH_RUNS
    warmup: int = BENCH_WARMUP
    backend: str = "cpu"
    threads: int = 1
    seed: int = 0

    def contestants(self) -> list[Config]:
        """Each model in those of the given forms that it has; without any given, in its fastest form."""
        shared: dict[str, Any] = {"batch_size": self.batch, "memory_size": self.memory_size, "seed": self.seed}
        kinds = [(model, form) for model in self.models for form in self.forms or (default_form(self.backend),)]
        shared |= {"backend": self.backend}
        every = [Config.of(TASKS["parity-check"], "paper", model=m, form=f, **shared) for m, f in kinds]
        return [c for c in every if not self.forms or c.form in c.architecture().forms]


def form_of(config: Config) -> str:
    """The form, for models that have several."""
    return config.form if config.form in config.architecture().forms else ""


def product_flops(config: Config, rows: int, length: int) -> int:
    """Flops of a step's dense products: one per matrix and token forward, and two backward."""
    architecture = config.architecture()
    looked_up = architecture.looked_up
    matrices = sum(math.prod(s) for name, s in architecture.shapes().items() if len(s) > 1 and name not in looked_up)
    return 6 * rows * length * (matrices + sum(m.products(architecture.width, length) for m in architecture.mixers))


def product_speed(workers: Workers, device: str, rows: int = 8192) -> float:
    """Flops per second of a large matrix product that is cut into shards like a batch."""
    xp = backend.load(device).xp
    rng = np.random.default_rng(0)
    a = xp.asarray(rng.standard_normal((rows, FLOOR_WIDTH), np.float32))
    b = xp.asarray(rng.standard_normal((FLOOR_WIDTH, FLOOR_WIDTH), np.float32))
    count = workers.threads if device == "cpu" else 1
    parts = [slice(rows * k // count, rows * (k + 1) // count) for k in range(count)]
    out = xp.empty_like(a)

    def product() -> None:
        list(workers.map(lambda part: xp.matmul(a[part], b, out[part]), parts))
        backend.synchronize(device)

    product()
    return 2 * rows * FLOOR_WIDTH**2 / min(time_once(product) for _ in range(10))


class Step:
    """A training step that can be repeated on the same random batch."""

    def __init__(self, config: Config, length: int, workers: Workers) -> None:
        architecture, rng = config.architecture(), np.random.default_rng(config.seed)
        params = join(architecture.init(rng), architecture.shapes(), np)
        self.learner = Learner(config, params, Moments(np.zeros_like(params), np.zeros_like(params)), workers)
        tokens, targets = rng.integers(0, architecture.vocabulary, (2, config.batch_size, length))
        self.batch, self.count, self.device = Batch(tokens, targets, tokens >= 0), 0, config.backend
        rounding = (FIRST, LAST) if config.rounding else None
        self.pace = Pace(config.lr, config.noise, config.blur, config.most_cells(), rounding)

    def __call__(self) -> None:
        self.count += 1
        self.learner.step(self.batch, self.count, self.pace)
        backend.synchronize(self.device)


def need(config: Config, length: int, threads: int) -> int:
    """Memory in bytes of the shards that run at the same time."""
    cuts = shard_cuts(config.batch_size, config.backend)
    together = min(threads, len(cuts) - 1) if config.backend == "cpu" else 1
    rows = cuts[1] - cuts[0]
    one = training_need(config.architecture(), rows, length, config.most_cells(), config.form, config.backend)
    return together * one


def run(settings: TrainSettings, workers: Workers, watch: Watch, stop: Stop) -> Iterator[Json]:
    """Yield row by row."""
    for length in settings.lengths:
        for config in settings.contestants():
            step, form = Step(config, length, workers), form_of(config)
            seconds: list[float] = []
            for k in range(settings.warmup + settings.runs):
                if stop():
                    raise Stopped
                watch(config.model, form, length, k, seconds[-1] if seconds else None)
                seconds.append(time_once(step))
            timing = summary(seconds[settings.warmup :])
            row = {"model": config.model, "form": form or None, "length": length, "batch": settings.batch}
            row |= {f"ms_{name}": 1e3 * getattr(timing, name) for name in ("mean", "std", "best")}
            flops = product_flops(config, settings.batch, length)
            yield row | {"tokens_per_second": settings.batch * length / timing.mean, "flops": flops}


def with_floor(rows: list[Json], speed: float) -> list[Json]:
    """Add what the products alone would take at the best speed that was measured, the same for all rows."""
    floors = [1e3 * row["flops"] / speed for row in rows]
    found = zip(rows, floors, strict=True)
    return [row | {"floor_ms": floor, "times_floor": row["ms_best"] / floor} for row, floor in found]


def profile(config: Config, length: int, runs: int) -> dict[str, float]:
    """Milliseconds of a step by part, the largest first, measured by Python's profiler in one thread."""
    with Workers(1) as workers:
        step = Step(config, length, workers)
        step()
        profiler = cProfile.Profile()
        profiler.enable()
        for _ in range(runs):
            step()
        profiler.disable()
    parts: dict[str, float] = {}
    for (file, _, function), (_, _, own, _, _) in pstats.Stats(profiler).stats.items():  # type: ignore[attr-defined]
        name = part_of(Path(file), function)
        parts[name] = parts.get(name, 0.0) + 1e3 * own / runs
    return dict(sorted(parts.items(), key=lambda item: -item[1]))


def part_of(path: Path, function: str) -> str:
    place = f"{path.parent.name}/{path.name}"
    if place in ELEMENT_BY_ELEMENT:
        return next((part for key, part in KERNELS.items() if key in function), "other element by element")
    return PARTS.get(place, "the rest")
