"""`watch` while the database is away: a server that has no place for it, in a terminal and through a pipe."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from checkpoints.databases import database, migrated, server
from sqlalchemy import create_engine, make_url, text
from tests.cli.command import CLERK, Command

pytest.importorskip("termios", reason="needs a POSIX terminal")

from tests.cli.test_watch import piped, watching

__all__ = ["database", "migrated", "server"]
pytestmark = [pytest.mark.slow, pytest.mark.parametrize("database", ["postgresql"], indirect=True)]
OTHERS = (
    "SELECT pg_terminate_backend(pid, 1000) FROM pg_stat_activity WHERE datname = :name AND pid <> pg_backend_pid()"
)
Ask = Callable[..., list[str]]


@pytest.fixture(autouse=True)
def _here(place: Path, database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The command's database is the server's."""
    monkeypatch.setenv("SCALLION_DB", database)


@contextmanager
def away(url: str) -> Iterator[None]:
    """The server breaks off all connections to the database, and takes none."""
    name = make_url(url).database
    admin = create_engine(make_url(url).set(database="postgres"), isolation_level="AUTOCOMMIT")
    with admin.connect() as conn:
        conn.execute(text(f"ALTER DATABASE {name} ALLOW_CONNECTIONS false"))
        conn.execute(text(OTHERS), {"name": name})
        try:
            yield
        finally:
            conn.execute(text(f"ALTER DATABASE {name} ALLOW_CONNECTIONS true"))
    admin.dispose()


def test_the_table_stays(database: str, paused: Ask, here: Command, place: Path) -> None:
    """It says since when nothing is known, and goes on when the database is back."""
    paused("pay")
    with watching(place) as watch:
        watch.see("1 paused")
        with away(database):
            watch.see("no answer from the database since ", seconds=40)
        watch.see("1 paused", seconds=40)
        here("cancel", "t", "--graph", CLERK)
        watch.see("nothing runs or waits")
        watch.type("\x03")
        assert watch.end() == 0


def test_lines_go_on(database: str, paused: Ask, place: Path) -> None:
    """What has not changed meanwhile is not told again; what did is, and the outage once on standard error."""
    paused("pay", "a")
    with piped(place, "--json") as watch:
        assert watch.stdout
        assert watch.stderr
        assert json.loads(watch.stdout.readline())["thread"] == "a"
        with away(database):
            assert watch.stderr.readline().startswith("no answer from the database since ")
        paused("ask", "b")
        assert json.loads(watch.stdout.readline())["thread"] == "b"
        watch.terminate()
        assert watch.stderr.read() == ""


def test_a_database_that_never_answered(database: str, here: Command) -> None:
    """That is an error, as a name that is wrong."""
    with away(database):
        done = here("watch", "--once")
    assert (done.status, done.err.startswith("error: the database refused: ")) == (1, True)
    assert os.environ["SCALLION_DB"] not in done.err
