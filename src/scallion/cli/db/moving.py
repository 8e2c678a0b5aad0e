"""`import-langgraph`: the threads of LangGraph's own savers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from scallion.cli.db.opened import opened
from scallion.errors import ConfigurationError, StorageError
from scallion.inspect.escape import one_line

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from scallion.sql.engines import Database
    from scallion.sql.neighbours import Neighbour


@click.command("import-langgraph")
@click.argument("source", metavar="URL")
@click.option("--thread", "threads", multiple=True, help="This thread only; may be given several times.")
@click.option("--dry-run", is_flag=True, help="Only tell which threads they are.")
@opened
def import_langgraph(database: Database, source: str, threads: Sequence[str], dry_run: bool) -> None:
    """Store the threads that a LangGraph saver keeps at URL, with their history and what is open.

    URL is the file of a SqliteSaver, or a PostgresSaver's database. Nothing is changed there. Threads that exist here
    are left alone, so that it may be run again at any time. One line is printed for each thread that was stored.
    """
    from scallion.sql import neighbours

    database.setup(upgrade=database.is_sqlite)
    counts = {"stored": 0, "left alone": 0, "failed": 0}
    with neighbours.reading(source) as theirs:
        for thread in threads or theirs.threads():
            counts[_one(database, theirs, thread, dry_run)] += 1
    told = f"{counts['stored']} thread(s) {'would be ' if dry_run else ''}stored, {counts['left alone']} left alone"
    click.echo(told, err=True)
    if counts["failed"]:
        raise StorageError(f"{counts['failed']} thread(s) were not stored")


def _one(database: Database, theirs: Neighbour, thread: str, dry_run: bool) -> str:
    """Store a thread and say what became of it."""
    try:
        return _moved(database, theirs, thread, dry_run)
    except (ConfigurationError, StorageError) as error:
        click.echo(one_line(f"not stored: thread {thread!r}: {error}"), err=True)
        return "failed"


def _moved(database: Database, theirs: Neighbour, thread: str, dry_run: bool) -> str:
    if _is_there(database, thread):
        newer = (theirs.head(thread) or "") > _head(database, thread)
        told = ", though it has newer checkpoints there" if newer else ""
        click.echo(one_line(f"{thread} exists, and is left alone{told}"), err=True)
        return "left alone"
    try:
        if not theirs.has(thread):
            raise StorageError("there is no such thread in LangGraph's database")
        if not dry_run:
            _stored(database, theirs, thread)
    except StorageError:
        if not _is_there(database, thread):
            raise
        return "left alone"  # somebody else was faster
    click.echo(one_line(thread))
    return "stored"


def _head(database: Database, thread: str) -> str:
    from sqlalchemy import select

    s = database.tables.sessions.c
    query = select(s.head).where(s.thread == thread)
    return database.run(lambda conn: conn.execute(query).scalar()) or ""


def _is_there(database: Database, thread: str) -> bool:
    from scallion.sql.views import Sessions

    return Sessions(database).get(thread) is not None


def _stored(database: Database, theirs: Neighbour, thread: str) -> None:
    from scallion.sql import clock, moving, portable

    def work(conn: Connection) -> None:
        moving.move(conn, database.tables, theirs, thread, clock.stamp(conn, database.clock))

    database.run(work, write=True, unsure=portable.once(work, database, thread))
