"""``pntm selftest``"""

from __future__ import annotations

import json
import sys

import click

import autodiff
from pntm_np.commands.options import backend_option, json_option
from pntm_np.commands.output import table
from pntm_np.runtime.errors import FAILED
from pntm_np.runtime.origin import versions_in_use
from pntm_np.runtime.progress import Progress


@click.command(short_help="Compare a device with NumPy.")
@backend_option
@json_option
def selftest(backend: str, as_json: bool) -> None:
    """Compare the values and gradients of every op, scan form and model on a device with NumPy's.

    Exits with 1 if a difference is out of bounds, and with 5 if the device is not available.
    """
    from pntm_np.experiments import selftest as test

    device = autodiff.describe_device(backend)
    results = []
    with Progress("selftest") as progress:
        for result in test.run(backend):
            results.append(result)
            progress.note(f"{len(results)}: {result.name}")
    broken = [r for r in results if not r.ok]
    if as_json:
        # JSON has no infinity: a failed comparison is null
        rows = [{k: None if v == float("inf") else v for k, v in r._asdict().items()} | {"ok": r.ok} for r in results]
        within = {dtype.__name__: bound for dtype, bound in test.BOUNDS.items()}
        report = {"backend": backend, "device": device, "versions": versions_in_use(), "bounds": within}
        click.echo(json.dumps(report | {"ok": not broken, "rows": rows}))
    else:
        shown = [
            [r.kind, r.name, f"{r.float64:.1e}", f"{r.float32:.1e}", "" if r.ok else r.error or "OUT OF BOUNDS"]
            for r in results
        ]
        table(["kind", "name", "float64", "float32", ""], shown)
        bounds = ", ".join(f"{dtype.__name__} {bound:.0e}" for dtype, bound in test.BOUNDS.items())
        used = ", ".join(f"{name} {version}" for name, version in versions_in_use().items())
        click.echo(f"\n{device}\n{used}\n{len(results) - len(broken)} of {len(results)} within bounds ({bounds})")
    if broken:
        sys.exit(FAILED)
