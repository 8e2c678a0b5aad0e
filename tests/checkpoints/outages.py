"""Servers that go away: how the tests kill connections between calls, during calls, and around COMMIT."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

from sqlalchemy import Connection, Engine, create_engine, make_url, text
from sqlalchemy.exc import OperationalError
from sqlalchemy.pool import NullPool

from scallion.sql import shortcut
from scallion.sql.engines import Database

SYNC = {"asyncpg": "psycopg", "asyncmy": "pymysql"}


@lru_cache
def _admin(url: str) -> Engine:
    where = make_url(url)
    driver = where.get_driver_name()
    where = where.set(drivername=f"{where.get_backend_name()}+{SYNC.get(driver, driver)}")
    return create_engine(where, isolation_level="AUTOCOMMIT", poolclass=NullPool)


OTHERS = {
    "postgresql": "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()",
    "mysql": "SELECT id FROM information_schema.processlist WHERE db = database() AND id <> connection_id()",
}


GONE = 1094
"""MariaDB's number for a connection that has ended by itself meanwhile."""


def connections(url: str) -> list[int]:
    """The connections to the database."""
    with _admin(url).connect() as conn:
        return _others(conn)


def _others(conn: Connection) -> list[int]:
    return list(conn.execute(text(OTHERS[conn.dialect.name])).scalars())


def kill_all(url: str) -> int:
    """End every connection of the database, as a restart of the server does; how many there were."""
    with _admin(url).connect() as conn:
        found = _others(conn)
        kill = "SELECT pg_terminate_backend({}, 1000)" if conn.dialect.name == "postgresql" else "KILL {}"
        for id in found:
            try:
                conn.execute(text(kill.format(id)))
            except OperationalError as error:
                if error.orig is None or error.orig.args[0] != GONE:
                    raise
    return len(found)


@contextmanager
def dying_at_commit(database: Database, url: str, *, stored: bool, dialect: Any = None) -> Iterator[list[bool]]:
    """Once, the connection dies during COMMIT: before the server has `stored`, or before it could say so.

    Gives a list that is not empty when it has happened.
    """
    dialect = dialect or database.engine.dialect
    commit = dialect.do_commit
    happened: list[bool] = []

    def dies(connection: Any) -> None:
        if happened:
            return commit(connection)
        happened.append(True)
        if stored:
            commit(connection)
        kill_all(url)
        cursor = connection.cursor()
        cursor.execute("SELECT 1")  # raises what the driver raises for a connection that died
        raise AssertionError("the connection still lives")

    def dies_at_once(cursor: Any, *statement: Any) -> int:
        if not happened:
            happened.append(True)
            if stored:
                send(cursor, *statement)
            kill_all(url)
        return send(cursor, *statement)

    send = shortcut.send
    shortcut.send = dies_at_once
    dialect.do_commit = dies
    try:
        yield happened
    finally:
        del dialect.do_commit
        shortcut.send = send


@contextmanager
def away(engine: Any, times: int) -> Iterator[None]:
    """The server takes no new connection so many times."""
    left, connect = iter(range(times)), engine.dialect.connect

    def refuse(*arguments: Any, **options: Any) -> Any:
        if next(left, None) is not None:
            raise engine.dialect.loaded_dbapi.OperationalError("the server is away")
        return connect(*arguments, **options)

    engine.dialect.connect = refuse
    try:
        yield
    finally:
        engine.dialect.connect = connect
