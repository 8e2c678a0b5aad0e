"""SQLite: how a connection is set up, how its transactions begin, and connections that stay at hand."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Condition, local
from typing import Any

from sqlalchemy import Connection, Engine, event

PRAGMAS = (
    "PRAGMA journal_mode=WAL",
    "PRAGMA synchronous=FULL",
    "PRAGMA foreign_keys=ON",
    "PRAGMA busy_timeout=60000",
)

Error = sqlite3.Error


def prepare(engine: Engine) -> None:
    """Have every new connection of the engine set up."""
    if not event.contains(engine, "connect", _connected):
        event.listen(engine, "connect", _connected)


def _connected(connection: Any, record: Any) -> None:
    connection.isolation_level = None  # transactions are begun by `transaction`, not by the driver
    cursor = connection.cursor()
    for pragma in PRAGMAS:
        cursor.execute(pragma)
    cursor.close()


@contextmanager
def transaction(conn: Connection, write: bool) -> Iterator[None]:
    """A transaction; a writing one has the database's lock from the start.

    One that reads first and writes later could not wait for the lock: it would fail.
    """
    with conn.begin():
        raw: Any = conn.connection.dbapi_connection
        raw.execute("BEGIN IMMEDIATE" if write else "BEGIN")
        yield


class Gate:
    """Which threads are inside of SQLite: at a fork nobody may be.

    The library has locks of its own, and a table of the files that this process has open, with what it has locked of
    them. A child would have copies of both, for ever locked, or untrue.
    """

    WAIT = 3.0
    """How many seconds a fork waits for the others."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Nobody is inside."""
        self._changed = Condition()
        self._inside = 0
        self._forks = 0
        self._mine = local()

    def __enter__(self) -> None:
        depth = getattr(self._mine, "depth", 0)
        with self._changed:
            while self._forks and not depth:
                self._changed.wait()
            self._inside += 1
        self._mine.depth = depth + 1

    def __exit__(self, *exc: object) -> None:
        changed = self._changed
        self._mine.depth = getattr(self._mine, "depth", 1) - 1
        with changed:
            self._inside = max(0, self._inside - 1)  # a child may leave what only the parent entered
            if self._forks:
                changed.notify_all()

    def shut(self) -> bool:
        """Let nobody in, and wait until all others are out; whether this thread is not inside either."""
        mine = getattr(self._mine, "depth", 0)
        with self._changed:
            self._forks += 1
            self._changed.wait_for(lambda: self._inside <= mine, self.WAIT)
            return self._inside == 0

    def open(self) -> None:
        """Go on in the parent."""
        with self._changed:
            self._forks -= 1
            self._changed.notify_all()


gate = Gate()


class AtHand:
    """Connections of one engine that stay open between transactions: taking one costs nothing."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._free: list[Connection] = []

    @contextmanager
    def connection(self) -> Iterator[Connection]:
        """A connection that nobody else uses; after an error it is closed."""
        conn = self._free.pop() if self._free else self._engine.connect()
        try:
            yield conn
        except BaseException:
            conn.close()
            raise
        self._free.append(conn)

    def close(self) -> None:
        """Close those that nobody uses."""
        while self._free:
            self._free.pop().close()
