"""Options that several commands share, each with one spelling; and options under headings, where there are many."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from pntm_np.commands.types import Count, Device, TaskName, Threshold
from pntm_np.protocol import EVALUATION_MEMORY, MARGIN
from pntm_np.runtime.workers import cores

HELP_AT = 22  # columns of the options' names, the same in all groups, so that their help texts stand in line
MANY, SEED, THREADS = Count(1, 10**9), Count(0, 2**63 - 1), Count(1, 1024)
json_option = click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout, nothing else.")
backend_option = click.option("--backend", type=Device(), default="cpu", show_default=True, help="Where to compute.")
threads_option = click.option(
    "--threads", type=THREADS, default=cores, show_default="all cores", help="Has no influence on results."
)
bench_threads_option = click.option(
    "--threads", type=THREADS, default=cores, show_default="all cores", help="Shards at a time."
)
task_option = click.option("--task", type=TaskName(), help="For a task in a file of yours: path/to/file.py:Name again.")
memory_option = click.option(
    "--memory-size", type=Count(1, 10**7), help=f"Cells. [default: {EVALUATION_MEMORY}, or 2 x length + {MARGIN}]"
)


def tau_choice(command: Callable) -> Callable:
    """``--tau`` and ``--gate-tau``."""
    shifts = "Shifts below it become 0; auto chooses this and --gate-tau on the training lengths."
    gates, own = "minGRU's gates closer than this to 0 or 1 become 0 or 1.", "[default: the machine's own"
    command = click.option("--gate-tau", type=Threshold(0.5), help=f"{gates} {own}, or auto with --tau auto]")(command)
    return click.option("--tau", type=Threshold(1), help=f"{shifts} {own}]")(command)


def refuse_options(ctx: click.Context) -> None:
    """What stands before a subcommand's name would be lost."""
    for param in ctx.command.params:
        if ctx.get_parameter_source(param.name or "") == click.core.ParameterSource.COMMANDLINE:
            raise click.UsageError(
                f"{param.opts[0]} has no meaning before {ctx.invoked_subcommand}; give it after", ctx
            )


class GroupedOption(click.Option):
    def __init__(self, *args: Any, group: str = "", **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.group = group


class GroupedCommand(click.Command):
    """Its help lists the options by group, in the order in which the groups first appear; those without one last."""

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
    """As ``click.option``, under the heading ``group``; a default is shown."""
    given.setdefault("show_default", given.get("default") is not None)
    return click.option(*names, cls=GroupedOption, group=group, **given)
