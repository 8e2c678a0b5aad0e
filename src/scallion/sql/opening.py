"""From a URL to an engine: what is opened for each database, and what is said of a URL that leads nowhere."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, Engine, StaticPool, create_engine
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError

from scallion.errors import ConfigurationError
from scallion.sql import forks, sqlite, url_options

if TYPE_CHECKING:
    from sqlalchemy.ext.asyncio import AsyncEngine

SYNC_DRIVERS = {
    "postgresql+asyncpg": "postgresql+psycopg",
    "postgresql+psycopg_async": "postgresql+psycopg",
    "mysql+asyncmy": "mysql+pymysql",
    "mariadb+asyncmy": "mariadb+pymysql",
    "sqlite+aiosqlite": "sqlite",
}
"""The driver that serves sync calls where the URL names an async one."""

THREADS = 8
"""How many pieces of work a saver runs at once for asyncio callers when the driver has no asyncio side."""


def opened(target: str | URL | Engine | AsyncEngine) -> tuple[URL, Engine, AsyncEngine | None]:
    """The URL, the engine for sync calls, and the async engine if one was given. Raises ConfigurationError."""
    if isinstance(target, str | URL):
        url = parsed(target)
        return url, _sync_made(url), None
    if isinstance(target, Engine):
        if target.dialect.name == "sqlite":
            sqlite.prepare(target)
        return target.url, target, None
    if hasattr(target, "sync_engine"):
        is_sqlite = target.url.get_backend_name() == "sqlite"  # threads serve it better than its async driver
        return target.url, _sync_made(target.url), None if is_sqlite else target
    raise ConfigurationError(f"a URL, an Engine or an AsyncEngine is needed, not {type(target).__name__}")


def isolate(conn: Connection) -> None:
    """Have a connection of somebody else's engine run our transactions as our own do, until it is given back.

    Raises ConfigurationError where its driver was told to commit each statement and SQLAlchemy does not know of it:
    that would have to be turned off, and nobody would turn it on again for the connection's other users.
    """
    if CHECKED not in conn.info and "isolation_level" not in conn.engine.get_execution_options():
        raw: Any = conn.connection.dbapi_connection
        dialect = conn.dialect
        if dialect.detect_autocommit_setting(raw):
            dialect.reset_isolation_level(raw)
            if not dialect.detect_autocommit_setting(raw):
                dialect.set_isolation_level(raw, "AUTOCOMMIT")
                raise ConfigurationError(AUTOCOMMIT)
        conn.info[CHECKED] = True
    conn.execution_options(isolation_level=ISOLATION)


CHECKED = "scallion: its driver begins transactions"
"""Noted with each connection, as long as it lives."""

AUTOCOMMIT = (
    "the driver of this engine commits each statement by itself: tell the engine instead, "
    'create_engine(..., isolation_level="AUTOCOMMIT"), or give a URL'
)


def parsed(target: str | URL) -> URL:
    """The URL. Raises ConfigurationError, which tells no password."""
    try:
        url = make_url(target)
    except (ArgumentError, ValueError) as error:  # of the text only what cannot hold a password is told
        told = repr(target) if re.fullmatch(r"[\w.-]*", str(target)) else "this"
        why = ": its port is no number" if isinstance(error, ValueError) else ""
        raise ConfigurationError(
            f"{told} is not the URL of a database{why}; one looks like sqlite:///agent.db or "
            "postgresql+psycopg://user:password@host/name"
        ) from None
    if url.get_backend_name() == "sqlite" and url.host:  # SQLAlchemy would open another one, in memory
        raise ConfigurationError(
            "the file of an SQLite database stands behind three slashes: sqlite:///agent.db"
        ) from None
    return url


EXTRAS = {"postgresql": "postgres", "mysql": "mysql", "mariadb": "mysql"}
"""What the drivers of a backend come with."""

DRIVERS = {
    "mysql+aiomysql": "mysql+asyncmy",
    "mariadb+aiomysql": "mariadb+asyncmy",
    "postgres": "postgresql+psycopg",
    "postgresql": "postgresql+psycopg",
    "mysql": "mysql+pymysql",
    "mariadb": "mariadb+pymysql",
}
"""What to write instead of a name that leads nowhere."""


ISOLATION: Any = "READ COMMITTED"
"""Of our transactions on servers."""

SERVER: dict[str, Any] = {
    "isolation_level": ISOLATION,
    "pool_size": THREADS,
    "max_overflow": 15 - THREADS,
    "pool_timeout": 60,
}
"""As many connections stay open as threads use; up to fifteen are opened when they are needed, then it is waited."""

SILENT = {"init_command": "SET SESSION max_error_count = 0"}
"""asyncmy logs what a server warns of, with the values of unique keys in it."""


@contextmanager
def driver(url: URL) -> Iterator[None]:
    """Tell how a driver is had that is not there; nothing else of the URL is told."""
    backend = url.get_backend_name() if "+" in url.drivername else url.drivername
    try:
        yield
    except ImportError as error:
        extra = EXTRAS.get(backend)
        help = f": pip install 'scallion[{extra}]'" if extra else ""
        better = DRIVERS.get(url.drivername) or DRIVERS.get(backend)
        hint = f", and write {better}://" if better and url.drivername not in OURS else ""
        raise ConfigurationError(f"{url.drivername}:// needs the module {error.name!r}{help}{hint}") from None
    except ArgumentError:
        head = url.drivername.split("+")[0]
        hint = f": write {DRIVERS[head]}://" if head in DRIVERS else ""
        raise ConfigurationError(f"{url.drivername}:// is not a database that SQLAlchemy knows{hint}") from None
    except TypeError:
        raise ConfigurationError(f"{url.drivername}:// does not take the options of this URL") from None


OURS = {*SYNC_DRIVERS, *SYNC_DRIVERS.values(), "postgresql"}
"""Names of drivers that the extras bring; `mysql` alone is not among them."""


def _sync_made(url: URL) -> Engine:
    """An engine for sync calls. Raises ConfigurationError."""
    with driver(url):
        return _made(url)


def _made(url: URL) -> Engine:
    plain = url_options.for_sync(url).set(drivername=SYNC_DRIVERS.get(url.drivername, url.drivername))
    if plain.get_backend_name() != "sqlite":
        engine = create_engine(plain, **SERVER)
        forks.guard(engine)
        return engine
    if plain.database in (None, "", ":memory:") or plain.query.get("mode") == "memory":
        engine = create_engine(plain, poolclass=StaticPool, connect_args={"check_same_thread": False})
    else:
        engine = create_engine(plain, max_overflow=-1)  # `AtHand` says how many
    sqlite.prepare(engine)
    return engine


def async_made(url: URL) -> AsyncEngine:
    """An async engine. Raises ConfigurationError."""
    from sqlalchemy.ext.asyncio import create_async_engine

    is_chatty = url.get_driver_name() == "asyncmy" and "init_command" not in url.query
    plain, arguments = url_options.for_async(url)
    with driver(url):
        engine = create_async_engine(plain, **SERVER, connect_args=arguments | (SILENT if is_chatty else {}))
    forks.guard(engine.sync_engine)
    return engine


def file_of(url: URL) -> str:
    """What a database of SQLite is called: the path of its file, whatever the working folder will be."""
    name = url.database or ":memory:"
    return name if name.startswith((":memory:", "file:")) else os.path.abspath(name)
