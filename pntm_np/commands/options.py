"""Options that several commands share, each with one spelling."""

from __future__ import annotations

from typing import Any

import click

from pntm_np.commands.types import Count, Device, TaskName, Threshold
from pntm_np.protocol import EVALUATION_MEMORY, MARGIN
from pntm_np.runtime.workers import cores

MANY, SEED = Count(1, 10**9), Count(0, 2**63 - 1)
json_option = click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout, nothing else.")
backend_option = click.option("--backend", type=Device(), default="cpu", show_default=True, help="Where to compute.")
threads_option = click.option(
    "--threads", type=Count(1, 1024), default=cores, show_default="all cores", help="Has no influence on results."
)
bench_threads_option = click.option(
    "--threads", type=Count(1, 1024), default=cores, show_default="all cores", help="Shards at a time."
)
task_option = click.option("--task", type=TaskName(), help="For a task in a file of yours: path/to/file.py:Name again.")
memory_option = click.option(
    "--memory-size", type=Count(1, 10**7), help=f"Cells. [default: {EVALUATION_MEMORY}, or 2 x length + {MARGIN}]"
)
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


def refuse_options(ctx: click.Context) -> None:
    """What stands before a subcommand's name would be lost."""
    for param in ctx.command.params:
        if ctx.get_parameter_source(param.name or "") == click.core.ParameterSource.COMMANDLINE:
            raise click.UsageError(
                f"{param.opts[0]} has no meaning before {ctx.invoked_subcommand}; give it after", ctx
            )
