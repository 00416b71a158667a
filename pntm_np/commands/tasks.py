"""``pntm tasks``"""

from __future__ import annotations

import json

import click

from pntm_np.commands.options import SEED, json_option
from pntm_np.commands.output import table
from pntm_np.commands.types import Count, TaskName
from pntm_np.runtime import ram
from tasks import TASKS, Task


@click.command(short_help="List the tasks, or print samples of one.")
@click.argument("task", type=TaskName(), required=False)
@click.option("--length", type=Count(1, 10**6), default=6, help="Length of each input.")
@click.option("--count", type=Count(1, 10**6), default=5, help="Print N samples.")
@click.option("--seed", type=SEED, default=0, help="Draw the samples with this seed.")
@json_option
def tasks(task: Task | None, length: int, count: int, seed: int, as_json: bool) -> None:
    """List the tasks, or print samples of TASK: a name, an unambiguous prefix, or path/to/file.py:Name."""
    from pntm_np.evaluation.answer import facts, samples

    if task is None:
        every = [facts(item) for item in TASKS.values()]
        if as_json:
            click.echo(json.dumps(every))
            return
        table(["task", "symbols", "example"], [[f["name"], f["symbols"], f["example"]] for f in every])
        click.echo("\n'pntm tasks TASK' prints samples of a task as input | answer")
        return
    ram.require(200 * length * count, f"{count:,} samples of length {length:,}", "--length or --count")
    rows = samples(task, length, count, seed)
    if as_json:
        click.echo(json.dumps({**facts(task), "samples": [{"input": x, "answer": y} for x, y in rows]}))
        return
    click.echo(f"{task.name}: {facts(task)['rule']}\n")
    for x, y in rows:
        click.echo(f"{x} | {y}")
