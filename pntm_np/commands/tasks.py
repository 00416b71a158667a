"""``pntm tasks``"""

from __future__ import annotations

import json

import click

from pntm_np.commands.options import SEED, json_option
from pntm_np.commands.output import table
from pntm_np.commands.types import Count, TaskName
from pntm_np.runtime import ram
from tasks import TASKS, Task


@click.command(short_help="The tasks, and samples of them.")
@click.argument("task", type=TaskName(), required=False)
@click.option("--length", type=Count(1, 10**6), default=6, show_default=True, help="Of the inputs.")
@click.option("--count", type=Count(1, 10**6), default=5, show_default=True, help="How many samples.")
@click.option("--seed", type=SEED, default=0, show_default=True, help="Of the samples.")
@json_option
def tasks(task: Task | None, length: int, count: int, seed: int, as_json: bool) -> None:
    """List the tasks, or print samples of TASK: a name, the beginning of one, or file.py:Name."""
    from pntm_np.evaluation.answer import facts, samples

    if task is None:
        every = [facts(item) for item in TASKS.values()]
        if as_json:
            click.echo(json.dumps(every))
            return
        table(["task", "symbols", "example"], [[f["name"], f["symbols"], f["example"]] for f in every])
        click.echo("\na sample is  input | answer ;  pntm tasks TASK prints some")
        return
    ram.require(200 * length * count, f"{count:,} samples of length {length:,}", "--length or --count")
    rows = samples(task, length, count, seed)
    if as_json:
        click.echo(json.dumps({**facts(task), "samples": [{"input": x, "answer": y} for x, y in rows]}))
        return
    click.echo(f"{task.name}: {facts(task)['rule']}\n")
    for x, y in rows:
        click.echo(f"{x} | {y}")
