"""`scallion db`: the schema of a database, and what is kept in it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from functools import partial, update_wrapper
from typing import TYPE_CHECKING, Any, ClassVar

import click

from scallion.errors import ScallionError
from scallion.inspect.escape import one_line

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
    """The schema of the database, and what is kept in it."""


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


class Age(click.ParamType):  # type: ignore[type-arg]
    """A span of time: a number with m, h, d or w behind it."""

    name = "age"
    _units: ClassVar = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> timedelta:
        """The span; a usage error for anything else."""
        if isinstance(value, timedelta):
            return value
        if value[-1:] not in self._units or not value[:-1].isdigit():
            self.fail(f"{value!r} is no age: write 30d, 12h or the like", param, ctx)
        return timedelta(**{self._units[value[-1]]: int(value[:-1])})


@db.command()
@click.option("--older-than", "age", type=Age(), required=True, help="Threads that rest for longer, as 30d or 12h.")
@click.option("--delete", is_flag=True, help="Delete the threads instead of keeping their newest checkpoint.")
@click.option("--dry-run", is_flag=True, help="Only tell which threads they are.")
@_opened
def prune(database: Database, age: timedelta, delete: bool, dry_run: bool) -> None:
    """Drop the old checkpoints of threads that rest; what waits for a person, or runs, is left alone."""
    from scallion.sql import lifecycle

    database.setup(upgrade=False)
    strategy = "delete" if delete else "keep_latest"
    threads = _resting(database, age)
    for thread in threads:
        if not dry_run:
            database.run(partial(lifecycle.prune, t=database.tables, threads=[thread], strategy=strategy), write=True)
        click.echo(one_line(thread))
    click.echo(
        f"{len(threads)} thread(s) {'would be ' if dry_run else ''}{'deleted' if delete else 'pruned'}", err=True
    )


def _resting(database: Database, age: timedelta) -> list[str]:
    """The threads that nothing happened on for that long, and that wait for nobody."""
    from scallion.sql import clock
    from scallion.sql.views import Sessions

    before = database.run(lambda conn: clock.read(conn, database.clock)) - age
    found: list[str] = []
    after = None
    while True:
        page = Sessions(database).list(limit=500, after=after)
        found += [one.thread for one in page.items if one.status in ("idle", "failed") and one.updated <= before]
        if page.next is None:
            return found
        after = page.next
