"""What goes to standard output: one JSON document, or things to read."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from scallion.inspect.escape import one_line

if TYPE_CHECKING:
    from rich.console import Console

WIDTH = 120
"""Columns where the output is no terminal and COLUMNS is not set."""


def print_json(document: Any) -> None:
    """One document; non-ASCII and control characters are escaped by JSON itself."""
    click.echo(json.dumps(document, indent=2, default=str))


def console(*, err: bool = False) -> Console:
    """A console that prints texts as they are: no markup, no colours of its own choice."""
    from rich.console import Console

    stream = sys.stderr if err else sys.stdout
    width = None if stream.isatty() or "COLUMNS" in os.environ else WIDTH
    return Console(file=stream, width=width, highlight=False, markup=False, emoji=False)


def print_table(columns: Sequence[str], rows: Sequence[Sequence[str]], nothing: str, more: str | None = None) -> None:
    """The rows below their names, or `nothing`; `more`: what a next page is asked for with."""
    if not rows:
        return click.echo(nothing)
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, header_style="bold", pad_edge=False)
    for column in columns:
        table.add_column(column, overflow="fold", no_wrap=column in ("id", "age"))
    for row in rows:
        table.add_row(*(Text(one_line(cell)) for cell in row))
    console().print(table)
    if more is not None:
        click.echo(f"there are more: --after {more}", err=True)
    return None


def let_go() -> None:
    """Write nothing more to standard output, as whoever read it has gone."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def ago(moment: datetime | None, now: datetime | None = None) -> str:
    """How long before `now`, the present if it is not given, in the largest unit that gives a number."""
    if moment is None:
        return ""
    seconds = int(((now or datetime.now(UTC)) - moment).total_seconds())
    for unit, size in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= size:
            return f"{seconds // size} {unit}"
    return f"{max(seconds, 0)} s"
