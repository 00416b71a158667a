"""The ``pntm`` command: registers the commands of ``pntm_np/commands`` and turns every failure into an exit code."""

from __future__ import annotations

import signal
import threading

# Ctrl-C during the imports ends the process without a traceback.
_at_start = threading.current_thread() is threading.main_thread() and signal.signal(signal.SIGINT, signal.SIG_DFL)

import contextlib
import errno
import importlib.metadata
import os
import sys
from typing import Any

import click

try:
    import pntm_np  # noqa: F401
except ImportError as error:  # for example, a tasks.py of the user hides our package
    sys.exit(f"pntm: {error}")

from autodiff import BackendUnavailable
from pntm_np.commands import signals
from pntm_np.commands.bench import bench
from pntm_np.commands.evaluate import evaluate
from pntm_np.commands.info import info
from pntm_np.commands.models import models
from pntm_np.commands.output import say, typed_value
from pntm_np.commands.rare_options import RARE
from pntm_np.commands.report import report
from pntm_np.commands.selftest import selftest
from pntm_np.commands.solve import solve
from pntm_np.commands.sweep import sweep
from pntm_np.commands.tasks import tasks
from pntm_np.commands.trace import trace
from pntm_np.commands.train import train
from pntm_np.runtime.errors import FAILED, NOT_AVAILABLE, USAGE, PntmError
from pntm_np.runtime.files import FULL
from pntm_np.runtime.signals import Stopped
from pntm_np.training import ConfigError
from tasks import TaskError

if _at_start:
    signal.signal(signal.SIGINT, _at_start)

IN_ORDER_OF_USE = (train, evaluate, solve, trace, tasks, bench, sweep, report, info, models, selftest)


class Commands(click.Group):
    """Every failure prints one message to stderr; a usage error names the option and what it expects."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)  # in the order of use

    def main(self, *args: Any, standalone_mode: bool = True, **kwargs: Any) -> Any:
        open_streams()
        kwargs.setdefault("prog_name", "pntm")  # also when started as python cli.py
        kwargs["standalone_mode"] = False  # click would handle failures itself
        try:
            code = super().main(*args, **kwargs)
            sys.exit(code if isinstance(code, int) else 0)
        except click.exceptions.NoArgsIsHelpError as error:
            click.echo(error.ctx.get_help(), err=True)
            sys.exit(USAGE)
        except click.Abort:
            fail(130, "stopped")
        except Stopped:
            fail(signals.exit_code, "stopped")
        except click.ClickException as error:
            fail(error.exit_code, error.format_message(), getattr(error, "ctx", None))
        except ConfigError as error:
            fail(USAGE, f"{shown(error.name, error.value):.80}: {error.problem}")
        except PntmError as error:
            fail(error.exit_code, str(error))
        except TaskError as error:
            fail(USAGE, str(error))
        except BackendUnavailable as error:
            fail(NOT_AVAILABLE, str(error))
        except MemoryError as error:
            fail(NOT_AVAILABLE, f"out of memory: {error}")
        except OSError as error:
            if error.errno == errno.EPIPE:
                raise
            where = f"{error.filename}: " if error.filename else ""
            fail(NOT_AVAILABLE if error.errno in FULL else FAILED, f"{where}{error.strerror or error}")


def open_streams() -> None:
    """Connect closed streams to the null device, and escape characters that cannot be encoded."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115  stays open until exit
    with contextlib.suppress(AttributeError, ValueError):  # a test may have replaced them
        streams: Any = sys  # TextIO declares no reconfigure
        streams.stdin.reconfigure(errors="surrogateescape")
        streams.stdout.reconfigure(errors="backslashreplace")
        streams.stderr.reconfigure(errors="backslashreplace")


def fail(code: int, message: str, context: click.Context | None = None) -> None:
    command = context.command_path if context else "pntm"
    say(f"{command}: {message}")
    if code == USAGE and context:
        say(f"See '{command} --help'.")
    sys.exit(code)


def shown(name: str, value: Any) -> str:
    """The option as the user types it."""
    if name == "sizes":
        return " ".join(f"--size {size}={number}" for size, number in value.items())
    option = name.replace("_", "-")
    if isinstance(value, bool):
        return f"--{option}" if value or name == "end_token" else f"--no-{option}"
    return f"--option {option}={typed_value(value)}" if option in RARE else f"--{option} {typed_value(value)}"


@click.group(
    cls=Commands,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 80, "show_default": True},
)
@click.version_option(importlib.metadata.version("pntm"), prog_name="pntm")
def main() -> None:
    """Train, evaluate, trace and time Parallelizable Neural Turing Machines."""


for command in IN_ORDER_OF_USE:
    main.add_command(command)

if __name__ == "__main__":
    main()
