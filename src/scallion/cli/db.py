"""`scallion db`: the schema of a database."""

from __future__ import annotations

from collections.abc import Callable
from functools import update_wrapper
from typing import TYPE_CHECKING, Any

import click

from scallion.errors import ScallionError

if TYPE_CHECKING:
    from scallion.sql.engines import Database

DEFAULT = "sqlite:///scallion.db"


def _opened(command: Callable[..., None]) -> Callable[..., None]:
    """Give the command the database of `--db`, close it, and tell errors without a traceback."""

    @click.option("--db", "url", envvar="SCALLION_DB", default=DEFAULT, show_default=True, help="URL of the database.")
    @click.option("--prefix", default="", help="What the names of the tables start with.")
    def run(url: str, prefix: str, **options: Any) -> None:
        from scallion.sql.engines import Database
        from scallion.sql.tables import tables

        try:
            database = Database(url, tables(prefix), auto_upgrade=False)
            try:
                command(database, **options)
            finally:
                database.close()
        except ScallionError as error:
            raise click.ClickException(str(error)) from None

    return update_wrapper(run, command)


@click.group()
def db() -> None:
    """The schema of the database."""


@db.command()
@click.option("--sql", is_flag=True, help="Print the SQL for an empty database instead of running it.")
@_opened
def upgrade(database: Database, sql: bool) -> None:
    """Create the tables, or bring them up to date."""
    from scallion.sql import schema

    if sql:
        schema.script(database.tables, database.url.get_backend_name())
        return
    database.setup(upgrade=True)
    click.echo(f"the schema is at {schema.HEAD}")


@db.command()
@_opened
def check(database: Database) -> None:
    """Tell whether the schema fits this program; exit status 1 if not."""
    from scallion.sql import schema

    database.setup(upgrade=False)
    database.run(lambda conn: schema.check_tables(conn, database.tables))
    click.echo("the schema fits")


@db.command()
@_opened
def current(database: Database) -> None:
    """Show the schema's revision."""
    click.echo(database.revision() or "no schema")


@db.command()
@click.argument("revision", default="head")
@_opened
def stamp(database: Database, revision: str) -> None:
    """Write down that the schema is at REVISION, without changing a table."""
    database.stamp(revision)
    click.echo(f"the schema is marked as {database.revision()}")
