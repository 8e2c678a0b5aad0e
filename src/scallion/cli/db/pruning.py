"""`prune`: old checkpoints of threads that rest."""

from __future__ import annotations

from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

import click

from scallion.cli.db.opened import opened
from scallion.inspect.escape import one_line

if TYPE_CHECKING:
    from scallion.sql.engines import Database


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


@click.command()
@click.option("--older-than", "age", type=Age(), required=True, help="Threads that rest for longer, as 30d or 12h.")
@click.option("--delete", is_flag=True, help="Delete the threads instead of keeping their newest checkpoint.")
@click.option("--dry-run", is_flag=True, help="Only tell which threads they are.")
@opened
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
