"""Engines for both colours: URLs, SQLite's pragmas, and where a piece of SQL work runs.

A piece of work is a function of a `Connection`. `run` runs it at once, `arun` awaits it: over an async driver where the
URL has one, otherwise in threads of our own. Nothing is locked around it but what the database locks by itself.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from threading import Lock, RLock
from typing import TYPE_CHECKING, Any, TypeVar
from weakref import WeakKeyDictionary, WeakSet, finalize

from sqlalchemy import Connection, Engine, StaticPool, create_engine
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError

from scallion.errors import Closed, ConfigurationError, StorageError
from scallion.sql import schema, sqlite
from scallion.sql.clock import Clock
from scallion.sql.tables import Tables

if TYPE_CHECKING:
    from sqlalchemy.ext.asyncio import AsyncEngine

T = TypeVar("T")
Work = Callable[[Connection], T]

SYNC_DRIVERS = {
    "postgresql+asyncpg": "postgresql+psycopg",
    "mysql+asyncmy": "mysql+pymysql",
    "mariadb+asyncmy": "mariadb+pymysql",
    "sqlite+aiosqlite": "sqlite",
}
"""The driver that serves sync calls where the URL names an async one."""

ASYNC_DRIVERS = ("postgresql", "postgresql+psycopg", "postgresql+asyncpg", "mysql+asyncmy", "mariadb+asyncmy")
"""Drivers with an asyncio side; all others are awaited through threads (SQLite is seven times faster that way)."""

THREADS = 8
"""How many pieces of work a saver runs at once for asyncio callers when the driver has no asyncio side."""

ATTEMPTS = 10
"""How often a transaction is tried that the database gives up to end a deadlock."""


class Database:
    """The engines of one database, shared by a saver, its copies, its approvals and its sessions."""

    def __init__(
        self,
        target: str | URL | Engine | AsyncEngine,
        t: Tables,
        *,
        auto_upgrade: bool | None = None,
        clock: Clock | None = None,
    ) -> None:
        self.tables = t
        self.clock = clock
        self.url, self.engine, given_async = _opened(target)
        self.is_sqlite = self.engine.dialect.name == "sqlite"
        self.auto_upgrade = self.is_sqlite if auto_upgrade is None else auto_upgrade
        self.closed = False
        self._owned = isinstance(target, str | URL)
        self._is_given = isinstance(target, Engine)
        self._given_async = given_async
        self._ready = False
        keeps = self.is_sqlite and not self._is_given and not isinstance(self.engine.pool, StaticPool)
        self._at_hand = sqlite.AtHand(self.engine) if keeps else None
        self._inherited: list[Any] = []
        self._begin()
        _databases.add(self)
        if self.is_sqlite and self._owned:
            finalize(self, _collected, self.engine, self._at_hand, os.getpid())

    def _begin(self) -> None:
        """The locks, threads and async engines of this process."""
        self._async: WeakKeyDictionary[asyncio.AbstractEventLoop, AsyncEngine] = WeakKeyDictionary()
        self._threads: ThreadPoolExecutor | None = None
        self._guard = Lock()
        self._single: Any = RLock() if isinstance(self.engine.pool, StaticPool) else nullcontext()
        self._writing: Any = Lock() if self.is_sqlite else nullcontext()

    def forking(self) -> None:
        """Close SQLite's files before a fork: a child must not have them open."""
        if self.is_sqlite and not isinstance(self.engine.pool, StaticPool):
            if self._at_hand is not None:
                self._at_hand.close()
            self.engine.dispose()

    def forked(self) -> None:
        """Begin anew in a forked child, which has none of the threads and must not use the parent's connections.

        They are not closed either: they are kept, so that nothing collects them.
        """
        self._inherited += [*self._async.values(), self._threads, self.engine.pool]
        self._begin()
        if self._at_hand is not None:
            self._inherited.append(self._at_hand)
            self._at_hand = sqlite.AtHand(self.engine)
        if isinstance(self.engine.pool, StaticPool):  # the child has a copy of what lies in memory, and nobody else
            return
        self.engine.dispose(close=False)
        if self._given_async is not None:
            self._inherited.append(self._given_async.sync_engine.pool)
            self._given_async.sync_engine.dispose(close=False)

    def run(self, work: Work[T], *, write: bool = False) -> T:
        """What `work` gives, in a transaction of its own."""
        self._check_open()
        if not self._ready:
            self.setup(self.auto_upgrade)
        return self._work(work, write)

    async def arun(self, work: Work[T], *, write: bool = False) -> T:
        """What `work` gives, without blocking the event loop."""
        self._check_open()
        engine = self._async_engine()
        if engine is None:
            return await asyncio.get_running_loop().run_in_executor(self._pool(), lambda: self.run(work, write=write))
        if not self._ready:
            await self.asetup(self.auto_upgrade)
        return await self._awork(engine, work)

    def setup(self, upgrade: bool) -> None:
        """Check the schema; with `upgrade`, first bring it up to date if it is not."""
        self._check_open()
        with self._guard:
            if upgrade and self._work(self._revision, False) != schema.HEAD:
                self._work(lambda conn: schema.upgrade(conn, self.tables), True)
            else:
                self._work(lambda conn: schema.check(conn, self.tables), False)
            self._ready = True

    async def asetup(self, upgrade: bool) -> None:
        """As `setup`."""
        self._check_open()
        engine = self._async_engine()
        if engine is None:
            await asyncio.get_running_loop().run_in_executor(self._pool(), lambda: self.setup(upgrade))
            return
        if upgrade and await self._awork(engine, self._revision) != schema.HEAD:
            await self._awork(engine, lambda conn: schema.upgrade(conn, self.tables))
        else:
            await self._awork(engine, lambda conn: schema.check(conn, self.tables))
        self._ready = True

    def revision(self) -> str | None:
        """The schema's revision; None before the first upgrade."""
        self._check_open()
        return self._work(self._revision, False)

    def stamp(self, revision: str) -> None:
        """Write down the schema's revision without migrating."""
        self._check_open()
        self._work(lambda conn: schema.stamp(conn, self.tables, revision), True)

    def close(self) -> None:
        """Close every connection that this object opened; a given engine stays open."""
        self.closed = True
        if self._at_hand is not None:
            self._at_hand.close()
        if not self._is_given:
            self.engine.dispose()
        if self._threads is not None:
            self._threads.shutdown(wait=False)

    async def aclose(self) -> None:
        """As `close`, and the connections of the running loop."""
        own = self._async.pop(asyncio.get_running_loop(), None)
        self.close()
        if own is not None:
            await own.dispose()

    def _revision(self, conn: Connection) -> str | None:
        return schema.current(conn, self.tables)

    def _work(self, work: Work[T], write: bool) -> T:
        for attempt in range(ATTEMPTS):
            with (
                _told(attempt),
                sqlite.gate if self.is_sqlite or not self._ready else nullcontext(),  # the first connection has a lock
                self._single,
                self._writing if write else nullcontext(),
                self._transaction(write) as conn,
            ):
                return work(conn)
        raise AssertionError("unreachable: the last attempt returns or raises")

    @contextmanager
    def _transaction(self, write: bool) -> Iterator[Connection]:
        if not self.is_sqlite:
            with self.engine.begin() as conn:
                yield conn
        else:
            opened = self._at_hand.connection() if self._at_hand is not None else self.engine.connect()
            with opened as conn, sqlite.transaction(conn, write):
                yield conn

    async def _awork(self, engine: AsyncEngine, work: Work[T]) -> T:
        for attempt in range(ATTEMPTS):
            with _told(attempt):
                async with engine.begin() as conn:
                    return await conn.run_sync(work)
        raise AssertionError("unreachable: the last attempt returns or raises")

    def _check_open(self) -> None:
        if self.closed:
            raise Closed("the saver or inbox is closed: make a new one")

    def _pool(self) -> ThreadPoolExecutor:
        with self._guard if self._threads is None else nullcontext():
            if self._threads is None:
                self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="scallion-sql")
            return self._threads

    def _async_engine(self) -> AsyncEngine | None:
        """The async engine of the running loop: a pool must not serve two loops."""
        if self._given_async is not None:
            return self._given_async
        if not self._owned or self.url.drivername not in ASYNC_DRIVERS:
            return None
        loop = asyncio.get_running_loop()
        if loop not in self._async:
            from sqlalchemy.ext.asyncio import create_async_engine

            with _driver(self.url):
                made = create_async_engine(self.url, pool_pre_ping=True, isolation_level="READ COMMITTED")
            self._async[loop] = made
        return self._async[loop]


_databases: WeakSet[Database] = WeakSet()


def _collected(engine: Engine, at_hand: sqlite.AtHand | None, process: int) -> None:
    """Close the files of a database that nobody closed, in the process that opened them."""
    if os.getpid() == process:
        if at_hand is not None:
            at_hand.close()
        engine.dispose()


def _forking() -> None:
    if sqlite.gate.shut():
        for database in list(_databases):
            database.forking()


def _forked() -> None:
    sqlite.gate.reset()
    for database in list(_databases):
        database.forked()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_forking, after_in_parent=sqlite.gate.open, after_in_child=_forked)


def _opened(target: str | URL | Engine | AsyncEngine) -> tuple[URL, Engine, AsyncEngine | None]:
    if isinstance(target, str | URL):
        url = _url(target)
        with _driver(url):
            return url, _made(url), None
    if isinstance(target, Engine):
        if target.dialect.name == "sqlite":
            sqlite.prepare(target)
        return target.url, target, None
    if hasattr(target, "sync_engine"):
        if target.url.get_backend_name() == "sqlite":  # threads serve it better than its async driver
            return target.url, _made(target.url), None
        return target.url, _made(target.url), target
    raise ConfigurationError(f"a URL, an Engine or an AsyncEngine is needed, not {type(target).__name__}")


def _url(target: str | URL) -> URL:
    try:
        return make_url(target)
    except (ArgumentError, ValueError) as error:  # of the text only what cannot hold a password is told
        told = repr(target) if re.fullmatch(r"[\w.-]*", str(target)) else "this"
        why = ": its port is no number" if isinstance(error, ValueError) else ""
        raise ConfigurationError(
            f"{told} is not the URL of a database{why}; one looks like sqlite:///agent.db or "
            "postgresql+psycopg://user:password@host/name"
        ) from None


EXTRAS = {"postgresql": "postgres", "mysql": "mysql", "mariadb": "mysql"}
"""What the drivers of a backend come with."""

DRIVERS = {
    "postgres": "postgresql+psycopg",
    "postgresql": "postgresql+psycopg",
    "mysql": "mysql+pymysql",
    "mariadb": "mariadb+pymysql",
}
"""What to write instead of a name that leads nowhere."""


@contextmanager
def _driver(url: URL) -> Iterator[None]:
    """Tell how a driver is had that is not there; nothing else of the URL is told."""
    backend = url.get_backend_name() if "+" in url.drivername else url.drivername
    try:
        yield
    except ImportError as error:
        extra = EXTRAS.get(backend)
        help = f": pip install 'scallion[{extra}]'" if extra else ""
        hint = f", and write {DRIVERS[backend]}://" if backend in DRIVERS and url.drivername in PLAIN else ""
        raise ConfigurationError(f"{url.drivername}:// needs the module {error.name!r}{help}{hint}") from None
    except ArgumentError:
        head = url.drivername.split("+")[0]
        hint = f": write {DRIVERS[head]}://" if head in DRIVERS else ""
        raise ConfigurationError(f"{url.drivername}:// is not a database that SQLAlchemy knows{hint}") from None
    except TypeError:
        raise ConfigurationError(f"{url.drivername}:// does not take the options of this URL") from None


PLAIN = ("mysql", "mariadb")
"""Names without a driver, for which SQLAlchemy takes one that the extra does not bring."""


def _made(url: URL) -> Engine:
    plain = url.set(drivername=SYNC_DRIVERS.get(url.drivername, url.drivername))
    if plain.get_backend_name() != "sqlite":
        return create_engine(plain, pool_pre_ping=True, isolation_level="READ COMMITTED")
    if plain.database in (None, "", ":memory:") or plain.query.get("mode") == "memory":
        engine = create_engine(plain, poolclass=StaticPool, connect_args={"check_same_thread": False})
    else:
        engine = create_engine(plain, pool_size=THREADS, max_overflow=4 * THREADS, pool_timeout=60)
    sqlite.prepare(engine)
    return engine


@contextmanager
def _told(attempt: int) -> Iterator[None]:
    """An error of the database without the statement and its parameters, which may hold anything.

    A transaction that the database gave up for another one's sake is left for the next attempt.
    """
    try:
        yield
    except (DBAPIError, sqlite.Error) as error:
        original: Any = error.orig if isinstance(error, DBAPIError) else error
        if _was_victim(original) and attempt < ATTEMPTS - 1:
            return
        first = str(original).splitlines()[0] if original and str(original) else ""
        raise StorageError(f"the database refused: {type(original).__name__}: {first}") from original
    except UnicodeEncodeError:
        raise StorageError("the database cannot hold a text with half of a surrogate pair") from None
    except OSError as error:
        raise StorageError(
            f"the database cannot be reached: {type(error).__name__}: {error.strerror or error}"
        ) from error


def _was_victim(original: Any) -> bool:
    """Whether the database ended the transaction because of a deadlock or a conflict, so that another try helps."""
    if getattr(original, "sqlstate", None) in ("40001", "40P01"):
        return True
    arguments: Any = getattr(original, "args", ())
    return bool(arguments) and arguments[0] in (1205, 1213)
