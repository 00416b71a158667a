"""The ``pntm`` command: parse, call, print. No logic lives here."""

from __future__ import annotations

import signal
import threading

# Ctrl-C while the libraries are being loaded ends the process without a traceback.
_at_start = threading.current_thread() is threading.main_thread() and signal.signal(signal.SIGINT, signal.SIG_DFL)

import contextlib
import errno
import importlib.metadata
import json
import os
import platform
import shlex
import sys
import time
from pathlib import Path
from typing import Any

import click

try:
    from pntm_np import memory
except ImportError as error:  # such as a tasks.py of the user's that is found before ours
    sys.exit(f"pntm: {error}")

import autodiff
from autodiff import backend as devices
from pntm_np.arguments import (
    CellRange,
    Cells,
    Count,
    Device,
    LengthRange,
    Lengths,
    Named,
    Names,
    Number,
    Picture,
    Place,
    Seeds,
    Setting,
    Shard,
    Size,
    TaskName,
    TaskNames,
    Threshold,
)
from pntm_np.bench.record import BenchError
from pntm_np.evaluation.shown import share
from pntm_np.evaluation.trained import TaskNeeded
from pntm_np.files import FULL
from pntm_np.models import MODELS, STARTS
from pntm_np.report.session import ReportError
from pntm_np.scans import FORMS, FormUnavailable
from pntm_np.signals import Signals, Stopped
from pntm_np.sweep.cluster import ClusterError
from pntm_np.sweep.grid import GridError
from pntm_np.trace.errors import TraceError
from pntm_np.training import PRESETS, ConfigError, Diverged, Run, RunError
from pntm_np.untrusted import CheckpointError, printable
from pntm_np.workers import Workers, cores
from tasks import TASKS, TaskError

if _at_start:
    signal.signal(signal.SIGINT, _at_start)

FAILED, USAGE, DIVERGED, BAD_FILE, NOT_AVAILABLE = 1, 2, 3, 4, 5
signals = Signals()
BENCHED = ("ntm", "pntm")
TRACES = (".png", ".svg", ".pdf", ".html", ".json")


class Commands(click.Group):
    """Every failure is one message on stderr and an exit code; usage errors name the flag and what would be right."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)  # in the order of use

    def main(self, *args: Any, standalone_mode: bool = True, **kwargs: Any) -> Any:
        open_streams()
        kwargs.setdefault("prog_name", "pntm")  # however it was started
        try:
            code = super().main(*args, standalone_mode=False, **kwargs)
            sys.exit(code if isinstance(code, int) else 0)
        except click.exceptions.NoArgsIsHelpError as error:
            click.echo(error.ctx.get_help(), err=True)
            sys.exit(USAGE)
        except click.Abort:
            fail(130, "stopped")
        except Stopped:
            fail(128 + signals.received, "stopped")
        except click.ClickException as error:
            fail(error.exit_code, error.format_message(), getattr(error, "ctx", None))
        except ConfigError as error:
            fail(USAGE, f"{shown(error.name, error.value):.80}: {error.problem}")
        except TaskError as error:
            fail(USAGE, str(error))
        except (RunError, BenchError, GridError, ReportError, TaskNeeded, TraceError) as error:
            fail(USAGE, str(error))
        except Diverged as error:
            fail(DIVERGED, f"training diverged: {error}; the update was not made, and what was saved before is good")
        except CheckpointError as error:
            fail(BAD_FILE, str(error))
        except (autodiff.BackendUnavailable, FormUnavailable, ClusterError, memory.NotEnoughMemory) as error:
            fail(NOT_AVAILABLE, str(error))
        except MemoryError as error:
            fail(NOT_AVAILABLE, f"out of memory: {error}")
        except OSError as error:
            if error.errno == errno.EPIPE:
                raise
            where = f"{error.filename}: " if error.filename else ""
            fail(NOT_AVAILABLE if error.errno in FULL else FAILED, f"{where}{error.strerror or error}")


def open_streams() -> None:
    """Streams that were closed by the caller lead nowhere, and no character stops a message."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115  for the life of the process
    with contextlib.suppress(AttributeError, ValueError):  # what a test puts in their place cannot be changed
        sys.stdin.reconfigure(errors="surrogateescape")
        sys.stdout.reconfigure(errors="backslashreplace")
        sys.stderr.reconfigure(errors="backslashreplace")


def fail(code: int, message: str, context: click.Context | None = None) -> None:
    command = context.command_path if context else "pntm"
    say(f"{command}: {message}")
    if code == USAGE and context:
        say(f"{command} --help tells more")
    sys.exit(code)


def shown(name: str, value: Any) -> str:
    """An option as it is typed."""
    if name == "sizes":
        return " ".join(f"--size {size}={number}" for size, number in value.items())
    flag = f"--{name.replace('_', '-')}"
    if isinstance(value, bool):
        return flag if value or name == "end_token" else f"--no-{flag[2:]}"
    return f"{flag} {':'.join(map(str, value)) if isinstance(value, (tuple, list)) else value}"


# options that commands share
MANY, SEED = Count(1, 10**9), Count(0, 2**63 - 1)
json_option = click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout, nothing else.")
backend_option = click.option("--backend", type=Device(), default="cpu", show_default=True, help="Where to compute.")
threads_option = click.option(
    "--threads",
    type=Count(1, 1024),
    default=cores,
    show_default="all cores",
    help="Has no influence on results.",
)
bench_threads_option = click.option(
    "--threads", type=Count(1, 1024), default=cores, show_default="all cores", help="Shards at a time."
)
task_option = click.option("--task", type=TaskName(), help="For a task in a file of yours: path/to/file.py:Name again.")
tau_options = [
    click.option(
        "--tau",
        type=Threshold(1),
        help="Shifts below it become 0; auto chooses this and --gate-tau on the training lengths. "
        "[default: the machine's own]",
    ),
    click.option(
        "--gate-tau",
        type=Threshold(0.5),
        help="minGRU's gates closer than this to 0 or 1 become 0 or 1. [default: the machine's own, or auto with "
        "--tau auto]",
    ),
]


def tau_choice(function: Any) -> Any:
    for option in reversed(tau_options):
        function = option(function)
    return function


# printing
def cut_off(found: dict[str, Any]) -> str:
    """The thresholds of an evaluation."""
    gates = f", gate-tau {found['gate_tau']:g}" if found["gate_tau"] else ""
    return f"tau {found['tau']:g}{gates}"


def table(columns: list[str], rows: list[list[Any]]) -> None:
    """Rows on stdout, in columns: numbers to the right, text to the left."""
    from rich.console import Console
    from rich.table import Table

    shown = Table(box=None, pad_edge=False, header_style="bold")
    for k, column in enumerate(columns):
        numeric = all(isinstance(row[k], (int, float)) or row[k] == "-" for row in rows)
        shown.add_column(column, justify="right" if numeric else "left", no_wrap=True)
    for row in rows:
        shown.add_row(*(f"{x:,}" if isinstance(x, int) else printable(str(x)) for x in row))
    Console(width=200, highlight=False, markup=False).print(shown)  # a narrow terminal wraps; nothing is left out


def bands_table(found: Any, max_length: int) -> None:
    from pntm_np.evaluation.bands import bands

    rows = [
        [f"{b.first}..{b.last}", share(b.exact_match, 3), share(b.token_accuracy, 3), f"{b.chance:.1e}", b.trained]
        for b in bands(found, max_length)
    ]
    table(
        ["length", "exact match", "tokens right", "chance", ""],
        [[*row[:-1], "trained on" if row[-1] else "longer than any in training"] for row in rows],
    )


def say(message: str) -> None:
    """One line on stderr, whatever is in the names that it tells."""
    message = printable(message)
    with contextlib.suppress(OSError):  # nobody reads: the result is worth more than the message
        click.echo(message, err=True)


def versions() -> dict[str, str]:
    libraries = ("pntm", "numpy", "scipy", "safetensors", *(["numba"] if devices.compiled() else []))
    return {"python": platform.python_version()} | {name: importlib.metadata.version(name) for name in libraries}


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 80})
@click.version_option(importlib.metadata.version("pntm"), prog_name="pntm")
def main() -> None:
    """Parallelizable Neural Turing Machines: train them, watch them, time them."""


@main.command(short_help="Train a machine; resume a run.")
@click.argument("task", type=TaskName(), required=False)
@click.option(
    "--model", type=Named("model", list(MODELS)), default="pntm", show_default=True, help="pntm models lists."
)
@click.option(
    "--preset",
    type=Named("preset", list(PRESETS)),
    default="recipe",
    show_default=True,
    help="recipe: ours for the model, the same for all tasks; paper: every setting that the paper states.",
)
@click.option("--steps", type=MANY, help="Stop after so many, at the latest. [paper: 500000]")
@click.option("--batch-size", type=MANY, help="Samples of a step. [paper: 128]")
@click.option("--lr", type=Number(), help="Adam's learning rate. [paper: 0.0005]")
@click.option(
    "--start",
    type=Named("start", list(STARTS)),
    help="How weights begin: uniform in +-1/sqrt(fan-in), or as Flax draws them. [paper: uniform, for it does not say]",
)
@click.option(
    "--head-gain",
    type=Number(),
    help="Multiply the initial shift weights of half of P-NTM's heads, which then begin decided. [paper: 1]",
)
@click.option(
    "--restart-after",
    type=Count(0, 10**9),
    help="Begin again with other parameters after N steps without a fifth of the answers, 3 N without nine tenths, or "
    "2 N more without having learnt. [paper: 0, never]",
)
@click.option(
    "--warm-up", type=Count(0, 10**9), help="Let the learning rate rise from 0 over the first N steps. [paper: 0]"
)
@click.option(
    "--cool-down",
    type=Count(0, 10**9),
    help="Let learning rate and noise fall to 0 over the last N steps, once the training lengths are learnt. "
    "[paper: 0]",
)
@click.option("--clip", type=Number(), help="Scale gradients down to this infinity norm. [paper: 0, never]")
@click.option(
    "--noise",
    type=Number(),
    help="Deviation of the noise on shifts and gates, before they are normalised, in half of every batch. [paper: 0]",
)
@click.option(
    "--rounding/--no-rounding",
    default=None,
    help="Round shifts and gates in the other half, once nearly all is learnt. [paper: no]",
)
@click.option("--max-length", type=MANY, help="Longest input in training. [default: 40]")
@click.option(
    "--memory-size",
    type=CellRange(1, 10**7),
    help="Cells in training; with A:B the number is drawn for every step. [paper: 2 x max-length + 16]",
)
@click.option(
    "--learnt-memory-size",
    type=CellRange(1, 10**7),
    help="The same, once the training lengths are learnt. [paper: as before]",
)
@click.option("--seed", type=SEED, default=0, show_default=True, help="Of parameters and batches.")
@click.option(
    "--form",
    type=Named("form", list(FORMS)),
    help="Of the scans: sequential, paper, chunked or fused. [default: fused if Numba is there]",
)
@backend_option
@threads_option
@click.option("--out", type=Place(), help="The run's directory. [default: runs/TASK-MODEL-PRESET-SEED]")
@click.option("--resume", is_flag=True, help="Go on with the run in --out; begin it if there is none.")
@click.option("--checkpoint-every", type=MANY, help="Steps between two saves. [paper: 1000]")
@click.option("--eval-every", type=MANY, help="Steps between two looks at the training lengths. [paper: 5000]")
@click.option(
    "--stop-when-solved/--no-stop-when-solved",
    default=None,
    help="Stop, or begin the --cool-down, once the training lengths are learnt. [paper: no]",
)
@click.option("--end-token", is_flag=True, default=None, help="Answers end with $, which the machine has to write.")
@click.option("--lengths", type=LengthRange(), help="Of the evaluation at the end. [default: 1:3 x max-length]")
@click.option("--samples", type=MANY, help="Of each of these lengths. [default: 128]")
@click.option(
    "--tau",
    type=Threshold(1),
    help="Of that evaluation; auto: it and the gates' as rounding had them, or else chosen on the training lengths. "
    "[paper: 0.01]",
)
@click.option(
    "--size", "sizes", type=Size(), multiple=True, help="Another size than the paper's: width=64, heads=2, .."
)
@click.option("--end-with-parent", is_flag=True, hidden=True, help="Stop when standard input is closed: for a sweep.")
@json_option
@click.pass_context
def train(
    ctx: click.Context,
    end_with_parent: bool,
    task: Any,
    preset: str,
    threads: int,
    out: Path | None,
    resume: bool,
    as_json: bool,
    **given: Any,
) -> int:
    """Train a machine on TASK, and evaluate it on inputs up to three times as long.

    TASK is a name (pntm tasks lists them), the beginning of one, or path/to/file.py:Name. Ctrl-C
    finishes the step, saves and exits; --resume goes on, to the same bits as without a break.
    """
    from pntm_np.sweep.orphan import end_with_parent as watch_parent
    from pntm_np.training import display, session

    if end_with_parent:
        watch_parent()
    command_line = click.core.ParameterSource.COMMANDLINE
    typed = {name for name in (*given, "preset") if ctx.get_parameter_source(name) == command_line}
    given["sizes"] = dict(given["sizes"])
    given = {name: value for name, value in given.items() if value is not None}
    if task is None and not (resume and out):
        raise click.UsageError(f"TASK is missing; there are {', '.join(TASKS)}", ctx)
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
            result = session.conduct(run, config, task, resume, threads, shown, lambda: bool(signals.received))
        if result is None:
            again = ["pntm", "train", *([task.source] if task.source else []), "--resume", "--out", str(run.directory)]
            say(f"stopped and saved; go on with: {shlex.join(again)}")
            return signals.exit_code
    if as_json:
        click.echo(json.dumps(result))
        return 0
    print_result(result, run, task)
    return 0


def print_result(result: dict[str, Any], run: Run, task: Any) -> None:
    from pntm_np.evaluation.answer import example
    from pntm_np.evaluation.score import Evaluation, LengthScore
    from pntm_np.training import cost

    found = Evaluation([LengthScore(**row) for row in result["by_length"]])
    max_length = result["config"]["max_length"]
    why = {"steps": "all steps done", "solved": "learnt", "quiet": "the gradient vanished"}[result["stopped_by"]]
    if result["solved_at"] and result["step"] > result["solved_at"]:
        why = f"learnt at step {result['solved_at']:,}, ended"
    again = f" after {result['restarts']} restart{'s' * (result['restarts'] > 1)}" if result["restarts"] else ""
    click.echo(f"{result['task']}: {why} at step {result['step']:,}{again}; evaluated with {cut_off(result)}")
    click.echo(f"{spent(cost.total(run))}\n")
    bands_table(found, max_length)
    score_line(result)
    named = ["--task", task.source] if task.source else []
    longer = ["pntm", "eval", str(run.directory), *named, "--lengths", str(10 * max_length)]
    ask = ["pntm", "solve", str(run.directory), *named, example(task)]
    click.echo(f"\nlonger inputs:  {printable(shlex.join(longer))}\nask it:         {printable(shlex.join(ask))}")


def spent(cost: dict[str, Any]) -> str:
    """What a run cost, in words."""
    from pntm_np.progress import clock_time

    parts = [f"{clock_time(cost.get(f'{kind}_cpu_seconds', 0))} of {kind}" for kind in ("training", "evaluation")]
    return f"processor time: {', '.join(parts)}"


def score_line(report: dict[str, Any]) -> None:
    if report["score"] is None:
        click.echo(f"\nexact match {share(report['exact_match'], 4)}")
    else:
        first, last = report["score_lengths"]
        click.echo(f"\nscore: exact match {share(report['score'], 4)} on lengths {first}..{last}")


@main.command("eval", short_help="Exact match of a trained machine, by length.")
@click.argument("checkpoint", metavar="RUN_OR_FILE", type=Place(exists=True))
@task_option
@click.option("--lengths", type=LengthRange(), help="Every length from A to B. [default: as its run, 1:120]")
@click.option("--samples", type=Count(1, 10**6), help="Of each length. [default: as its run, 128]")
@click.option(
    "--memory-size",
    type=Cells(1, 10**7),
    help="Cells; ample: no head can go round. [default: 256, for longer inputs 2 x length + 16]",
)
@tau_choice
@click.option("--seed", type=SEED, default=0, show_default=True, help="Of the evaluation set.")
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
    from pntm_np.evaluation.score import ample_cells, ample_memory, evaluation_memory, require_memory, tokens_of
    from pntm_np.evaluation.trained import load_trained, task_of

    trained = load_trained(checkpoint)
    task = task_of(trained, task)
    lengths, samples = lengths or trained.lengths, samples or trained.samples
    ample = memory_size == "ample"
    cells = ample_cells(tokens_of(task, lengths[1])) if ample else memory_size or evaluation_memory(lengths[1])
    architecture, lower = trained.model.architecture, "--lengths or --memory-size"
    require_memory(architecture, task, lengths, samples, cells, backend, threads, lower)
    if ample:  # now exactly, for the answers of some tasks are longer than others
        cells = ample_memory(task, range(lengths[0], lengths[1] + 1), samples, seed)
        require_memory(architecture, task, lengths, samples, cells, backend, threads, lower)
    began = time.perf_counter()
    with signals, Workers(threads) as workers:
        evaluating = Evaluating(trained, task, backend, workers, lambda: bool(signals.received))
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


@main.command(short_help="Ask a trained machine.")
@click.argument("checkpoint", metavar="RUN_OR_FILE", type=Place(exists=True))
@click.argument("texts", metavar="[TEXT]...", nargs=-1)
@task_option
@click.option("--memory-size", type=Count(1, 10**7), help="Cells. [default: 256, or 2 x length + 16]")
@click.option(
    "--answer-length", type=Count(1, 10**6), help="Symbols of an answer, for a machine of a task without a rule."
)
@tau_choice
@backend_option
@json_option
def solve(
    checkpoint: Path,
    texts: tuple[str, ...],
    task: Any,
    memory_size: int | None,
    answer_length: int | None,
    tau: float | str | None,
    gate_tau: float | str | None,
    backend: str,
    as_json: bool,
) -> None:
    """Give the machine each TEXT, or each line of stdin, and show its answer.

    Beside it stands the right answer if it differs, with the places where it does.
    """
    from pntm_np.evaluation.answer import answer, symbols_only
    from pntm_np.evaluation.command import Evaluating, thresholds
    from pntm_np.evaluation.score import evaluation_memory
    from pntm_np.evaluation.trained import load_trained, task_of

    trained = load_trained(checkpoint)
    if trained.end_token and answer_length:
        raise click.BadParameter(
            f"{answer_length}; this machine ends its answers itself, with $: leave it out", param_hint="--answer-length"
        )
    try:
        task = task_of(trained, task)
    except TaskNeeded as needed:
        if "auto" in (tau, gate_tau):
            raise
        if not trained.end_token and not answer_length:
            raise TaskNeeded(f"{needed}, or say how long an answer is: --answer-length N") from None
        task = symbols_only(trained)
    else:
        if answer_length:
            problem = f"{answer_length}; the rule of {task.name} says how long an answer is: leave it out"
            raise click.BadParameter(problem, param_hint="--answer-length")
    if not texts:
        if sys.stdin.isatty():
            say(f"one text a line, of {' '.join(task.inputs)}; end with Ctrl-D")
        texts = tuple(text for line in sys.stdin if (text := line.rstrip("\r\n")))
    if not texts:
        raise TaskError(f"there is no text; expected symbols of {' '.join(task.inputs)}")
    for text in texts:
        task.check(text)
    cells = memory_size or evaluation_memory(max(map(len, texts)))
    need = memory.decoding_need(
        trained.model.architecture, 1, 6 * max(map(len, texts)) + 16 + (answer_length or 0), cells
    )
    memory.require(need, f"an answer with {cells:,} cells", "--memory-size", backend)
    with signals, Workers(1) as workers:
        evaluating = Evaluating(trained, task, backend, workers, lambda: bool(signals.received))
        options = thresholds(evaluating, tau, gate_tau, say)
        say(f"{trained.model.name}: {cut_off(options.thresholds._asdict())}, memory {cells}")
        answers = answer(evaluating.model, task, list(texts), cells, options, answer_length, evaluating.stop)
    if as_json:
        click.echo(json.dumps([item._asdict() | {"right": item.right} for item in answers]))
        return
    for item in answers:
        click.echo(f"{item.text} -> {item.answer}{'' if item.ended else ' ..'}{item.verdict}")


@main.command(short_help="See a trained machine think: pictures, a page, words.")
@click.argument("checkpoint", metavar="RUN_OR_FILE", type=Place(exists=True))
@click.argument("text")
@click.option(
    "-o",
    "--out",
    "outs",
    type=Picture(TRACES),
    multiple=True,
    help="Where to: .png, .svg or .pdf for a picture, .html for a page, .json for all numbers. May be repeated.",
)
@click.option("--explain", "in_words", is_flag=True, help="Say what happened, in a few sentences on stdout.")
@click.option("--compare", type=Place(exists=True), help="Another machine, beside the first on an .html page.")
@click.option(
    "--compare-tau",
    type=Threshold(1),
    help="The threshold of the one beside it; auto chooses the gates', too. [default: --tau]",
)
@click.option("--compare-gate-tau", type=Threshold(0.5), help="And its gates'. [default: as --gate-tau]")
@task_option
@click.option("--memory-size", type=Count(1, 10**7), help="Cells. [default: 256, or 2 x length + 16]")
@tau_choice
@backend_option
def trace(
    checkpoint: Path,
    text: str,
    outs: tuple[Path, ...],
    in_words: bool,
    compare: Path | None,
    compare_tau: float | str | None,
    compare_gate_tau: float | str | None,
    task: Any,
    memory_size: int | None,
    tau: float | str | None,
    gate_tau: float | str | None,
    backend: str,
) -> None:
    """Run the machine on TEXT step by step, and show what it does.

    The page plays the steps: heads on a tape of memory cells, the answer as it is written. Two
    machines, or two thresholds of one, stand side by side with --compare or --compare-tau.
    """
    from pntm_np.trace import session

    beside = compare is not None or compare_tau is not None or compare_gate_tau is not None
    if not outs and not in_words:
        raise click.UsageError("there is nothing to make; expected -o FILE (page.html, ..) or --explain")
    if beside and not in_words and not any(out.suffix.lower() == ".html" for out in outs):
        raise click.UsageError("--compare and --compare-tau need -o FILE.html or --explain: other files show one trace")
    asked = [session.Asked(checkpoint, tau, gate_tau)]
    if beside:
        other = session.Asked(
            compare or checkpoint,
            tau if compare_tau is None else compare_tau,
            gate_tau if compare_gate_tau is None else compare_gate_tau,
        )
        asked.append(other)

    def stop() -> bool:
        return bool(signals.received)

    with signals:
        kinds = {out.suffix.lower() for out in outs}
        traced = session.trace(asked, text, task, memory_size, backend, kinds, say, stop)
        places, contents = [each.place for each in asked], {}
        for out in outs:
            contents[out] = session.rendered(traced, places, out.suffix.lower(), stop)
        words = session.told(traced, stop) if in_words else []
        session.write(contents, say)  # when all could be made: all of them, or none
        if words:
            click.echo("\n".join(words))


@main.command(short_help="The tasks, and samples of them.")
@click.argument("task", type=TaskName(), required=False)
@click.option("--length", type=Count(1, 10**6), default=6, show_default=True, help="Of the inputs.")
@click.option("--count", type=Count(1, 10**6), default=5, show_default=True, help="How many samples.")
@click.option("--seed", type=SEED, default=0, show_default=True, help="Of the samples.")
@json_option
def tasks(task: Any, length: int, count: int, seed: int, as_json: bool) -> None:
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
    memory.require(200 * length * count, f"{count:,} samples of length {length:,}", "--length or --count")
    rows = samples(task, length, count, seed)
    if as_json:
        click.echo(json.dumps({**facts(task), "samples": [{"input": x, "answer": y} for x, y in rows]}))
        return
    click.echo(f"{task.name}: {facts(task)['rule']}\n")
    for x, y in rows:
        click.echo(f"{x} | {y}")


@main.group(
    invoke_without_command=True, short_help="Time NTM and P-NTM, as in the paper; or training steps.", cls=click.Group
)
@click.option(
    "--lengths", type=Lengths(), default="8:65536", show_default=True, help="8:65536 is 8, 16, 32, ..; or a list."
)
@click.option(
    "--models", type=Names("model", list(BENCHED)), default=",".join(BENCHED), show_default=True, help="Which to time."
)
@click.option("--forms", type=Names("form", list(FORMS)), help="Of the scans. [default: all that can run here]")
@click.option("--batch", type=Count(1, 10**6), default=8, show_default=True, help="Sequences at a time.")
@click.option("--runs", type=Count(1, 10**6), default=10, show_default=True, help="Timed, of each length.")
@click.option("--warmup", type=Count(1, 10**6), default=3, show_default=True, help="Not timed, before them.")
@click.option(
    "--patience",
    type=Count(1, 10**6),
    default=30,
    show_default=True,
    help="A form that takes more seconds than this for one run is not tried at greater lengths.",
)
@click.option("--seed", type=SEED, default=0, show_default=True, help="Of weights and inputs.")
@backend_option
@bench_threads_option
@click.option(
    "--out", type=Place(), default="runs/bench.json", show_default=True, help="Every row goes there as it is found."
)
@click.option("--resume", is_flag=True, help="Go on with the bench in --out; begin it if there is none.")
@click.option("--plot", type=Picture(), help="Draw time and speed-up against length: .png, .svg or .pdf.")
@json_option
@click.pass_context
def bench(
    ctx: click.Context, out: Path, resume: bool, plot: Path | None, as_json: bool, forms: Any, **given: Any
) -> None:
    """Time a forward pass of NTM and P-NTM against the length: the paper's experiment.

    Forms are first compared on the bench's input. What cannot fit in memory is not tried. An
    interrupted bench goes on with --resume. pntm bench train times training steps.
    """
    if ctx.invoked_subcommand:
        refuse_options(ctx)
        return
    from pntm_np.bench import forward
    from pntm_np.bench.plot import plot_bench
    from pntm_np.bench.session import bench_forward

    settings = forward.Settings(**given, **({"forms": forms} if forms else {}))
    try:
        report = bench_forward(settings, forms, out, resume, signals)
    except forward.Disagreement as error:
        fail(FAILED, str(error))
    except Stopped:
        say(f"stopped; go on with: {shlex.join(['pntm', *sys.argv[1:]])}{'' if resume else ' --resume'}")
        raise
    if as_json:
        click.echo(json.dumps(report))
    else:
        print_bench(report)
    if plot:
        plot_bench(report, plot)


def print_bench(report: dict[str, Any]) -> None:
    from pntm_np.bench.record import crossovers
    from pntm_np.bench.tables import forward_rows

    columns, rows = forward_rows(report)
    table(columns, rows)
    click.echo()
    for line in crossovers(report["rows"]):
        click.echo(line)
    machine, settings = report["machine"], report["settings"]
    click.echo(f"\n{machine['processor']}, {settings['threads']} of {machine['cores']} cores; {machine['device']}")
    click.echo(f"batch {settings['batch']}, mean of {settings['runs']} runs after {settings['warmup']} to warm up")


@bench.command("train", short_help="Time the training step of every model.")
@click.option(
    "--models", type=Names("model", list(MODELS)), default=",".join(MODELS), help="Which to time. [default: all]"
)
@click.option("--forms", type=Names("form", list(FORMS)), help="Of the scans. [default: the fastest]")
@click.option("--lengths", type=Lengths(), default="41,81,121", show_default=True, help="Tokens of a sequence.")
@click.option("--batch", type=Count(1, 10**6), default=128, show_default=True, help="Sequences of a step.")
@click.option("--memory-size", type=Count(1, 10**7), default=96, show_default=True, help="Cells.")
@click.option("--runs", type=Count(1, 10**6), default=10, show_default=True, help="Timed, of each length.")
@click.option("--warmup", type=Count(1, 10**6), default=3, show_default=True, help="Not timed, before them.")
@click.option("--seed", type=SEED, default=0, show_default=True, help="Of weights and batches.")
@backend_option
@bench_threads_option
@click.option("--profile", is_flag=True, help="Show where the time goes, by part.")
@json_option
def bench_train(profile: bool, as_json: bool, forms: Any, **given: Any) -> None:
    """Time a training step: forward, backward and update, at the paper's sizes, on random tokens.

    The floor is what the step's dense matrix products alone would take, at the speed of a large
    product, which is measured at the same time.
    """
    from pntm_np.bench.session import bench_steps
    from pntm_np.bench.train_step import TrainSettings

    report = bench_steps(TrainSettings(**given, forms=forms or ()), forms, profile, signals)
    if as_json:
        click.echo(json.dumps(report))
    else:
        print_bench_train(report)


def print_bench_train(report: dict[str, Any]) -> None:
    from pntm_np.bench.tables import step_rows

    columns, rows = step_rows(report)
    table(columns, rows)
    for name, parts in report.get("profile", {}).items():
        total = sum(parts.values())
        click.echo(f"\n{name}, {report['settings']['lengths'][-1]} tokens, one thread: {total:,.0f} ms a step")
        for part, ms in parts.items():
            if ms >= 0.005 * total:
                click.echo(f"  {ms:8,.1f} ms  {ms / total:4.0%}  {part}")
    machine, settings = report["machine"], report["settings"]
    click.echo(f"\n{machine['processor']}, {settings['threads']} of {machine['cores']} cores; {machine['device']}")
    click.echo(f"batch {settings['batch']}, {settings['runs']} steps after {settings['warmup']} to warm up")


@main.group(
    cls=click.Group, short_help="Many runs: tasks x models x seeds, here or on a cluster.", invoke_without_command=True
)
@click.option("--grid", "grid_file", type=Place(exists=True), help="A TOML file with tasks, variants, seeds, options.")
@click.option("--preset", type=Named("preset", ["paper"]), help="paper: 6 tasks x 8 models x 10 seeds.")
@click.option("--tasks", "chosen", type=TaskNames(), help="With commas between them. [default: all six]")
@click.option("--models", "names", type=Names("model", list(MODELS)), help="Likewise. [default: pntm]")
@click.option("--seeds", type=Seeds(), help="How many of the paper's ten, or A,B,.. [default: 1]")
@click.option("--option", "options", type=Setting(), multiple=True, help="Of every run: steps=1000, sizes={width=64}.")
@click.option("--out", type=Place(), default="runs/sweep", show_default=True, help="The directory of all runs.")
@click.option("--jobs", type=Count(1, 1024), help="Runs at a time. [default: cores / threads]")
@click.option("--threads", type=Count(1, 1024), default=1, show_default=True, help="Of one run.")
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
    from pntm_np.sweep import cluster, grid, plan, session, status
    from pntm_np.sweep.supervise import Care

    if not 1 <= given["stall"] <= 1e9:
        problem = f"{given['stall']:g}; expected seconds from 1 to 1e9"
        raise click.BadParameter(problem, ctx, param_hint="--stall")
    runs = plan.extend_plan(out, asked_for(ctx, **{k: given[k] for k in GRID_OPTIONS}))
    if not runs:
        raise click.UsageError(f"nothing is planned in {out} yet; give --grid, --preset, --tasks or --models", ctx)
    mine = grid.shard(runs, *given["part"]) if given["part"] else runs
    todo = session.left(out, mine, given["retry_failed"], given["done"])
    session.require_tasks(todo)
    jobs = given["jobs"] or max(1, cores() // given["threads"])
    if not given["address"]:
        session.require_fit(todo, given["threads"])
    if given["dry_run"]:
        print_forecast(mine, todo, jobs, given["threads"], as_json)
        return 0
    client = cluster.connect(given["address"]) if given["address"] else None
    plan.write_plan(out, runs)
    session.forget_failures(out, todo)
    say(f"{len(mine)} runs in {out}, {len(todo)} to do")
    care = Care(given["threads"], given["retries"], given["stall"])
    with signals:
        ends = session.sweep(out, mine, todo, jobs, care, client, given["done"], say, lambda: bool(signals.received))
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


def refuse_options(ctx: click.Context) -> None:
    """What stands before a subcommand's name would be lost."""
    for param in ctx.command.params:
        if ctx.get_parameter_source(param.name or "") == click.core.ParameterSource.COMMANDLINE:
            raise click.UsageError(
                f"{param.opts[0]} has no meaning before {ctx.invoked_subcommand}; give it after", ctx
            )


GRID_OPTIONS = ("grid_file", "preset", "chosen", "names", "seeds", "options")


def asked_for(
    ctx: click.Context, grid_file: Path | None, preset: str | None, chosen: Any, names: Any, seeds: Any, options: Any
) -> list:
    """The runs that the flags name: a file's, or a grid's; none if there are no such flags."""
    from pntm_np.sweep import grid

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
    seeds = seeds or (grid.PAPER_SEEDS if preset else grid.seeds_of(1))
    common = {"preset": preset or "recipe"} | dict(options)
    return grid.grid(chosen or TASKS.values(), {model: {"model": model} for model in models}, seeds, common)


@sweep.command("status", short_help="Where the runs of a sweep stand.")
@click.argument("directory", type=Place(exists=True))
@json_option
def sweep_status(directory: Path, as_json: bool) -> None:
    """Show where the runs of the sweep in DIRECTORY stand: done, running, failed and why."""
    from pntm_np.sweep import plan, status

    runs = plan.read_plan(directory)
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
    from pntm_np.sweep.collect import collect

    names, left_out = collect(directory, out)
    if not names and not left_out:
        raise click.UsageError(f"{directory}: there is no run in it that has ended")
    for line in left_out:
        say(f"left out: {line}")
    told = {"out": str(out), "runs": names, "left_out": left_out}
    click.echo(json.dumps(told) if as_json else printable(f"{len(names)} runs in {out}"))
    return BAD_FILE if left_out else 0


def print_sweep(found: list, as_json: bool) -> None:
    from pntm_np.sweep.status import summary

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
    from pntm_np.progress import Progress, clock_time
    from pntm_np.sweep.forecast import Forecast

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


@main.command(short_help="The paper's tables and figures from runs and benches.")
@click.argument("directory", type=Place(exists=True))
@click.option("--out", type=Place(), help="Where to write it. [default: DIRECTORY/report]")
@json_option
def report(directory: Path, out: Path | None, as_json: bool) -> None:
    """Make tables, figures and one page that works offline of what is in DIRECTORY.

    Runs, benches and evaluations (what --json prints, in files) are found wherever they are below it.
    The paper's numbers stand beside ours.
    """
    from pntm_np.report import session

    out = out or directory / "report"
    tables = session.report(directory, out, say)
    if as_json:
        found = {t.name: {"columns": t.columns, "rows": t.rows, "caption": t.caption} for t in tables}
        click.echo(json.dumps({"out": str(out), "tables": found}))
        return
    for shown in tables:
        if len(shown.rows) <= 30:
            click.echo(f"{shown.title}\n")
            table(shown.columns, [[shown.shown(value) for value in row] for row in shown.rows])
            click.echo("")
    say(f"written: {out / 'report.html'}, and every table and figure beside it")


@main.command(short_help="Versions in use, and which devices can be used.")
@json_option
def info(as_json: bool) -> None:
    """Show the versions in use, which devices can be used or why not, threads, and the BLAS."""
    import threadpoolctl

    blas = [
        f"{lib['internal_api']} {lib.get('version') or ''} {lib.get('architecture') or ''}".strip()
        + f", {lib['num_threads']} threads"
        for lib in threadpoolctl.threadpool_info()
        if lib["user_api"] == "blas"
    ]
    free = memory.available()
    report = {
        "versions": versions(),
        "backends": {name: reason or "available" for name, reason in autodiff.available().items()},
        "cores": cores(),
        "blas": sorted(set(blas)),
        "free_memory": free,
    }
    if as_json:
        click.echo(json.dumps(report))
        return
    for name, version in report["versions"].items():
        click.echo(f"{name:12s} {version}")
    for name, state in report["backends"].items():
        click.echo(f"{name:12s} {state}")
    click.echo(f"{'cores':12s} {report['cores']}")
    click.echo(f"{'blas':12s} {'; '.join(report['blas']) or 'unknown'}; one thread for each worker in training")
    click.echo(f"{'memory':12s} {'unknown' if free is None else memory.size(free) + ' free'}")


@main.command(short_help="The models at the paper's sizes.")
@json_option
def models(as_json: bool) -> None:
    """List the models at the paper's sizes: parameters, forms of the scans, state per sequence."""
    from pntm_np.models.summary import summaries

    found = summaries()
    if as_json:
        click.echo(json.dumps(found))
        return
    sizes = ["width", "depth", "heads", "cell"]
    rows = []
    for model in found:
        state = f"{model['state_per_token']} a token" if model["state_per_token"] else f"{model['state']:,}"
        shown = [model["config"].get(size, "-") for size in sizes]
        forms = " ".join(form[0] for form in model["forms"])
        rows.append([model["name"], *shown, model["parameters"], state, forms])
    table(["name", *sizes, "parameters", "state", "forms"], rows)
    click.echo("\nforms: s sequential, p paper, c chunked, f fused")
    memory = " and ".join(str(n) for n in sorted({model["memory_size"] for model in found}))
    click.echo(f"state: numbers per sequence, with a memory of {memory} (bench) cells")


@main.command(short_help="Compare a device with NumPy.")
@backend_option
@json_option
def selftest(backend: str, as_json: bool) -> None:
    """Compare a device with NumPy: every op, scan form and model, values and gradients.

    Exits with 1 if a deviation is out of bounds, and with 5 if the device cannot be used.
    """
    from pntm_np import selftest as test

    device = autodiff.describe_device(backend)
    results = []
    for result in test.run(backend):
        results.append(result)
        if sys.stderr.isatty():
            click.echo(f"\r\x1b[K{len(results)}: {result.name}", nl=False, err=True)
    if sys.stderr.isatty():
        click.echo("\r\x1b[K", nl=False, err=True)
    broken = [r for r in results if not r.ok]
    if as_json:
        # JSON has no infinity: what could not be compared is null
        rows = [{k: None if v == float("inf") else v for k, v in r._asdict().items()} | {"ok": r.ok} for r in results]
        bounds = {dtype.__name__: bound for dtype, bound in test.BOUNDS.items()}
        click.echo(
            json.dumps(
                {
                    "backend": backend,
                    "device": device,
                    "versions": versions(),
                    "bounds": bounds,
                    "ok": not broken,
                    "rows": rows,
                }
            )
        )
    else:
        shown = [
            [r.kind, r.name, f"{r.float64:.1e}", f"{r.float32:.1e}", "" if r.ok else r.error or "OUT OF BOUNDS"]
            for r in results
        ]
        table(["kind", "name", "float64", "float32", ""], shown)
        bounds = ", ".join(f"{dtype.__name__} {bound:.0e}" for dtype, bound in test.BOUNDS.items())
        used = ", ".join(f"{name} {version}" for name, version in versions().items())
        click.echo(f"\n{device}\n{used}\n{len(results) - len(broken)} of {len(results)} within bounds ({bounds})")
    if broken:
        sys.exit(FAILED)


if __name__ == "__main__":
    main()
