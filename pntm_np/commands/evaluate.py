"""``pntm eval``"""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import click

from pntm_np import protocol
from pntm_np.commands.interrupt import signals, stop
from pntm_np.commands.options import SEED, backend_option, json_option, task_option, tau_choice, threads_option
from pntm_np.commands.output import bands_table, cut_off, say, score_line
from pntm_np.commands.types import Cells, Count, LengthRange, Picture, Place
from pntm_np.runtime.workers import Workers


@click.command("eval", short_help="Exact match of a trained machine, by length.")
@click.argument("checkpoint", metavar="RUN_OR_FILE", type=Place(exists=True))
@task_option
@click.option(
    "--lengths", type=LengthRange(), help=f"Every length from A to B. [default: as its run, 1:{protocol.LONGEST}]"
)
@click.option("--samples", type=Count(1, 10**6), help=f"Of each length. [default: as its run, {protocol.SAMPLES}]")
@click.option(
    "--memory-size",
    type=Cells(1, 10**7),
    help=f"Cells; ample: no head can go round. "
    f"[default: {protocol.EVALUATION_MEMORY}, for longer inputs 2 x length + {protocol.MARGIN}]",
)
@tau_choice
@click.option("--seed", type=SEED, default=protocol.EVALUATION_SEED, show_default=True, help="Of the evaluation set.")
@backend_option
@threads_option
@click.option("--plot", type=Picture(), help="Draw accuracy against length: .png, .svg or .pdf.")
@json_option
def evaluate(
    checkpoint: Path,
    task: Any,
    lengths: tuple[int, int] | None,
    samples: int | None,
    memory_size: int | str | None,
    tau: float | str | None,
    gate_tau: float | str | None,
    seed: int,
    backend: str,
    threads: int,
    plot: Path | None,
    as_json: bool,
) -> None:
    """Evaluate the machine in a run's directory or a checkpoint as the paper does.

    It answers SAMPLES random inputs of every length by greedy decoding; an answer counts if it is
    right to its last symbol. The score is the mean over the lengths that are longer than those of
    training. The inputs depend on --seed alone; without options this is the evaluation of its run.
    """
    from pntm_np.evaluation.command import Evaluating, thresholds
    from pntm_np.evaluation.plot import plot_evaluation
    from pntm_np.evaluation.score import ample_cells, ample_memory, require_memory, tokens_of
    from pntm_np.evaluation.trained import load_trained, task_of

    trained = load_trained(checkpoint)
    task = task_of(trained, task)
    lengths, samples = lengths or trained.lengths, samples or trained.samples
    ample = memory_size == "ample"
    cells = ample_cells(tokens_of(task, lengths[1])) if ample else memory_size or protocol.evaluation_memory(lengths[1])
    architecture, lower = trained.model.architecture, "--lengths or --memory-size"
    require_memory(architecture, task, lengths, samples, cells, backend, threads, lower)
    if ample:  # now exactly, for the answers of some tasks are longer than others
        cells = ample_memory(task, range(lengths[0], lengths[1] + 1), samples, seed)
        require_memory(architecture, task, lengths, samples, cells, backend, threads, lower)
    began = time.perf_counter()
    with signals, Workers(threads) as workers:
        evaluating = Evaluating(trained, task, backend, workers, stop)
        options = thresholds(evaluating, tau, gate_tau, say)
        found = evaluating.run(lengths, samples, seed, cells, options)
    report = {
        "task": task.name,
        "model": trained.model.name,
        "trained_to_length": trained.max_length,
        "end_token": trained.end_token,
        "tau": options.tau,
        "gate_tau": options.gate_tau,
        "memory_size": cells,
        "seed": seed,
        "samples": samples,
        **found.as_json(trained.max_length),
    }
    if as_json:
        click.echo(json.dumps(report))
    else:
        print_evaluation(report, found, trained.max_length)
    say(f"{len(found.by_length) * samples:,} answers in {time.perf_counter() - began:.1f} s")
    if plot:
        told = " with end token" if trained.end_token else ""
        title = f"{trained.model.name} on {task.name}{told}, trained on lengths up to {trained.max_length}"
        plot_evaluation(found, plot, title, trained.max_length)


def print_evaluation(report: dict[str, Any], found: Any, max_length: int) -> None:
    settings = f"{cut_off(report)}, memory {report['memory_size']}, seed {report['seed']}"
    told = " with end token" if report["end_token"] else ""
    click.echo(f"{report['model']} on {report['task']}{told}: {settings}\n")
    bands_table(found, max_length)
    score_line(report)
