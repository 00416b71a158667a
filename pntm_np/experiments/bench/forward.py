"""The paper's efficiency experiment: time a forward pass of NTM and P-NTM with random weights against the length.

The models have one pair of heads, 512 cells of 16 numbers and width 128. A batch of 8 is cut into shards, one for each
thread. All forms except the paper's process a sequence in segments and carry the state over, so that only inputs and
outputs grow with the length; the paper's form needs the whole sequence at once.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

import autodiff as ad
from autodiff import Array, backend
from pntm_np.experiments.bench.clock import Stop, Watch, summary, time_once
from pntm_np.experiments.bench.machine import PeakMemory
from pntm_np.models import BENCH_MODELS, Options
from pntm_np.models.footprint import BYTES
from pntm_np.protocol import BENCH_BATCH, BENCH_CELL, BENCH_LENGTHS, BENCH_MEMORY, BENCH_RUNS, BENCH_WARMUP, BENCH_WIDTH
from pntm_np.runtime import ram
from pntm_np.runtime.errors import FAILED, PntmError
from pntm_np.runtime.signals import Stopped
from pntm_np.runtime.untrusted import Json
from pntm_np.runtime.workers import Workers
from pntm_np.scans import default_form, usable_forms

MODELS = ("ntm", "pntm")
SEGMENT = 512  # time steps; a shard's arrays stay in the cache
SAMPLE = 256  # time steps whose outputs are compared
AGREE = 1e-3  # of the largest output; forms differ by 1e-6, and the paper's more, by its epsilon that grows with T
STATES = 8  # most copies of memory and addresses that a time step makes; measured
CHECKED, ROWS = 256, 8  # largest length and batch of the comparison that precedes the timing


@dataclass(frozen=True)
class Settings:
    models: tuple[str, ...] = MODELS
    forms: tuple[str, ...] = ("sequential", "paper", "chunked", "fused")
    lengths: tuple[int, ...] = BENCH_LENGTHS
    batch: int = BENCH_BATCH
    runs: int = BENCH_RUNS
    warmup: int = BENCH_WARMUP
    backend: str = "cpu"
    threads: int = 1
    patience: float = 30.0  # seconds; a form with a longer run is not tried at greater lengths
    seed: int = 0

    def contestants(self) -> list[tuple[str, str]]:
        """Pairs (model, form), with the reference of each model first."""
        found = []
        for model in self.models:
            usable = usable_forms(BENCH_MODELS[f"bench-{model}"].forms, self.backend)
            wanted = sorted((f for f in usable if f in self.forms), key=lambda f: f != self.reference(model))
            found += [(model, form) for form in wanted]
        return found

    def reference(self, model: str) -> str:
        """The form whose outputs the others are compared with, even if it is not timed: the fastest exact one."""
        fastest = default_form(self.backend)
        return fastest if fastest in BENCH_MODELS[f"bench-{model}"].forms else "sequential"


class Disagreement(PntmError, RuntimeError):
    """Two forms have different outputs, so nothing is timed."""

    exit_code = FAILED


def need(form: str, batch: int, length: int) -> int:
    """Estimated peak memory in bytes: inputs, outputs, and what the form allocates (measured for the paper's)."""
    ends, memory = 2 * batch * length * BENCH_WIDTH, batch * BENCH_MEMORY
    work = batch * min(length, SEGMENT) * 40 * BENCH_WIDTH if form != "paper" else memory * length * 6 * BENCH_CELL
    states = STATES * memory * (BENCH_CELL + 2)
    return int(BYTES * (ends + work + states))


class Contestant:
    def __init__(self, model: str, form: str, settings: Settings, workers: Workers) -> None:
        self.model, self.form = BENCH_MODELS[f"bench-{model}"], form
        self.settings, self.workers = settings, workers
        params = self.model.init(np.random.default_rng(settings.seed))
        self.params = {name: ad.to_device(w, settings.backend) for name, w in params.items()}
        self.xp = backend.load(settings.backend).xp

    def run(self, x: Array, y: Array, stop: Stop = lambda: False) -> None:
        """Write the outputs for x (B, T, d) into y (B, T, d), shard by shard, each in segments of time."""
        count = min(self.settings.threads, len(x)) if self.settings.backend == "cpu" else 1
        cuts = [len(x) * k // count for k in range(count + 1)]
        list(self.workers.map(lambda rows: self._shard(x[rows], y[rows], stop), map(slice, cuts[:-1], cuts[1:])))
        backend.synchronize(self.settings.backend)

    def _shard(self, x: Array, y: Array, stop: Stop) -> None:
        length = x.shape[1]
        segment = length if self.form == "paper" else SEGMENT
        state, options = self.model.initial_state(len(x), BENCH_MEMORY, xp=self.xp), Options(form=self.form)
        for t in range(0, length, segment):
            if stop():
                raise Stopped
            now = (slice(None), slice(t, t + segment))
            y[now], state = self.model.run(self.params, x[now], state, options)


def inputs(settings: Settings, length: int, most: int | None = None) -> Array:
    """The inputs of the benchmark, or their first ``most`` sequences."""
    rng = np.random.default_rng([settings.seed, length])
    x = rng.standard_normal((min(settings.batch, most or settings.batch), length, BENCH_WIDTH), np.float32)
    return ad.to_device(x, settings.backend)


def sampled(y: Array) -> np.ndarray:
    """The outputs at time steps spread evenly from the first to the last."""
    steps = np.unique(np.linspace(0, y.shape[1] - 1, SAMPLE).astype(int))
    return ad.to_host(y[:, steps])


def deviation(found: np.ndarray, expected: np.ndarray) -> float:
    """The largest difference relative to the largest output; infinite if anything is not finite."""
    apart = float(np.abs(found - expected).max())
    return apart / max(float(np.abs(expected).max()), 1e-30) if math.isfinite(apart) else math.inf


def check_agreement(settings: Settings, workers: Workers, stop: Stop = lambda: False) -> None:
    """Raise unless all forms of a model have the outputs of the loop; this also compiles the kernels."""
    length = max((n for n in settings.lengths if n <= CHECKED), default=CHECKED)
    x = inputs(settings, length, ROWS)
    for model, group in itertools.groupby(settings.contestants(), key=lambda c: c[0]):
        outputs = {}
        for form in dict.fromkeys(["sequential", *(form for _, form in group)]):
            y = backend.load(settings.backend).xp.empty_like(x)
            Contestant(model, form, settings, workers).run(x, y, stop)
            outputs[form] = sampled(y)
        for form, found in outputs.items():
            if (apart := deviation(found, outputs["sequential"])) > AGREE:
                raise Disagreement(
                    f"{model}: outputs of form {form} are {apart:.1e} away from the loop's on inputs of length {length}"
                )


def run(
    settings: Settings, workers: Workers, done: dict[tuple[str, str, int], Json], watch: Watch, stop: Stop
) -> Iterator[Json]:
    """Yield row by row; ``done`` has the rows of an earlier run."""
    too_slow = {(r["model"], r["form"]): r for r in done.values() if r["mean"] and r["mean"] > settings.patience}
    for length in settings.lengths:
        reference: dict[str, np.ndarray] = {}
        for model, form in settings.contestants():
            if (row := done.get((model, form, length))) is not None:
                yield row
                continue
            row = {"model": model, "form": form, "length": length}
            empty = dict.fromkeys(("mean", "std", "best", "peak_bytes", "difference", "agrees")) | {"runs": 0}
            wanted, free = need(form, settings.batch, length), ram.available(settings.backend)
            if free is not None and wanted * ram.SPARE > free:
                skipped = f"needs about {ram.size(wanted)}, and {ram.size(free)} are free"
                yield row | empty | {"skipped": skipped, "need_bytes": wanted}
                continue
            if slow := too_slow.get((model, form)):
                took = f"a run of length {slow['length']:,} took {slow['mean']:.0f} s"
                yield row | empty | {"skipped": f"{took}, more than --patience"}
                continue
            contestant = Contestant(model, form, settings, workers)
            seconds: list[float] = []
            with PeakMemory() as peak:
                x = inputs(settings, length)
                y = contestant.xp.empty_like(x)
                for k in range(settings.warmup + settings.runs):
                    watch(model, form, length, k, seconds[-1] if seconds else None)
                    seconds.append(time_once(functools.partial(contestant.run, x, y, stop)))
                outputs = sampled(y)
            if model not in reference:  # even if the reference is not timed, or was timed before an interruption
                if form != settings.reference(model):
                    Contestant(model, settings.reference(model), settings, workers).run(x, y, stop)
                reference[model] = sampled(y)
            apart = deviation(outputs, reference[model])
            timing = summary(seconds[settings.warmup :])
            row |= timing._asdict() | {"peak_bytes": peak.bytes if settings.backend == "cpu" else None}
            shown = apart if math.isfinite(apart) else None  # JSON has no infinity
            row |= {"difference": shown, "agrees": apart <= AGREE}
            if timing.mean > settings.patience:
                too_slow[model, form] = row
            yield row
            del x, y
