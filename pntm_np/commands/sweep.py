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


@click.group(short_help="Make many runs: tasks x models x seeds, here or on a cluster.", invoke_without_command=True)
@click.option("--grid", "grid_file", type=Place(exists=True), help="Read tasks, variants, seeds, options from TOML.")
@click.option(
    "--preset",
    type=Named("preset", ["paper"]),
    help=f"paper: make runs of {len(TASKS)} tasks x {len(MODELS)} models x {len(SEEDS)} seeds by the paper's settings.",
)
@click.option("--tasks", "chosen", type=TaskNames(), help="Train on these tasks; comma-separated. [default: all six]")
@click.option("--models", "names", type=Names("model", MODELS), help="Train these; comma-separated. [default: pntm]")
@click.option("--seeds", type=Seeds(), help="Use the first N of our ten seeds, or the seeds A,B,.. [default: 1]")
@click.option(
    "--option", "options", type=Setting(), multiple=True, help="Set in every run: steps=1000, sizes={width=64}."
)
@click.option("--out", type=Place(), default="runs/sweep", help="Keep all runs in this directory.")
@click.option("--jobs", type=THREADS, help="Make N runs at a time. [default: cores / threads]")
@click.option("--threads", type=THREADS, default=1, help="Use N threads for each run.")
@click.option("--cluster", "address", metavar="ADDRESS", help="Make the runs on the workers of this Dask scheduler.")
@click.option("--shard", "part", type=Shard(), help="Make only part K of N, for job arrays.")
@click.option("--retries", type=Count(0, 100), default=2, help="Retries without progress before giving up.")
@click.option("--stall", type=Number(), default=900, help="Treat a run as hung after X seconds without output.")
@click.option("--done", type=Place(exists=True), help="Count runs that were collected in PATH as done.")
@click.option("--retry-failed", is_flag=True, help="Retry runs that were given up before.")
@click.option("--dry-run", is_flag=True, help="Only show which runs would be made, and how long they would take.")
@json_option
@click.pass_context
def sweep(ctx: click.Context, out: Path, as_json: bool, **given: Any) -> int:
    """Make many runs, each in a process and a directory of its own; finished runs are never repeated.

    After a stop or a crash, the same command continues the sweep. Without a grid, it continues the
    one in --out. A run that fails is retried, then reported with its cause while the others go on.
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
        raise click.UsageError(f"there is no sweep in {out} yet; give --grid, --preset, --tasks or --models", ctx)
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
            say(f"stopped and saved; continue with: {shlex.join(['pntm', *sys.argv[1:]])}")
            return signals.exit_code
    found = [status.standing(out, run, given["done"]) for run in mine]
    print_sweep(found, as_json)
    missed = [end for end in ends if end.state == "unavailable"]
    if missed:
        say(f"{len(missed)} runs lacked disk space, memory or a device; repeat the command to continue them")
    if any(run.state == "failed" for run in found) or any(end.failed for end in ends):
        return FAILED
    return NOT_AVAILABLE if missed else 0


def asked_for(
    ctx: click.Context, grid_file: Path | None, preset: str | None, chosen: Any, names: Any, seeds: Any, options: Any
) -> list:
    """The runs that the options ask for: those of a file, or of a grid; none without such options."""
    from pntm_np.experiments.sweep import grid

    if grid_file:
        if preset or chosen or names or seeds or options:
            raise click.UsageError(
                "--grid replaces --preset, --tasks, --models, --seeds and --option; leave them out", ctx
            )
        return grid.read_grid(grid_file)
    if not (preset or chosen or names):
        if seeds or options:
            raise click.UsageError("--seeds and --option need --preset, --tasks or --models", ctx)
        return []
    if "model" in dict(options):
        raise click.UsageError("--option model=.. is not allowed; name the models with --models", ctx)
    models = names or (tuple(MODELS) if preset else ("pntm",))
    seeds = seeds or (SEEDS if preset else grid.seeds_of(1))
    common = {"preset": preset or "recipe"} | dict(options)
    return grid.grid(chosen or TASKS.values(), {model: {"model": model} for model in models}, seeds, common)


@sweep.command("status", short_help="Show which runs of a sweep are done, running or failed.")
@click.argument("directory", type=Place(exists=True))
@json_option
def sweep_status(directory: Path, as_json: bool) -> None:
    """Show which runs of the sweep in DIRECTORY are done, running or failed, and why they failed."""
    from pntm_np.experiments.sweep import grid, status

    runs = grid.read_plan(directory)
    if not runs:
        raise click.UsageError(f"{directory} has no sweep; name the --out of one")
    print_sweep([status.standing(directory, run) for run in runs], as_json)


@sweep.command("collect", short_help="Save each finished run as one small file.")
@click.argument("directory", type=Place(exists=True))
@click.option("--out", type=Place(), required=True, help="Write the files to this directory.")
@json_option
def sweep_collect(directory: Path, out: Path, as_json: bool) -> int:
    """Save result, cost and thinned metrics of every finished run in DIRECTORY, one file for each run.

    The files are small enough for a repository; 'pntm report' and 'pntm sweep --done' read them.
    """
    from pntm_np.experiments.sweep.collect import collect

    names, left_out = collect(directory, out)
    if not names and not left_out:
        raise click.UsageError(f"{directory} has no finished run; finish one first")
    for line in left_out:
        say(f"left out: {line}")
    told = {"out": str(out), "runs": names, "left_out": left_out}
    click.echo(json.dumps(told) if as_json else printable(f"{len(names)} runs in {out}"))
    return BAD_FILE if left_out else 0


def print_sweep(found: list, as_json: bool) -> None:
    from pntm_np.experiments.sweep.status import summary

    groups = summary(found)
    if as_json:
        click.echo(json.dumps({"runs": [vars(run) for run in found], "summary": groups}))
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
