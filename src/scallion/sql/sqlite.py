"""SQLite: how a connection is set up, how its transactions begin, and connections that stay at hand."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
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
