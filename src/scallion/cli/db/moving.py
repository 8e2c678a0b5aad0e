"""`import-langgraph`: the threads of LangGraph's own savers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import click

from scallion.cli.db.opened import made
from scallion.cli.options import is_missing
from scallion.errors import ConfigurationError, StorageError
from scallion.inspect.escape import one_line

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from scallion.sql.engines import Database
    from scallion.sql.neighbours import Neighbour


@click.command("import-langgraph")
@click.argument("source", metavar="URL")
@click.option("--thread", "threads", multiple=True, help="This thread only; may be given several times.")
@click.option(
    "--metadata-keys",
    metavar="KEY,...",
    default="",
    help="Metadata to take along beside what LangGraph and the listings need; * is all of it.",
)
@click.option("--dry-run", is_flag=True, help="Only tell which threads they are.")
@made
def import_langgraph(
    database: Database, source: str, threads: Sequence[str], metadata_keys: str, dry_run: bool
) -> None:
    """Store the threads that a LangGraph saver keeps. With their history and what is open.

    URL is the file of a SqliteSaver, or a PostgresSaver's database. Nothing is changed there. Threads that exist here
    are left alone, so that it may be run again at any time. One line is printed for each thread that was stored.
    """
    from scallion.sql import neighbours

    is_new = dry_run and is_missing(database.url.render_as_string(False))
    if not is_new:
        database.setup(upgrade=database.is_sqlite and not dry_run)
    with neighbours.reading(source) as theirs:
        mover = _Mover(database, theirs, metadata_keys.split(","), is_dry=dry_run, is_new=is_new)
        mover.move(threads or theirs.threads())
    mover.tell()


class _Mover:
    """Moves threads, and counts what became of them. `is_new`: nothing is there yet, not even the database."""

    def __init__(
        self, database: Database, theirs: Neighbour, keys: Sequence[str], *, is_dry: bool, is_new: bool
    ) -> None:
        self._database = database
        self._theirs = theirs
        self._keys = frozenset(keys)
        self._is_dry = is_dry
        self._is_new = is_new
        self._left_out: set[str] = set()
        self._counts = {"stored": 0, "left alone": 0, "failed": 0}

    def move(self, threads: Iterable[str]) -> None:
        """Store each thread, and say what became of it."""
        for thread in threads:
            try:
                self._counts[self._moved(thread)] += 1
            except (ConfigurationError, StorageError) as error:
                click.echo(one_line(f"not stored: thread {thread!r}: {error}"), err=True)
                self._counts["failed"] += 1

    def tell(self) -> None:
        """Say how many there were, and what of their metadata is not here. Raises StorageError if some failed."""
        if self._left_out:
            named = ", ".join(sorted(self._left_out))
            click.echo(one_line(f"left out of the metadata: {named}; --metadata-keys takes what you need"), err=True)
        stored = f"{self._counts['stored']} thread(s) {'would be ' if self._is_dry else ''}stored"
        click.echo(f"{stored}, {self._counts['left alone']} left alone", err=True)
        if self._counts["failed"]:
            raise StorageError(f"{self._counts['failed']} thread(s) were not stored")

    def _moved(self, thread: str) -> str:
        if self._is_there(thread):
            newer = (self._theirs.head(thread) or "") > self._head(thread)
            told = ", though it has newer checkpoints there" if newer else ""
            click.echo(one_line(f"{thread} exists, and is left alone{told}"), err=True)
            return "left alone"
        try:
            if not self._theirs.has(thread):
                raise StorageError("there is no such thread in LangGraph's database")
            if not self._is_dry:
                self._store(thread)
        except StorageError:
            if not self._is_there(thread):
                raise
            return "left alone"  # somebody else was faster
        click.echo(one_line(thread))
        return "stored"

    def _head(self, thread: str) -> str:
        from sqlalchemy import select

        s = self._database.tables.sessions.c
        query = select(s.head).where(s.thread == thread)
        return self._database.run(lambda conn: conn.execute(query).scalar()) or ""

    def _is_there(self, thread: str) -> bool:
        from scallion.sql.views import Sessions

        return not self._is_new and Sessions(self._database).get(thread) is not None

    def _store(self, thread: str) -> None:
        from scallion.sql import clock, moving, portable

        database = self._database

        def work(conn: Connection) -> None:
            now = clock.stamp(conn, database.clock)
            self._left_out.update(moving.move(conn, database.tables, self._theirs, thread, now, self._keys))

        database.run(work, write=True, unsure=portable.once(work, database, thread))
