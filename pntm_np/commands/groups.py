"""Options in groups: a command with many of them shows them under headings in its help."""

from __future__ import annotations

from typing import Any

import click

WIDTH = 22  # of the names, the same in all groups, so that their help texts stand in line


class GroupedOption(click.Option):
    """An option that belongs under a heading."""

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
                formatter.write_dl([(name.ljust(WIDTH), text) for name, text in records], col_max=WIDTH)


def under(group: str, *names: str, **given: Any) -> Any:
    """As ``click.option``, under the heading ``group``."""
    return click.option(*names, cls=GroupedOption, group=group, **given)
