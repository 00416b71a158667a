"""``pntm trace``"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from pntm_np.commands import signals, stop
from pntm_np.commands.options import backend_option, memory_option, task_option, tau_choice
from pntm_np.commands.output import say
from pntm_np.commands.types import Picture, Place, Threshold
from pntm_np.evaluation import Asked
from tasks import Task

TRACES = (".png", ".svg", ".pdf", ".html", ".json")
OUT = "Write a picture (.png, .svg, .pdf), a page (.html) or all numbers (.json). May be repeated."


@click.command(short_help="Show a model's steps in pictures, on a page or in words.")
@click.argument("checkpoint", metavar="RUN_OR_FILE", type=Place(exists=True))
@click.argument("text")
@click.option("-o", "--out", "outs", type=Picture(TRACES), multiple=True, help=OUT)
@click.option("--explain", "in_words", is_flag=True, help="Describe the steps in a few sentences on stdout.")
@click.option("--compare", type=Place(exists=True), help="Show another model beside the first on an .html page.")
@click.option("--compare-tau", type=Threshold(1), help="Set --tau of the model beside it. [default: --tau]")
@click.option("--compare-gate-tau", type=Threshold(0.5), help="Set its --gate-tau. [default: --gate-tau]")
@task_option
@memory_option
@tau_choice
@backend_option
def trace(checkpoint: Path, text: str, outs: tuple[Path, ...], in_words: bool, task: Task | None, **given: Any) -> None:
    """Run the model on TEXT step by step, and show what it does.

    The page plays the steps: heads move on a tape of memory cells while the answer is written.
    --compare and --compare-tau show two models, or two thresholds of one, side by side.
    """
    from pntm_np.experiments.trace import render

    own = Asked(given["tau"], given["gate_tau"])
    others = Asked(given["compare_tau"], given["compare_gate_tau"])
    compare = given["compare"]
    beside = compare is not None or others != Asked()
    if not outs and not in_words:
        raise click.UsageError("no output was chosen; give -o FILE (page.html, ..) or --explain")
    if beside and not in_words and not any(out.suffix.lower() == ".html" for out in outs):
        raise click.UsageError("--compare and --compare-tau need -o FILE.html or --explain: other files show one trace")
    machines = [(checkpoint, own)]
    if beside:
        asked = (mine if other is None else other for mine, other in zip(own, others, strict=True))
        machines.append((compare or checkpoint, Asked(*asked)))
    with signals:
        kinds = {out.suffix.lower() for out in outs}
        question = render.Question(text, task, given["memory_size"], given["backend"], kinds)
        traced = render.trace(machines, question, say, stop)
        places, contents = [place for place, _ in machines], {}
        for out in outs:
            contents[out] = render.rendered(traced, places, out.suffix.lower(), stop)
        words = render.told(traced, stop) if in_words else []
        render.write(contents, say)  # once all are made: all files are written, or none
        if words:
            click.echo("\n".join(words))
