"""``pntm sweep``, ``pntm sweep status`` and ``pntm sweep collect``"""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path
from typing import Any

import click

from pntm_np.commands import signals, stop
from pntm_np.commands.options import THREADS, json_option, refuse_options
from pntm_np.commands.output import say, table
from pntm_np.commands.types import Count, Named, Names, Number, Place, Seeds, Setting, Shard, TaskNames
from pntm_np.evaluation.report import share
from pntm_np.models import MODELS
from pntm_np.protocol import SEEDS
from pntm_np.runtime.errors import BAD_FILE, FAILED, NOT_AVAILABLE
from pntm_np.runtime.untrusted import printable
from pntm_np.runtime.workers import cores
from tasks import TASKS

GRID_OPTIONS = ("grid_file", "preset", "chosen", "names", "seeds", "options")


@click.group(
    cls=click.Group, short_help="Many runs: tasks x models x seeds, here or on a cluster.", invoke_without_command=True
)
@click.option("--grid", "grid_file", type=Place(exists=True), help="A TOML file with tasks, variants, seeds, options.")
@click.option(
    "--preset",
    type=Named("preset", ["paper"]),
    help=f"paper: {len(TASKS)} tasks x {len(MODELS)} models x {len(SEEDS)} seeds.",
)
@click.option("--tasks", "chosen", type=TaskNames(), help="With commas between them. [default: all six]")
@click.option("--models", "names", type=Names("model", list(MODELS)), help="Likewise. [default: pntm]")
@click.option("--seeds", type=Seeds(), help="How many of the paper's ten, or A,B,.. [default: 1]")
@click.option("--option", "options", type=Setting(), multiple=True, help="Of every run: steps=1000, sizes={width=64}.")
@click.option("--out", type=Place(), default="runs/sweep", show_default=True, help="The directory of all runs.")
@click.option("--jobs", type=THREADS, help="Runs at a time. [default: cores / threads]")
@click.option("--threads", type=THREADS, default=1, show_default=True, help="Of one run.")
@click.option("--cluster", "address", metavar="ADDRESS", help="A Dask scheduler: its workers do the runs.")
@click.option("--shard", "part", type=Shard(), help="Only part K of N, for job arrays.")
@click.option("--retries", type=Count(0, 100), default=2, show_default=True, help="Of a run that breaks at one place.")
@click.option("--stall", type=Number(), default=900, show_default=True, help="Seconds after which a silent run hangs.")
@click.option("--done", type=Place(exists=True), help="Runs that have been collected there count as done.")
@click.option("--retry-failed", is_flag=True, help="Try again what was given up before.")
@click.option("--dry-run", is_flag=True, help="Only show what would be done, and how long it would take.")
@json_option
@click.pass_context
def sweep(ctx: click.Context, out: Path, as_json: bool, **given: Any) -> int:
    """Make many runs, each in a process and a directory of its own. What is finished is never done again.

    Stopped or killed, the same command goes on. Without a grid, the one in --out is continued. A run
    that breaks is tried again, then reported with its cause while the others go on.
    """
    if ctx.invoked_subcommand:
        refuse_options(ctx)
        return 0
    from pntm_np.experiments.sweep import cluster, coordinator, grid, status
    from pntm_np.experiments.sweep.supervise import Care

    if not 1 <= given["stall"] <= 1e9:
        problem = f"{given['stall']:g}; expected seconds from 1 to 1e9"
        raise click.BadParameter(problem, ctx, param_hint="--stall")
    runs = grid.extend_plan(out, asked_for(ctx, **{k: given[k] for k in GRID_OPTIONS}))
    if not runs:
        raise click.UsageError(f"nothing is planned in {out} yet; give --grid, --preset, --tasks or --models", ctx)
    mine = grid.shard(runs, *given["part"]) if given["part"] else runs
    todo = coordinator.left(out, mine, given["retry_failed"], given["done"])
    coordinator.require_tasks(todo)
    jobs = given["jobs"] or max(1, cores() // given["threads"])
    if not given["address"]:
        coordinator.require_fit(todo, given["threads"])
    if given["dry_run"]:
        print_forecast(mine, todo, jobs, given["threads"], as_json)
        return 0
    client = cluster.connect(given["address"]) if given["address"] else None
    grid.write_plan(out, runs)
    coordinator.forget_failures(out, todo)
    say(f"{len(mine)} runs in {out}, {len(todo)} to do")
    care = Care(given["threads"], given["retries"], given["stall"])
    with signals:
        ends = coordinator.sweep(out, mine, todo, jobs, care, client, given["done"], stop)
        if signals.received:
            say(f"stopped and saved; go on with: {shlex.join(['pntm', *sys.argv[1:]])}")
            return signals.exit_code
    found = [status.standing(out, run, given["done"]) for run in mine]
    print_sweep(found, as_json)
    missed = [end for end in ends if end.state == "unavailable"]
    if missed:
        say(f"{len(missed)} runs found no room, memory or device; the same command takes them up again")
    if any(run.state == "failed" for run in found) or any(end.failed for end in ends):
        return FAILED
    return NOT_AVAILABLE if missed else 0


def asked_for(
    ctx: click.Context, grid_file: Path | None, preset: str | None, chosen: Any, names: Any, seeds: Any, options: Any
) -> list:
    """The runs that the flags name: a file's, or a grid's; none if there are no such flags."""
    from pntm_np.experiments.sweep import grid

    if grid_file:
        if preset or chosen or names or seeds or options:
            raise click.UsageError("--grid has tasks, variants, seeds and options of its own", ctx)
        return grid.read_grid(grid_file)
    if not (preset or chosen or names):
        if seeds or options:
            raise click.UsageError("--seeds and --option belong to --preset, --tasks or --models", ctx)
        return []
    if "model" in dict(options):
        raise click.UsageError("--option model=..: the models are named by --models", ctx)
    models = names or (tuple(MODELS) if preset else ("pntm",))
    seeds = seeds or (SEEDS if preset else grid.seeds_of(1))
    common = {"preset": preset or "recipe"} | dict(options)
    return grid.grid(chosen or TASKS.values(), {model: {"model": model} for model in models}, seeds, common)


@sweep.command("status", short_help="Where the runs of a sweep stand.")
@click.argument("directory", type=Place(exists=True))
@json_option
def sweep_status(directory: Path, as_json: bool) -> None:
    """Show where the runs of the sweep in DIRECTORY stand: done, running, failed and why."""
    from pntm_np.experiments.sweep import grid, status

    runs = grid.read_plan(directory)
    if not runs:
        raise click.UsageError(f"{directory}: there is no sweep here")
    print_sweep([status.standing(directory, run) for run in runs], as_json)


@sweep.command("collect", short_help="Keep finished runs, each in one small file.")
@click.argument("directory", type=Place(exists=True))
@click.option("--out", type=Place(), required=True, help="Where to put them.")
@json_option
def sweep_collect(directory: Path, out: Path, as_json: bool) -> int:
    """Keep result, cost and thinned metrics of every run in DIRECTORY that has ended, each in one file.

    What is left is small enough for a repository, and enough for pntm report and for pntm sweep --done.
    """
    from pntm_np.experiments.sweep.collect import collect

    names, left_out = collect(directory, out)
    if not names and not left_out:
        raise click.UsageError(f"{directory}: there is no run in it that has ended")
    for line in left_out:
        say(f"left out: {line}")
    told = {"out": str(out), "runs": names, "left_out": left_out}
    click.echo(json.dumps(told) if as_json else printable(f"{len(names)} runs in {out}"))
    return BAD_FILE if left_out else 0


def print_sweep(found: list, as_json: bool) -> None:
    from pntm_np.experiments.sweep.status import summary

    groups = summary(found)
    if as_json:
        click.echo(json.dumps({"runs": [run.as_json() for run in found], "summary": groups}))
        return
    rows = [
        [g["task"], g["variant"], g["runs"], g["done"], g["running"], g["failed"], g["perfect"]]
        + ["-" if g[key] is None else share(g[key], 4) for key in ("best", "mean")]
        for g in groups
    ]
    table(["task", "variant", "runs", "done", "running", "failed", "perfect", "best", "mean"], rows)
    for run in found:
        if run.state == "failed":
            click.echo(printable(f"{run.name}: {run.cause}"))


def print_forecast(runs: list, todo: list, jobs: int, threads: int, as_json: bool) -> None:
    from pntm_np.experiments.sweep.forecast import Forecast
    from pntm_np.runtime.progress import Progress, clock_time

    rows: dict[tuple[str, str], list[float]] = {}
    with Progress("forecast", len(todo) or 1) as shown:
        forecast = Forecast(threads, shown.note)
        for run in todo:
            rows.setdefault((run.task, run.variant), []).append(forecast.seconds(run))
            shown.advance(run.name)
    every = [seconds for times in rows.values() for seconds in times]
    total = max([sum(every) / jobs, *every])
    if as_json:
        by_group = [
            {"task": task, "variant": name, "runs": len(s), "seconds_each": s[0]} for (task, name), s in rows.items()
        ]
        click.echo(json.dumps({"runs": len(runs), "to_do": len(todo), "seconds": total, "by_group": by_group}))
        return
    shown_rows = [[task, name, len(s), clock_time(s[0])] for (task, name), s in rows.items()]
    table(["task", "variant", "runs", "at most, each"], shown_rows)
    click.echo(
        f"\n{len(todo)} of {len(runs)} runs to do, {jobs} at a time: at most {clock_time(total)} on this machine"
    )
