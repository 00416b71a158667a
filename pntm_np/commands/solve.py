"""``pntm solve``"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import click

from pntm_np.commands import signals, stop
from pntm_np.commands.options import backend_option, json_option, memory_option, task_option, tau_choice
from pntm_np.commands.output import cut_off, say
from pntm_np.commands.types import Count, Place
from pntm_np.evaluation import Asked, Context
from pntm_np.evaluation.answer import answer, symbols_only
from pntm_np.evaluation.trained import TaskNeeded, load_trained, ready, task_of
from pntm_np.models.footprint import decoding_need
from pntm_np.protocol import evaluation_memory
from pntm_np.runtime import ram
from pntm_np.runtime.workers import Workers
from tasks import Task, TaskError


@click.command(short_help="Answer inputs with a trained model.")
@click.argument("checkpoint", metavar="RUN_OR_FILE", type=Place(exists=True))
@click.argument("texts", metavar="[TEXT]...", nargs=-1)
@task_option
@memory_option
@click.option("--answer-length", type=Count(1, 10**6), help="Write N symbols, if the rule of the task is not known.")
@tau_choice
@backend_option
@json_option
def solve(checkpoint: Path, texts: tuple[str, ...], task: Task | None, answer_length: int | None, **given: Any) -> None:
    """Print the model's answer to each TEXT, or to each line of stdin.

    A wrong answer is followed by the right one and by the positions where they differ.
    """
    trained, asked = load_trained(checkpoint), Asked(given["tau"], given["gate_tau"])
    if trained.end_token and answer_length:
        problem = f"{answer_length}; leave it out: this model ends its answers itself, with $"
        raise click.BadParameter(problem, param_hint="--answer-length")
    try:
        task = task_of(trained, task)
    except TaskNeeded as needed:
        if asked.auto:
            raise
        if not trained.end_token and not answer_length:
            raise TaskNeeded(f"{needed}, or give the length of an answer: --answer-length N") from None
        task = symbols_only(trained)
    else:
        if answer_length:
            problem = f"{answer_length}; leave it out: the rule of {task.name} gives the length of an answer"
            raise click.BadParameter(problem, param_hint="--answer-length")
    if not texts:
        if sys.stdin.isatty():
            say(f"type one text per line, of the symbols {' '.join(task.inputs)}; end with Ctrl-D")
        texts = tuple(text for line in sys.stdin if (text := line.rstrip("\r\n")))
    if not texts:
        raise TaskError(f"no text was given; expected symbols of {' '.join(task.inputs)}")
    for text in texts:
        task.check(text)
    cells = given["memory_size"] or evaluation_memory(max(map(len, texts)))
    need = decoding_need(trained.model.architecture, 1, 6 * max(map(len, texts)) + 16 + (answer_length or 0), cells)
    ram.require(need, f"an answer with {cells:,} cells", "--memory-size", given["backend"])
    with signals, Workers(1) as workers:
        model, options = ready(trained, task, asked, given["backend"], Context(workers, stop=stop), say)
        say(f"{trained.model.name}: {cut_off(options.thresholds._asdict())}, memory {cells}")
        answers = answer(model, task, list(texts), cells, options, answer_length, stop)
    if given["as_json"]:
        click.echo(json.dumps([item._asdict() | {"right": item.right} for item in answers]))
        return
    for item in answers:
        click.echo(f"{item.text} -> {item.answer}{'' if item.ended else ' ..'}{item.verdict}")
