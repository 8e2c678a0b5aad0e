"""`export` and `import`: a thread as a file of JSON lines."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, TextIO

import click

from scallion.cli.db.opened import made, opened
from scallion.inspect.escape import one_line

if TYPE_CHECKING:
    from scallion.sql.engines import Database


@click.command()
@click.argument("thread")
@click.option(
    "-o", "--output", "file", type=click.File("w", "ascii", lazy=True), default="-", help="Write there, not to stdout."
)
@opened
def export(database: Database, thread: str, file: TextIO) -> None:
    """Write THREAD as JSON lines that `import` reads. With its history and approvals; the lines are not encrypted."""
    from scallion.sql.views import Sessions

    for line in Sessions(database).export(thread):
        file.write(line)


@click.command("import")
@click.argument("file", type=click.File("r", "ascii", errors="replace"))
@click.option("--as", "thread", metavar="THREAD", help="The thread's new name (default: the one it had).")
@made
def load(database: Database, file: Iterable[str], thread: str | None) -> None:
    """Store the thread that `export` wrote to FILE. - is standard input; a thread that exists is not touched."""
    from scallion.sql.views import Sessions

    database.setup(upgrade=database.is_sqlite)
    click.echo(one_line(Sessions(database).load(file, thread)))
