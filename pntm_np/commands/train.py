"""``pntm train``"""

from __future__ import annotations

import json
import shlex
from functools import partial
from pathlib import Path
from typing import Any

import click

from pntm_np import protocol
from pntm_np.commands import signals, stop
from pntm_np.commands.options import MANY, SEED, THREADS, THREADS_HELP, GroupedCommand, under
from pntm_np.commands.output import bands_table, cut_off, say, score_line, typed_value
from pntm_np.commands.rare_options import RARE, Rare
from pntm_np.commands.types import CellRange, Device, LengthRange, Named, Number, Place, Size, TaskName, Threshold
from pntm_np.evaluation import Context
from pntm_np.models import MODELS
from pntm_np.runtime.untrusted import Json, printable
from pntm_np.runtime.workers import Workers, cores
from pntm_np.scans import FORMS
from pntm_np.training import PRESETS, Config, Run
from tasks import TASKS, Task

basic, optimisation, sharpening, evaluation, running = (
    partial(under, group) for group in ("Basics", "Optimisation", "Sharpening", "Evaluation at the end", "Running")
)
PRESET_HELP = "recipe: use our settings, the same for all tasks; paper: use every setting that the paper states."
CELLS_HELP = f"Train with N cells; A:B draws N for every step. [paper: 2 x max-length + {protocol.MARGIN}]"
NOISE_HELP = "Add normal noise of deviation X to the logits of shifts and gates in half of every batch. [paper: 0]"
ROUNDING_HELP = "Round shifts and gates in the other half once most answers are right. [paper: no]"
TAU_HELP = f"Set shifts below X to 0; auto: as in training, or chosen on the training lengths. [paper: {protocol.TAU}]"
FORM_HELP = "Compute the scans in this form: sequential, paper, chunked or fused. [default: the fastest]"


@click.command(cls=GroupedCommand, short_help="Train a model, or resume a run.")
@click.argument("task", type=TaskName(), required=False)
@basic("--model", type=Named("model", MODELS), default="pntm", help="Train MODEL; see 'pntm models'.")
@basic("--preset", type=Named("preset", PRESETS), default="recipe", help=PRESET_HELP)
@basic("--seed", type=SEED, default=0, help="Seed parameters and batches with N.")
@basic("--out", type=Place(), help="Keep the run in this directory. [default: runs/TASK-MODEL-PRESET-SEED]")
@basic("--resume", is_flag=True, help="Continue the run in --out, or start it.")
@optimisation("--steps", type=MANY, help=f"Stop after at most N steps. [paper: {protocol.STEPS}]")
@optimisation("--batch-size", type=MANY, help=f"Train on N samples per step. [paper: {protocol.BATCH}]")
@optimisation("--lr", type=Number(), help=f"Set Adam's learning rate. [paper: {protocol.LEARNING_RATE}]")
@optimisation("--max-length", type=MANY, help=f"Train on lengths 1 to N. [default: {protocol.MAX_LENGTH}]")
@optimisation("--memory-size", type=CellRange(1, 10**7), help=CELLS_HELP)
@optimisation("--end-token", is_flag=True, default=None, help="Make the model end its answers itself, with $.")
@optimisation(
    "--stop-when-solved/--no-stop-when-solved",
    default=None,
    help="Stop once the training lengths are learnt. [paper: no]",
)
@sharpening("--noise", type=Number(), help=NOISE_HELP)
@sharpening("--rounding/--no-rounding", default=None, help=ROUNDING_HELP)
@evaluation("--lengths", type=LengthRange(), help=f"Test lengths A to B. [default: 1:{protocol.REACH} x max-length]")
@evaluation("--samples", type=MANY, help=f"Test N inputs of each length. [default: {protocol.SAMPLES}]")
@evaluation("--tau", type=Threshold(1), help=TAU_HELP)
@running("--form", type=Named("form", FORMS), help=FORM_HELP)
@running("--backend", type=Device(), default="cpu", help="Compute on this device.")
@running("--threads", type=THREADS, default=cores, show_default="all cores", help=THREADS_HELP)
@running("--checkpoint-every", type=MANY, help=f"Save every N steps. [paper: {protocol.CHECKPOINT_EVERY}]")
@running("--eval-every", type=MANY, help=f"Test training lengths every N steps. [paper: {protocol.EVAL_EVERY}]")
@running("--json", "as_json", is_flag=True, help="Print one JSON document to stdout, nothing else.")
@click.option("--size", "sizes", type=Size(), multiple=True, help="Change a size of the model: width=64, ..")
@click.option("--option", "rare", type=Rare(), multiple=True, help="Set a rarely needed option: cool-down=3000, ..")
@click.option("--list-options", is_flag=True, help="List the rarely needed options and their values.")
@click.option("--end-with-parent", is_flag=True, hidden=True, help="Stop when standard input closes: for a sweep.")
@click.pass_context
def train(ctx: click.Context, task: Any, preset: str, out: Path | None, resume: bool, **given: Any) -> int:
    """Train a model on TASK, and evaluate it on inputs up to three times as long.

    TASK is a name ('pntm tasks' lists them), an unambiguous prefix of one, or path/to/file.py:Name.
    Ctrl-C finishes the step, saves and exits; a run continued with --resume gives the same bits as one
    without a break.
    """
    from pntm_np.experiments.sweep.supervise import end_with_parent
    from pntm_np.training import display, session

    rare, threads, as_json = dict(given.pop("rare")), given.pop("threads"), given.pop("as_json")
    if given.pop("list_options"):
        print_options(given["model"], preset, given["max_length"])
        return 0
    if given.pop("end_with_parent"):
        end_with_parent()
    command_line = click.core.ParameterSource.COMMANDLINE
    typed = {name for name in (*given, "preset") if ctx.get_parameter_source(name) == command_line}
    given |= rare | {"sizes": dict(given["sizes"])}
    typed |= rare.keys()
    given = {name: value for name, value in given.items() if value is not None}
    if task is None and not (resume and out):
        raise click.UsageError(f"TASK is missing; choose one of {', '.join(TASKS)}", ctx)
    run = Run(out or Path("runs") / f"{task.name}-{given['model']}-{preset}-{given['seed']}")
    config, task = session.plan(run, task, preset, given, typed, resume)
    session.check_directory(run)
    session.require_fit(config, task, threads)
    count = f"{config.architecture().parameter_count():,} parameters"
    ending = " with end token" if task.end_token else ""
    title = f"{task.name}{ending}  {config.model}  {count}  seed {config.seed}  {run.directory}"
    shown = display.display(config, printable(title))
    with signals:
        with shown:
            result = session.conduct(run, config, task, resume, Context(Workers(threads), shown, stop))
        if result is None:
            again = ["pntm", "train", *([task.source] if task.source else []), "--resume", "--out", str(run.directory)]
            say(f"stopped and saved; continue with: {shlex.join(again)}")
            return signals.exit_code
    if as_json:
        click.echo(json.dumps(result))
        return 0
    print_result(result, run, task)
    return 0


def print_options(model: str, preset: str, max_length: int | None) -> None:
    """Print the rarely needed options with their values in such a run."""
    found = Config.of(TASKS["parity-check"], preset, model=model, max_length=max_length)
    values = {name: typed_value(getattr(found, name.replace("-", "_"))) for name in RARE}
    listing = click.HelpFormatter(max_width=80)
    with listing.section(f"Values of --option NAME=VALUE by --model {model} --preset {preset}"):
        listing.write_dl([(f"{name}={values[name]}", option.meaning) for name, option in RARE.items()])
    click.echo(listing.getvalue(), nl=False)


def print_result(result: Json, run: Run, task: Task) -> None:
    from pntm_np.evaluation.answer import example
    from pntm_np.evaluation.report import LengthScore
    from pntm_np.training import cost

    max_length = result["config"]["max_length"]
    why = {"steps": "all steps done", "solved": "learnt", "quiet": "the gradient vanished"}[result["stopped_by"]]
    if result["solved_at"] and result["step"] > result["solved_at"]:
        why = f"learnt at step {result['solved_at']:,}, ended"
    again = f" after {result['restarts']} restart{'s' * (result['restarts'] > 1)}" if result["restarts"] else ""
    click.echo(f"{result['task']}: {why} at step {result['step']:,}{again}; evaluated with {cut_off(result)}")
    click.echo(f"{spent(cost.total(run))}\n")
    bands_table([LengthScore(**row) for row in result["by_length"]], max_length)
    score_line(result)
    named = ["--task", task.source] if task.source else []
    longer = ["pntm", "eval", str(run.directory), *named, "--lengths", str(10 * max_length)]
    ask = ["pntm", "solve", str(run.directory), *named, example(task)]
    click.echo(f"\nlonger inputs:  {printable(shlex.join(longer))}\nask it:         {printable(shlex.join(ask))}")


def spent(cost: Json) -> str:
    from pntm_np.runtime.progress import clock_time

    parts = [f"{clock_time(cost.get(f'{kind}_cpu_seconds', 0))} of {kind}" for kind in ("training", "evaluation")]
    return f"processor time: {', '.join(parts)}"
