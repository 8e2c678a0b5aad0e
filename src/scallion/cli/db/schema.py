"""`upgrade`, `check`, `current` and `stamp`: the schema of the database."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from scallion.cli.db.opened import made, opened
from scallion.inspect.escape import one_line

if TYPE_CHECKING:
    from scallion.sql.engines import Database


@click.command()
@click.option("--sql", is_flag=True, help="Print the SQL instead of running it; for an empty database, unless --from.")
@click.option("--from", "since", metavar="REVISION", help="Where the database of --sql is now.")
@made
def upgrade(database: Database, sql: bool, since: str | None) -> None:
    """Create the tables, or bring them up to date."""
    from scallion.sql import schema

    if since is not None and not sql:
        raise click.UsageError("--from says what --sql begins with; without it the database itself knows")
    if sql:
        schema.script(database.tables, database.url.get_backend_name(), since)
        return
    database.upgrade()
    place = one_line(database.url.set(query={}).render_as_string(hide_password=True))
    click.echo(f"the schema of {place} is at {schema.HEAD}")


@click.command()
@opened
def check(database: Database) -> None:
    """Tell whether the schema fits this program. Exit status 1 if not."""
    from scallion.sql import schema

    database.setup(upgrade=False)
    database.run(lambda conn: schema.check_tables(conn, database.tables))
    click.echo("the schema fits")


@click.command()
@opened
def current(database: Database) -> None:
    """Show the schema's revision."""
    click.echo(database.revision() or "no schema")


@click.command()
@click.argument("revision", default="head")
@opened
def stamp(database: Database, revision: str) -> None:
    """Write down that the schema is at REVISION. No table is changed."""
    database.stamp(revision)
    now = database.revision()
    click.echo(f"the schema is marked as {now}" if now else "the database is marked as one without a schema")
