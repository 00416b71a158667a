"""``pntm bench`` and ``pntm bench train``"""

from __future__ import annotations

import json
import math
import shlex
import sys
from pathlib import Path
from typing import Any

import click

from pntm_np import protocol
from pntm_np.commands import signals
from pntm_np.commands.options import SEED, backend_option, bench_threads_option, json_option, refuse_options
from pntm_np.commands.output import say, table
from pntm_np.commands.types import Count, Lengths, Names, Picture, Place
from pntm_np.models import MODELS
from pntm_np.runtime import ram
from pntm_np.runtime.signals import Stopped
from pntm_np.runtime.untrusted import Json
from pntm_np.scans import FORMS

BENCHED = ("ntm", "pntm")
MANY = Count(1, 10**6)
LENGTHS = f"{protocol.BENCH_LENGTHS[0]}:{protocol.BENCH_LENGTHS[-1]}"
runs_option = click.option("--runs", type=MANY, default=protocol.BENCH_RUNS, help="Time N runs at each length.")
warmup_option = click.option(
    "--warmup", type=MANY, default=protocol.BENCH_WARMUP, help="Make N runs before those that are timed."
)


@click.group(invoke_without_command=True, short_help="Time NTM and P-NTM as in the paper, or training steps.")
@click.option(
    "--lengths", type=Lengths(), default=LENGTHS, help="Time A, 2A, 4A, .. tokens up to B, or the lengths of a list."
)
@click.option("--models", type=Names("model", BENCHED), default=",".join(BENCHED), help="Time these models.")
@click.option("--forms", type=Names("form", FORMS), help="Time these forms of the scans. [default: all that can run]")
@click.option("--batch", type=MANY, default=protocol.BENCH_BATCH, help="Process N sequences at a time.")
@runs_option
@warmup_option
@click.option("--patience", type=MANY, default=30, help="Skip longer inputs once a run takes over N seconds.")
@click.option("--seed", type=SEED, default=0, help="Draw weights and inputs with this seed.")
@backend_option
@bench_threads_option
@click.option("--out", type=Place(), default="runs/bench.json", help="Save each row to PATH once it is measured.")
@click.option("--resume", is_flag=True, help="Continue the bench in --out; start it if there is none.")
@click.option("--plot", type=Picture(), help="Draw time and speed-up against length as .png, .svg or .pdf.")
@json_option
@click.pass_context
def bench(
    ctx: click.Context, out: Path, resume: bool, plot: Path | None, as_json: bool, forms: tuple | None, **given: Any
) -> None:
    """Time a forward pass of NTM and P-NTM against the sequence length, as the paper does.

    Before timing, the outputs of the forms are compared with one another. Lengths that do not fit
    in memory are skipped. --resume continues an interrupted bench. 'pntm bench train' times
    training steps.
    """
    if ctx.invoked_subcommand:
        refuse_options(ctx)
        return
    from pntm_np.experiments.bench import forward
    from pntm_np.experiments.bench.plot import plot_bench
    from pntm_np.experiments.bench.runner import bench_forward

    given |= {"forms": forms} if forms else {}
    settings = forward.Settings(**given)
    try:
        report = bench_forward(settings, forms, out, resume, signals)
    except Stopped:
        say(f"stopped; continue with: {shlex.join(['pntm', *sys.argv[1:]])}{'' if resume else ' --resume'}")
        raise
    if as_json:
        click.echo(json.dumps(report))
    else:
        print_bench(report)
    if plot:
        plot_bench(report, plot)


def print_bench(report: Json) -> None:
    from pntm_np.experiments.bench.clock import duration
    from pntm_np.experiments.bench.record import crossovers

    rows: list[list] = []
    for row in report["rows"]:
        rows.append([row["length"], row["model"], row["form"]])
        if row.get("skipped"):
            rows[-1] += ["-", "-", "-", "-", "", "-", f"skipped: {row['skipped']}"]
            continue
        speedup, peak = row["speedup_over_ntm"], row["peak_bytes"]
        rows[-1] += [duration(row[name]) for name in ("mean", "std", "best")]
        rows[-1] += ["-", ""] if speedup is None else [f"{speedup:.2f} x", row["ntm_form"]]
        rows[-1] += ["-" if peak is None else ram.size(peak)]
        rows[-1] += ["" if row["agrees"] else f"outputs differ by {row['difference'] or math.inf:.1e}"]
    table(["length", "model", "form", "mean", "deviation", "best", "speed-up", "over NTM", "memory", ""], rows)
    click.echo()
    for line in crossovers(report["rows"]):
        click.echo(line)
    print_conditions(report, "mean of {runs} runs")


def print_conditions(report: Json, what: str) -> None:
    machine, settings = report["machine"], report["settings"]
    click.echo(f"\n{machine['processor']}, {settings['threads']} of {machine['cores']} cores; {machine['device']}")
    click.echo(f"batch {settings['batch']}, {what.format(**settings)} after {settings['warmup']} to warm up")


@bench.command("train", short_help="Time the training step of every model.")
@click.option(
    "--models", type=Names("model", MODELS), default=",".join(MODELS), show_default="all", help="Time these models."
)
@click.option("--forms", type=Names("form", FORMS), help="Time these forms of the scans. [default: the fastest]")
@click.option("--lengths", type=Lengths(), default="41,81,121", help="Time sequences of these numbers of tokens.")
@click.option("--batch", type=MANY, default=protocol.BATCH, help="Train on N sequences per step.")
@click.option("--memory-size", type=Count(1, 10**7), default=protocol.TRAINING_MEMORY, help="Use a memory of N cells.")
@runs_option
@warmup_option
@click.option("--seed", type=SEED, default=0, help="Draw weights and batches with this seed.")
@backend_option
@bench_threads_option
@click.option("--profile", is_flag=True, help="Show how much time each part of a step takes.")
@json_option
def bench_train(profile: bool, as_json: bool, forms: tuple | None, **given: Any) -> None:
    """Time a training step (forward, backward and update) at the paper's sizes on random tokens.

    The floor is the time that the step's dense matrix products alone would take at the speed of a
    large product, which is also measured.
    """
    from pntm_np.experiments.bench.runner import bench_steps
    from pntm_np.experiments.bench.train_step import TrainSettings

    report = bench_steps(TrainSettings(**given, forms=forms or ()), forms, profile, signals)
    if as_json:
        click.echo(json.dumps(report))
    else:
        print_bench_train(report)


def print_bench_train(report: Json) -> None:
    rows = []
    for row in report["rows"]:
        mean, best, floor = (f"{row[name]:,.1f}" for name in ("ms_mean", "ms_best", "floor_ms"))
        last = [f"{row['tokens_per_second']:,.0f}", floor, f"{row['times_floor']:.1f} x"]
        rows.append([row["model"], row["form"] or "", row["length"], mean, best, *last])
    table(["model", "form", "length", "ms", "best", "tokens/s", "floor, ms", "best / floor"], rows)
    for name, parts in report.get("profile", {}).items():
        total = sum(parts.values())
        click.echo(f"\n{name}, {report['settings']['lengths'][-1]} tokens, one thread: {total:,.0f} ms a step")
        for part, ms in parts.items():
            if ms >= 0.005 * total:
                click.echo(f"  {ms:8,.1f} ms  {ms / total:4.0%}  {part}")
    print_conditions(report, "{runs} steps")
