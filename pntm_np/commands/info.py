"""``pntm info``"""

from __future__ import annotations

import json

import click

import autodiff
from pntm_np.commands.options import json_option
from pntm_np.runtime import ram
from pntm_np.runtime.origin import versions_in_use
from pntm_np.runtime.untrusted import Json
from pntm_np.runtime.workers import cores


@click.command(short_help="Show versions, devices, cores and free memory.")
@json_option
def info(as_json: bool) -> None:
    """Show library versions, which devices are available or why not, cores, BLAS and free memory."""
    import threadpoolctl

    blas = [
        f"{lib['internal_api']} {lib.get('version') or ''} {lib.get('architecture') or ''}".strip()
        + f", {lib['num_threads']} threads"
        for lib in threadpoolctl.threadpool_info()
        if lib["user_api"] == "blas"
    ]
    free = ram.available()
    report: Json = {
        "versions": versions_in_use(),
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
    click.echo(f"{'memory':12s} {'unknown' if free is None else ram.size(free) + ' free'}")
