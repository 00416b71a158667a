"""The paper's efficiency experiment: a forward pass of NTM and of P-NTM, with random weights, against the length.

One head pair over 512 cells of 16 numbers, width 128, batch 8. A batch is cut into shards, one for each thread. All
forms but the paper's go through time in segments with carried state, so that what they need beside inputs and outputs
does not grow; the paper's form needs the whole sequence at once.
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
SEGMENT = 512  # steps; a shard's arrays stay in the cache
SAMPLE = 256  # steps whose outputs are compared
AGREE = 1e-3  # of the largest output; forms differ by rounding, 1e-6, but for the paper's epsilon, which grows with T
STATES = 8  # copies of the memory and addresses that a step makes, at the most; measured
CHECKED, ROWS = 256, 8  # the longest length, and the most sequences, of the comparison before anything is timed


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
    patience: float = 30.0  # seconds of one run; a form that takes longer is not tried at greater lengths
    seed: int = 0

    def contestants(self) -> list[tuple[str, str]]:
        """(model, form), the reference of each model first."""
        found = []
        for model in self.models:
            usable = usable_forms(BENCH_MODELS[f"bench-{model}"].forms, self.backend)
            wanted = sorted((f for f in usable if f in self.forms), key=lambda f: f != self.reference(model))
            found += [(model, form) for form in wanted]
        return found

    def reference(self, model: str) -> str:
        """The form that the others are compared with at every length, timed or not: the fastest exact one."""
        fastest = default_form(self.backend)
        return fastest if fastest in BENCH_MODELS[f"bench-{model}"].forms else "sequential"


class Disagreement(PntmError, RuntimeError):
    """Two forms do not give the same outputs: nothing is timed."""

    exit_code = FAILED


def need(form: str, batch: int, length: int) -> int:
    """Bytes at the peak: input and output, and what the form makes; the paper's factor is a measured peak."""
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
        """y (B, T, d) of x (B, T, d), in shards of the batch, each through time in segments."""
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
    """What a bench reads, or the first ``most`` sequences of it."""
    rng = np.random.default_rng([settings.seed, length])
    x = rng.standard_normal((min(settings.batch, most or settings.batch), length, BENCH_WIDTH), np.float32)
    return ad.to_device(x, settings.backend)


def sampled(y: Array) -> np.ndarray:
    """The first steps, the last ones, and some between."""
    steps = np.unique(np.linspace(0, y.shape[1] - 1, SAMPLE).astype(int))
    return ad.to_host(y[:, steps])


def deviation(found: np.ndarray, expected: np.ndarray) -> float:
    """Relative to the largest output; infinite if something is not finite."""
    apart = float(np.abs(found - expected).max())
    return apart / max(float(np.abs(expected).max()), 1e-30) if math.isfinite(apart) else math.inf


def check_agreement(settings: Settings, workers: Workers, stop: Stop = lambda: False) -> None:
    """All forms of a model give the outputs of the loop; also compiles what is to be compiled."""
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
                    f"{model}: form {form} is {apart:.1e} away from the loop on the bench input of length {length}"
                )


def run(
    settings: Settings, workers: Workers, done: dict[tuple[str, str, int], Json], watch: Watch, stop: Stop
) -> Iterator[Json]:
    """Rows one by one. ``done`` are rows of an earlier run."""
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
            if model not in reference:  # also if it is not timed, or was timed before an interruption
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
