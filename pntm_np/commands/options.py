"""Options that several commands share, and help texts that list options under headings."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from pntm_np.commands.types import Count, Device, TaskName, Threshold
from pntm_np.protocol import EVALUATION_MEMORY_DEFAULT
from pntm_np.runtime.workers import cores

HELP_AT = 22  # width of the column of names, the same under all headings
MANY, SEED, THREADS = Count(1, 10**9), Count(0, 2**63 - 1), Count(1, 1024)
THREADS_HELP = "Use N threads; results do not depend on N."
json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON document to stdout, nothing else.")
backend_option = click.option("--backend", type=Device(), default="cpu", help="Compute on this device.")
threads_option = click.option("--threads", type=THREADS, default=cores, show_default="all cores", help=THREADS_HELP)
bench_threads_option = click.option(
    "--threads", type=THREADS, default=cores, show_default="all cores", help="Compute N shards of a batch at a time."
)
task_option = click.option("--task", type=TaskName(), help="Name your own task again: path/to/file.py:Name.")
memory_option = click.option(
    "--memory-size", type=Count(1, 10**7), help=f"Use a memory of N cells. {EVALUATION_MEMORY_DEFAULT}"
)


def tau_choice(command: Callable) -> Callable:
    """Add ``--tau`` and ``--gate-tau``."""
    shifts = "Set shifts below X to 0; auto chooses this and --gate-tau on the training lengths."
    gates, own = "Snap minGRU gates closer than X to 0 or 1.", "[default: the model's own"
    command = click.option("--gate-tau", type=Threshold(0.5), help=f"{gates} {own}, or auto with --tau auto]")(command)
    return click.option("--tau", type=Threshold(1), help=f"{shifts} {own}]")(command)


def refuse_options(ctx: click.Context) -> None:
    """Reject options before the name of a subcommand: they would have no effect."""
    for param in ctx.command.params:
        if ctx.get_parameter_source(param.name or "") == click.core.ParameterSource.COMMANDLINE:
            name = ctx.invoked_subcommand
            raise click.UsageError(f"{param.opts[0]} has no effect before {name}; put it after {name}", ctx)


class GroupedOption(click.Option):
    def __init__(self, *args: Any, group: str = "", **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.group = group


class GroupedCommand(click.Command):
    """A command whose help lists the options by group, in order of appearance; those without a group come last."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        groups: dict[str, list[tuple[str, str]]] = {}
        for param in self.get_params(ctx):
            if isinstance(param, click.Option) and (record := param.get_help_record(ctx)) is not None:
                groups.setdefault(getattr(param, "group", ""), []).append(record)
        rest = groups.pop("", [])
        for title, records in (*groups.items(), ("Other", rest)):
            with formatter.section(title):
                formatter.write_dl([(name.ljust(HELP_AT), text) for name, text in records], col_max=HELP_AT)


def under(group: str, *names: str, **given: Any) -> Callable:
    """``click.option`` under the heading ``group``."""
    return click.option(*names, cls=GroupedOption, group=group, **given)
