"""Run a benchmark: check what it needs, show its progress, and return its report."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

from pntm_np.experiments.bench import forward, machine, train_step
from pntm_np.experiments.bench.clock import Ahead, Watch
from pntm_np.experiments.bench.record import BenchError, Record
from pntm_np.runtime import ram
from pntm_np.runtime.files import unusable
from pntm_np.runtime.progress import Progress
from pntm_np.runtime.signals import Signals
from pntm_np.runtime.untrusted import Json
from pntm_np.runtime.workers import Workers
from pntm_np.scans.forms import require_fused

COMPILING = "the first run compiles kernels, which takes some seconds"


def bench_forward(settings: forward.Settings, asked: tuple | None, out: Path, resume: bool, signals: Signals) -> Json:
    """Run the paper's experiment, writing each row to ``out`` as it is measured."""
    contestants = settings.contestants()
    _check_forms(asked, settings.backend, contestants)
    least = min(forward.need(form, settings.batch, settings.lengths[0]) for _, form in contestants)
    ram.require(least, f"a batch of {settings.batch:,}", "--batch or --lengths", settings.backend)
    _check_writable(out)
    record = Record(out, settings, machine.describe(settings.backend))
    done = record.open(resume)
    work = [(f"{m} {f}", n) for n in settings.lengths for m, f in contestants if (m, f, n) not in done]
    repeats = settings.runs + settings.warmup
    ahead = Ahead(work, repeats, settings.patience)
    first = f"comparing the outputs of all forms; {COMPILING}"
    with signals, Workers(settings.threads) as workers, Progress("bench", first=first) as shown:
        watch = _watch(ahead, shown, repeats, "run")
        if work:
            forward.check_agreement(settings, workers, lambda: bool(signals.received))
        for row in forward.run(settings, workers, done, watch, lambda: bool(signals.received)):
            record.add(row)
            ahead.finished(f"{row['model']} {row['form']}", row["length"])
            if row.get("skipped"):
                ahead.skip(f"{row['model']} {row['form']}")
    return record.as_json()


def bench_steps(settings: train_step.TrainSettings, asked: tuple | None, profile: bool, signals: Signals) -> Json:
    """Time the training step of every model; with ``profile``, also find where the time goes."""
    _check_forms(asked, settings.backend, settings.contestants())
    for config in settings.contestants():
        need = train_step.need(config, settings.lengths[-1], settings.threads)
        ram.require(need, f"a step of {config.model}", "--batch, --lengths or --memory-size", settings.backend)
    contestants = [(f"{c.model} {train_step.form_of(c)}".strip(), c) for c in settings.contestants()]
    repeats, rows = settings.runs + settings.warmup, []
    ahead = Ahead([(name, n) for n in settings.lengths for name, _ in contestants], repeats)
    with signals, Workers(settings.threads) as workers, Progress("bench train", first=COMPILING) as shown:
        watch = _watch(ahead, shown, repeats, "training step")
        speed = max(train_step.product_speed(workers, settings.backend) for _ in range(3))
        for row in train_step.run(settings, workers, watch, lambda: bool(signals.received)):
            rows.append(row)
            ahead.finished(f"{row['model']} {row['form'] or ''}".strip(), row["length"])
            speed = max(speed, train_step.product_speed(workers, settings.backend))
    rows = train_step.with_floor(rows, speed)
    report = {"machine": machine.describe(settings.backend), "settings": asdict(settings), "rows": rows}
    if profile:
        longest = settings.lengths[-1]
        report["profile"] = {name: train_step.profile(c, longest, settings.runs) for name, c in contestants}
    return report


def _watch(ahead: Ahead, shown: Progress, repeats: int, what: str) -> Watch:
    """Show which run is next and the time that is left."""

    def watch(model: str, form: str, length: int, run: int, last: float | None) -> None:
        name = f"{model} {form}".strip()
        if last is not None:
            ahead.timed(name, length, last)
        shown.update(f"{name}, {length:,} time steps, {what} {run + 1} of {repeats}", ahead.left((name, length), run))

    return watch


def _check_forms(asked: tuple | None, backend: str, contestants: list) -> None:
    """Before timing anything, refuse forms that cannot run here and forms that none of the models has."""
    if asked and "fused" in asked:
        require_fused("--forms fused", backend == "cpu")
    if not contestants:
        raise BenchError(f"--forms {','.join(asked or ())}: none of --models has this form; see 'pntm models'")


def _check_writable(path: Path) -> None:
    """Refuse a path that cannot be written, before minutes of work."""
    if path.is_dir() or unusable(path.parent):
        raise BenchError(f"--out {str(path)!r:.60}: cannot write a file of that name")
