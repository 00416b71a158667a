"""``pntm models``"""

from __future__ import annotations

import json

import click

from pntm_np.commands.options import json_option
from pntm_np.commands.output import table


@click.command(short_help="List the models at the paper's sizes.")
@json_option
def models(as_json: bool) -> None:
    """List the models at the paper's sizes, with parameter counts, forms of the scans and state sizes."""
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
    memory = " cells, or ".join(str(n) for n in sorted({model["memory_size"] for model in found}))
    click.echo(f"state: numbers per sequence, with {memory} for the bench models")
