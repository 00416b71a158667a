"""``pntm eval``"""

from __future__ import annotations

import json
import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import click

from pntm_np import protocol
from pntm_np.commands import signals, stop
from pntm_np.commands.options import SEED, backend_option, json_option, task_option, tau_choice, threads_option
from pntm_np.commands.output import bands_table, cut_off, say, score_line
from pntm_np.commands.types import Cells, Count, LengthRange, Picture, Place
from pntm_np.evaluation import Asked, Context, Evaluation, Settings, score
from pntm_np.evaluation.trained import load_trained, ready, task_of
from pntm_np.runtime.progress import Progress
from pntm_np.runtime.workers import Workers


@click.command("eval", short_help="Evaluate a trained model by input length.")
@click.argument("checkpoint", metavar="RUN_OR_FILE", type=Place(exists=True))
@task_option
@click.option("--lengths", type=LengthRange(), help="Evaluate every length from A to B. [default: as in its run]")
@click.option("--samples", type=Count(1, 10**6), help="Evaluate N inputs of each length. [default: as in its run]")
@click.option(
    "--memory-size",
    type=Cells(1, 10**7),
    help=f"Use N cells; ample: so many that no head goes round. {protocol.EVALUATION_MEMORY_DEFAULT}",
)
@tau_choice
@click.option("--seed", type=SEED, default=protocol.EVALUATION_SEED, help="Draw the inputs with this seed.")
@backend_option
@threads_option
@click.option("--plot", type=Picture(), help="Draw accuracy against length as .png, .svg or .pdf.")
@json_option
def evaluate(checkpoint: Path, task: Any, lengths: Any, samples: Any, memory_size: Any, **given: Any) -> None:
    """Evaluate the model in a run directory or a checkpoint as the paper does.

    The model answers random inputs of every length by greedy decoding; an answer counts if every
    symbol is right. The score is the mean exact match on lengths beyond the training lengths. The
    inputs depend on --seed alone. Without options, this repeats the evaluation at the end of the run.
    """
    trained = load_trained(checkpoint)
    task = task_of(trained, task)
    (first, last), samples = lengths or trained.lengths, samples or trained.samples
    backend, threads, ample = given["backend"], given["threads"], memory_size == "ample"
    if ample:
        memory_size = score.ample_cells(score.tokens_of(task, last))
    cells, every = memory_size or protocol.evaluation_memory(last), range(first, last + 1)
    settings = Settings(every, samples, given["seed"], cells, max_length=trained.max_length, device=backend)
    lower = "--lengths or --memory-size"
    require = partial(score.require_memory, trained.model.architecture, task, threads=threads, lower=lower)
    require(settings)
    if ample:  # now from the samples themselves: tokens_of estimates long inputs
        settings = replace(settings, memory_size=score.ample_memory(task, settings))
        require(settings)
    began = time.perf_counter()
    with signals, Workers(threads) as workers:
        context = Context(workers, stop=stop)
        model, options = ready(trained, task, Asked(given["tau"], given["gate_tau"]), backend, context, say)
        with Progress("length", len(every)) as shown:
            found = score.evaluate(model, task, replace(settings, options=options), context.on(shown))
    if given["as_json"]:
        click.echo(json.dumps(found.as_json()))
    else:
        print_evaluation(found)
    say(f"{len(found.by_length) * samples:,} answers in {time.perf_counter() - began:.1f} s")
    if given["plot"]:
        found.plot(given["plot"])


def print_evaluation(found: Evaluation) -> None:
    report = found.as_json()
    click.echo(f"{found.title}: {cut_off(report)}, memory {report['memory_size']}, seed {report['seed']}\n")
    bands_table(found.by_length, found.settings.max_length)
    score_line(report)
