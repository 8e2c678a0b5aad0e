"""Pieces of work that wait for SQLite's writer are committed together, and fail apart."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import pytest
from sqlalchemy import Connection, event, insert, select, text

from scallion.errors import StorageError
from scallion.sql.saver import SQLCheckpointer

Work = Callable[[Connection], Any]
files = pytest.mark.parametrize("database", ["file", "memory"], indirect=True)


def adds(name: str) -> Work:
    """Work that adds a row."""
    return lambda conn: conn.execute(text("INSERT INTO notes VALUES (:name)"), {"name": name}) and name


def fails(name: str, error: BaseException) -> Work:
    """Work that adds a row and raises."""

    def work(conn: Connection) -> None:
        adds(name)(conn)
        raise error

    return work


def breaks(conn: Connection) -> None:
    """Work that ends the transaction, as SQLite does by itself when its disk is full."""
    raw: Any = conn.connection.dbapi_connection
    raw.execute("ROLLBACK")
    raise OSError("full")


class Busy:
    """A database whose writer is busy until all works are handed in: by threads, or by tasks of a loop."""

    def __init__(self, saver: SQLCheckpointer, colour: str = "sync") -> None:
        self.database = saver.database
        self.commits = 0
        self.threads = ThreadPoolExecutor(16)
        self.loop = asyncio.new_event_loop() if colour == "async" else None
        if self.loop is not None:
            self.threads.submit(self.loop.run_forever)
        self.database.run(lambda conn: conn.execute(text("CREATE TABLE notes (name TEXT)")), write=True)
        event.listen(self.database.engine, "commit", self._count)

    def _count(self, conn: Connection) -> None:
        self.commits += 1

    @property
    def notes(self) -> set[str]:
        return set(self.database.run(lambda conn: conn.execute(text("SELECT name FROM notes")).scalars().all()))

    def at_once(self, *works: Work, unsure: Work | None = None) -> list[Future[Any]]:
        """What becomes of works that all wait while another is busy."""
        inside, go = threading.Event(), threading.Event()
        first = self.begun(lambda conn: inside.set() or go.wait(10))
        assert inside.wait(10)
        self.commits = 0
        futures = []
        for n, work in enumerate(works, 1):
            futures.append(self.begun(work, unsure))
            self._wait_for(n)
        go.set()
        assert first.result(10)
        return futures

    def begun(self, work: Work, unsure: Work | None = None) -> Future[Any]:
        """What becomes of one."""
        if self.loop is None:
            return self.threads.submit(self.database.run, work, write=True, unsure=unsure)
        return asyncio.run_coroutine_threadsafe(self.database.arun(work, write=True, unsure=unsure), self.loop)

    def close(self) -> None:
        if self.loop is not None:
            self.loop.call_soon_threadsafe(self.loop.stop)
        self.threads.shutdown()
        if self.loop is not None:
            self.loop.close()

    def _wait_for(self, count: int) -> None:
        where: Any = self.database._commits if self.loop is None else self.database._threads._queue
        until = time.monotonic() + 10
        while len(where._waiting) < count:
            assert time.monotonic() < until
            time.sleep(0.001)


@pytest.fixture(params=["sync", "async"])
def colour(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def busy(saver: SQLCheckpointer, colour: str) -> Iterator[Busy]:
    made = Busy(saver, colour)
    yield made
    made.close()


@files
def test_what_waits_is_committed_together(busy: Busy) -> None:
    names = [str(n) for n in range(10)]
    futures = busy.at_once(*map(adds, names))
    assert [one.result(10) for one in futures] == names
    assert busy.notes == set(names)
    assert busy.commits <= 3  # the busy one, all that waited, this reading


@files
def test_nothing_is_acknowledged_before_the_commit(busy: Busy) -> None:
    futures: list[Future[Any]] = []
    seen: list[bool] = []
    futures += busy.at_once(adds("a"), adds("b"), lambda conn: seen.extend(one.done() for one in futures))
    assert [one.result(10) for one in futures] == ["a", "b", None]
    assert not any(seen)


@files
def test_a_piece_that_fails_is_undone_alone(busy: Busy) -> None:
    error = ValueError("mine")
    one, two, three, four = busy.at_once(
        adds("a"), fails("b", error), lambda conn: conn.execute(text("SELECT nothing")), adds("d")
    )
    assert two.exception(10) is error
    assert isinstance(three.exception(10), StorageError)
    assert (one.result(10), four.result(10)) == ("a", "d")
    assert busy.notes == {"a", "d"}


@files
def test_all_are_tried_alone_if_they_fail_together(busy: Busy) -> None:
    one, two, three = busy.at_once(adds("a"), breaks, adds("c"))
    assert (one.result(10), three.result(10)) == ("a", "c")
    assert isinstance(two.exception(10), StorageError)
    assert busy.notes == {"a", "c"}


@files
@pytest.mark.parametrize("colour", ["sync"], indirect=True)
def test_an_interrupted_writer_leaves_the_others_theirs(busy: Busy) -> None:
    error = KeyboardInterrupt()
    one, two, three = busy.at_once(fails("a", error), adds("b"), adds("c"))
    assert one.exception(10) is error
    assert (two.result(10), three.result(10)) == ("b", "c")
    assert busy.notes == {"b", "c"}


@pytest.mark.parametrize("colour", ["sync"], indirect=True)
def test_who_is_interrupted_while_waiting_is_not_written(busy: Busy) -> None:
    """The piece of a thread that gave up waiting must not turn up in a later commit."""
    commits: Any = busy.database._commits

    class Interrupted:
        def __enter__(self) -> None:
            raise KeyboardInterrupt

        def __exit__(self, *error: object) -> None: ...

    with _instead(commits, Interrupted()), pytest.raises(KeyboardInterrupt):
        busy.database.run(adds("a"), write=True)
    busy.database.run(adds("b"), write=True)
    assert busy.notes == {"b"}


@contextmanager
def _instead(commits: Any, lock: Any) -> Iterator[None]:
    own, commits._writing = commits._writing, lock
    yield
    commits._writing = own


class Signalled(sqlite3.Connection):
    """Signals arrive around its COMMIT, where they were set up."""

    coming: ClassVar[list[str]] = []

    def execute(self, sql: str, *arguments: Any) -> Any:
        call = partial(super().execute, sql, *arguments)
        return self._commit(call) if sql == "COMMIT" else call()

    def commit(self) -> None:
        if self.in_transaction:
            self._commit(super().commit)

    def _commit(self, commit: Callable[[], Any]) -> Any:
        self._signal("before")
        done = commit()
        self._signal("after")
        return done

    @property
    def in_transaction(self) -> bool:
        self._signal("again")
        return bool(sqlite3.Connection.in_transaction.__get__(self))

    def _signal(self, when: str) -> None:
        if self.coming[:1] == [when]:
            raise KeyboardInterrupt(self.coming.pop(0))


@pytest.fixture
def signalled(database: str, colour: str) -> Iterator[Busy]:
    with SQLCheckpointer(database, auto_upgrade=True) as saver:
        event.listen(saver.database.engine, "do_connect", lambda *given: given[-1].update(factory=Signalled))
        made = Busy(saver, colour)
        yield made
        made.close()
    assert not Signalled.coming


@files
@pytest.mark.parametrize("coming", [["before"], ["after"], ["after", "again"]], ids=" ".join)
def test_a_signal_at_the_commit_has_nothing_done_twice(signalled: Busy, coming: list[str]) -> None:
    first = iter([coming])
    signal: Work = lambda conn: Signalled.coming.extend(next(first, []))  # noqa: E731
    unsure: Work = lambda conn: conn.execute(text("SELECT max(name) FROM notes")).scalar()  # noqa: E731
    futures = signalled.at_once(adds("a"), signal, adds("c"), unsure=unsure)
    outcome = ["c", "c", "c"] if "again" in coming else ["a", None, "c"]
    assert [one.result(10) for one in futures] == outcome
    query = text("SELECT name FROM notes ORDER BY name")
    assert signalled.database.run(lambda conn: conn.execute(query).scalars().all()) == ["a", "c"]


def test_an_interrupt_that_somebody_keeps_locks_nobody_out(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'a.db'}"
    with SQLCheckpointer(url) as saver:
        saver.setup()

        def broken(conn: Connection) -> None:
            conn.execute(insert(saver.database.tables.keyring).values(no=1, id="never", since=1))
            rows = conn.execute(select(saver.database.tables.keyring))
            raise KeyboardInterrupt(rows)

        with pytest.raises(KeyboardInterrupt) as kept:
            saver.database.run(broken, write=True)
        other = sqlite3.connect(tmp_path / "a.db", timeout=0, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        assert other.execute("SELECT count(*) FROM keyring").fetchone() == (0,)
        other.close()
    assert kept.value.args
