"""The ``pntm`` command: parse, call, print. No logic lives here."""

from __future__ import annotations

import importlib.metadata
import json
import platform

import click

import autodiff


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(importlib.metadata.version("pntm"), prog_name="pntm")
def main() -> None:
    """Parallelizable Neural Turing Machines: train them, watch them, time them."""


@main.command()
@click.option("--json", "as_json", is_flag=True, help="One JSON document instead of lines.")
def info(as_json: bool) -> None:
    """Show the versions in use, and which devices can be used or why not."""
    libraries = ("pntm", "numpy", "scipy")
    report = {
        "python": platform.python_version(),
        "versions": {name: importlib.metadata.version(name) for name in libraries},
        "backends": {name: reason or "available" for name, reason in autodiff.available().items()},
    }
    if as_json:
        click.echo(json.dumps(report))
        return
    for name, version in {"python": report["python"], **report["versions"]}.items():
        click.echo(f"{name:8s} {version}")
    for name, state in report["backends"].items():
        click.echo(f"{name:8s} {state}")


if __name__ == "__main__":
    main()
