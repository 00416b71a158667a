"""The ``pntm`` command: parse, call, print. No logic lives here."""

from __future__ import annotations

import importlib.metadata
import json
import platform
import sys
from typing import Any

import click

import autodiff

FAILED, NOT_AVAILABLE = 1, 5  # exit codes; usage errors are 2


def table(columns: list[str], rows: list[list[Any]]) -> None:
    """Rows on stdout, in columns: numbers to the right, text to the left."""
    from rich.console import Console
    from rich.table import Table

    shown = Table(box=None, pad_edge=False, header_style="bold")
    for k, column in enumerate(columns):
        numeric = all(isinstance(row[k], (int, float)) or row[k] == "-" for row in rows)
        shown.add_column(column, justify="right" if numeric else "left", no_wrap=True)
    for row in rows:
        shown.add_row(*(f"{x:,}" if isinstance(x, int) else str(x) for x in row))
    width = None if sys.stdout.isatty() else 200
    Console(width=width, highlight=False).print(shown)


def versions() -> dict[str, str]:
    libraries = ("pntm", "numpy", "scipy", "safetensors")
    return {"python": platform.python_version()} | {name: importlib.metadata.version(name) for name in libraries}


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(importlib.metadata.version("pntm"), prog_name="pntm")
def main() -> None:
    """Parallelizable Neural Turing Machines: train them, watch them, time them."""


@main.command(short_help="Versions in use, and which devices can be used.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document instead of lines.")
def info(as_json: bool) -> None:
    """Show the versions in use, and which devices can be used or why not."""
    report = {
        "versions": versions(),
        "backends": {name: reason or "available" for name, reason in autodiff.available().items()},
    }
    if as_json:
        click.echo(json.dumps(report))
        return
    for name, version in report["versions"].items():
        click.echo(f"{name:12s} {version}")
    for name, state in report["backends"].items():
        click.echo(f"{name:12s} {state}")


@main.command(short_help="The models at the paper's sizes.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document instead of a table.")
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
    click.echo("\nforms: s sequential, p paper, c chunked")
    memory = " and ".join(str(n) for n in sorted({model["memory_size"] for model in found}))
    click.echo(f"state: numbers per sequence, with a memory of {memory} (bench) cells")


@main.command(short_help="Compare a device with NumPy.")
@click.option("--backend", default="cpu", show_default=True, metavar="cpu|cuda", help="The device to test.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document instead of a table.")
def selftest(backend: str, as_json: bool) -> None:
    """Compare a device with NumPy: every op, scan form and model, values and gradients.

    Exits with 1 if a deviation is out of bounds, and with 5 if the device cannot be used.
    """
    from pntm_np import selftest as test

    try:
        device = autodiff.describe_device(backend)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--backend") from None
    except autodiff.BackendUnavailable as error:
        click.echo(f"pntm: --backend {backend}: {error}", err=True)
        sys.exit(NOT_AVAILABLE)
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
