"""`prune`: old checkpoints of threads that rest."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
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
    _longest: ClassVar = timedelta(days=365_000)
    """What lies further back than that is before all calendars."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> timedelta:
        """The span; a usage error for anything else."""
        if isinstance(value, timedelta):
            return value
        parts = re.fullmatch(r"([0-9]{1,8})([mhdw])", value)
        if parts is None or (age := timedelta(**{self._units[parts[2]]: int(parts[1])})) > self._longest:
            self.fail(f"{value!r} is no age: write 30d, 12h or the like", param, ctx)
        return age


@click.command()
@click.option(
    "--older-than",
    "age",
    type=Age(),
    required=True,
    help="Threads that rest for longer: a number of m, h, d or w, as 30d.",
)
@click.option(
    "--keep-pending/--no-keep-pending",
    default=True,
    show_default=True,
    help="Leave threads alone that wait for a person, and those whose decision was not used yet.",
)
@click.option("--delete", is_flag=True, help="Delete the threads instead of keeping what they go on from.")
@click.option("--dry-run", is_flag=True, help="Only tell which threads they are.")
@opened
def prune(database: Database, age: timedelta, keep_pending: bool, delete: bool, dry_run: bool) -> None:
    """Drop the old checkpoints of threads that rest. A thread that runs, or was interrupted, is left alone."""
    statuses = ("idle", "failed") if keep_pending else ("idle", "failed", "paused")
    count = 0
    for thread in _pruned(database, age, statuses, delete=delete, dry_run=dry_run):
        count += 1
        click.echo(one_line(thread))
    click.echo(f"{count} thread(s) {'would be ' if dry_run else ''}{'deleted' if delete else 'pruned'}", err=True)


def _pruned(
    database: Database, age: timedelta, statuses: Sequence[str], *, delete: bool, dry_run: bool
) -> Iterator[str]:
    """Each thread that was pruned, in a transaction of its own."""
    from scallion.sql import clock, pruning

    t, before = database.tables, clock.to_micros(database.run(lambda conn: clock.read(conn, database.clock)) - age)
    one = partial(pruning.prune_resting, t=t, statuses=statuses, before=before, delete=delete, dry_run=dry_run)
    for status in statuses:
        some = partial(pruning.resting, t=t, status=status, before=before, past=not delete)
        page = database.run(some)
        while page:
            for _, no in page:
                if (thread := database.run(partial(one, no=no), write=not dry_run)) is not None:
                    yield thread
            page = database.run(partial(some, after=page[-1]))
