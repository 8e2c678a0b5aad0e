"""Engines for both colours, and where a piece of SQL work runs.

A piece of work is a function of a `Connection`. `run` runs it at once, `arun` awaits it: over an async driver where the
URL has one, otherwise in threads of our own. Nothing is locked around it but what the database locks by itself; where
that is everything, as in SQLite, pieces that write are committed together.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import replace
from functools import partial
from threading import Lock, RLock
from typing import TYPE_CHECKING, Any, TypeVar
from weakref import finalize, ref

from sqlalchemy import Connection, Engine, StaticPool, event
from sqlalchemy.engine import URL

from scallion.errors import Closed, ConfigurationError
from scallion.sql import audit, forks, keyring, pipelined, schema, shortcut, sqlite
from scallion.sql.awaited import CLOSED, Threads
from scallion.sql.cipher import cipher
from scallion.sql.clock import Clock, stamp
from scallion.sql.commits import Commits, Tried
from scallion.sql.failures import Trial, Work
from scallion.sql.loops import Loops
from scallion.sql.opening import async_made, file_of, isolate, opened
from scallion.sql.statement import NoShortcut
from scallion.sql.tables import Tables

if TYPE_CHECKING:
    from sqlalchemy.ext.asyncio import AsyncEngine

    from scallion.sql.memory import Known, Memory

T = TypeVar("T")

ASYNC_DRIVERS = ("postgresql+asyncpg", "mysql+asyncmy", "mariadb+asyncmy")
"""Drivers for asyncio alone. All others are awaited through threads: SQLite is seven times faster that way, psycopg
twice, because what its asyncio side does in Python for each statement, its sync side does in C."""


ORDERED = 1024
"""How many sessions one process can write to at once over the short way."""


class Database:
    """The engines of one database, shared by a saver, its copies, its approvals and its sessions."""

    def __init__(
        self,
        target: str | URL | Engine | AsyncEngine,
        t: Tables,
        *,
        key: Any = None,
        auto_upgrade: bool | None = None,
        clock: Clock | None = None,
    ) -> None:
        self.tables = t if key is None else replace(t, cipher=cipher(key))
        self.clock = clock
        self.url, self.engine, given_async = opened(target)
        self.is_sqlite = self.engine.dialect.name == "sqlite"
        if self.is_sqlite and t.schema is not None:
            raise ConfigurationError("SQLite has no schemas: use prefix= instead of schema=")
        self._file = file_of(self.url) if self.is_sqlite else None
        self.auto_upgrade = self.is_sqlite if auto_upgrade is None else auto_upgrade
        self.closed = False
        self._owned = isinstance(target, str | URL)
        self._is_given = isinstance(target, Engine)
        self._given_async = given_async
        self._ready = False
        keeps = self.is_sqlite and not self._is_given and not isinstance(self.engine.pool, StaticPool)
        self._at_hand = sqlite.AtHand(self.engine, self._file) if keeps else None
        self._has_shortcut = shortcut.has_shortcut(self.engine, self.tables)
        self._inherited: list[Any] = []
        self._begin()
        forks.watch(self)
        if not self.is_sqlite and not self._is_given:
            event.listen(self.engine, "checkin", partial(_came_back, ref(self)))
        if self.is_sqlite and self._owned:
            finalize(self, _collected, self.engine, self._at_hand, os.getpid())

    def _begin(self) -> None:
        """The locks, threads and async engines of this process."""
        self._loops = Loops(partial(async_made, self.url))
        self._guard = Lock()
        self._single: Any = RLock() if isinstance(self.engine.pool, StaticPool) else nullcontext()
        self._commits = Commits() if self.is_sqlite else None
        self._threads = Threads()
        self._order: Sequence[AbstractContextManager[Any]] = [nullcontext()]
        if self._has_shortcut:
            self._order = [Lock() for _ in range(ORDERED)]

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
        self._inherited += [self._loops, self._threads, self.engine.pool]
        self._begin()
        if self._at_hand is not None:
            self._inherited.append(self._at_hand)
            self._at_hand = sqlite.AtHand(self.engine, self._file)
        if isinstance(self.engine.pool, StaticPool):  # the child has a copy of what lies in memory, and nobody else
            return
        self.engine.dispose(close=False)
        if self._given_async is not None:
            self._inherited.append(self._given_async.sync_engine.pool)
            self._given_async.sync_engine.dispose(close=False)

    def run(self, work: Work[T], *, write: bool = False, unsure: Work[T] | None = None, durable: bool = True) -> T:
        """What `work` gives, in a transaction, which commits all of it or, if it fails, nothing.

        It may be run several times, also after a COMMIT whose outcome is unknown. Where that is not right (its second
        time differs from its first), `unsure` is run after such a COMMIT. What need not be `durable` seals nothing, and
        may be lost with the power; SQLite does not wait for the disk then.
        """
        self._check_open()
        if not self._ready:
            self.setup(self.auto_upgrade)
        return self._work(
            self._kept(work) if write and durable else work, write, unsure and self._kept(unsure), durable=durable
        )

    async def arun(
        self, work: Work[T], *, write: bool = False, unsure: Work[T] | None = None, durable: bool = True
    ) -> T:
        """As `run`, without blocking the event loop."""
        self._check_open()
        engine = await self._async_engine()
        if engine is None:
            return await self._in_threads(work, write, unsure, durable)
        if not self._ready:
            await self.asetup(self.auto_upgrade)
        return await self._awork(engine, self._kept(work) if write and durable else work, unsure and self._kept(unsure))

    def store(self, work: Work[Known], memory: Memory, thread: str) -> None:
        """Do the write `work` to the session of `thread`, and remember what it learned.

        In one process one write to a session follows another, as in the database.
        """
        with self._lock(thread):
            row = memory.rows.get(thread) if self._has_shortcut else None
            if row is not None:
                with suppress(NoShortcut):
                    self._check_open()
                    shortcut.written(self.engine, self.tables, work, row).keep()
                    return
            self.run(work, write=True).keep()

    async def astore(self, work: Work[Known], memory: Memory, thread: str) -> None:
        """As `store`, without blocking the event loop."""
        if self._has_shortcut and await self._async_engine() is None:
            alone = partial(self.store, work, memory, thread)
            if memory.rows.get(thread) is None:
                await self._threads.run(alone)
            else:
                await self._threads.written(pipelined.Stored(work, memory, thread, alone), self._store_all)
        else:
            (await self.arun(work, write=True)).keep()

    def _store_all(self, writes: Sequence[pipelined.Stored]) -> Collection[pipelined.Stored]:
        self._check_open()
        return pipelined.write(self.engine, self.tables, self._lock, writes)

    def _lock(self, thread: str) -> Any:
        return self._order[hash(thread) % len(self._order)]

    def find(self, work: Work[T], *, write: bool = False) -> T:
        """As `run`, for what may be a transaction for each statement: a read, or a `write` that need not be durable."""
        if self._has_shortcut and self._ready:
            with suppress(NoShortcut):
                self._check_open()
                return shortcut.direct(self.engine, work)
        return self.run(work, write=write, durable=not write)

    async def afind(self, work: Work[T], *, write: bool = False) -> T:
        """As `find`, without blocking the event loop."""
        if await self._async_engine() is None:
            return await self._threads.run(partial(self.find, work, write=write))
        return await self.arun(work, write=write, durable=not write)

    def setup(self, upgrade: bool) -> None:
        """Check the schema; with `upgrade`, first bring it up to date if it is not."""
        self._check_open()
        with self._guard:
            if upgrade:
                self.upgrade()
            if not self._work(self._keys_fit if upgrade else self._fits, False):
                self._work(self._begin_key, True, alone=True)
            self._ready = True

    async def asetup(self, upgrade: bool) -> None:
        """As `setup`."""
        self._check_open()
        engine = await self._async_engine()
        if engine is None:
            await self._threads.run(partial(self.setup, upgrade))
            return
        if upgrade and await self._awork(engine, self._revision) != schema.HEAD:
            await self._awork(engine, lambda conn: schema.upgrade(conn, self.tables))
        if not await self._awork(engine, self._keys_fit if upgrade else self._fits):
            await self._awork(engine, self._begin_key)
        self._ready = True

    def revision(self) -> str | None:
        """The schema's revision; None before the first upgrade."""
        return self.unchecked(self._revision)

    def upgrade(self) -> None:
        """Bring the schema up to date; what is stored is not looked at, and needs no key."""
        if self.revision() != schema.HEAD:
            self.unchecked(lambda conn: schema.upgrade(conn, self.tables), write=True)

    def stamp(self, revision: str) -> None:
        """Write down the schema's revision without migrating."""
        self.unchecked(lambda conn: schema.stamp(conn, self.tables, revision), write=True)

    def unchecked(self, work: Work[T], *, write: bool = False) -> T:
        """As `run`, whatever the schema and the keys are."""
        self._check_open()
        return self._work(work, write, alone=True)

    def scrub(self) -> None:
        """Have an SQLite file hold nothing of what was changed or deleted; a server does that in its own time.

        Raises StorageError where that cannot be.
        """
        if self._commits is not None and not isinstance(self.engine.pool, StaticPool):
            with self._trial(sqlite.scrub, None):
                self._commits.alone(sqlite.scrub, self.engine.connect)

    def close(self) -> None:
        """Close every connection that this object opened; a given engine stays open."""
        self._close(wait=False)

    async def aclose(self) -> None:
        """As `close`, and waits for the connections of the running loop, and for what its tasks left in threads."""
        self.closed = True
        try:
            await self._loops.aclose()
        finally:
            await asyncio.to_thread(self._close, wait=True)

    def _close(self, *, wait: bool) -> None:
        self.closed = True
        self._threads.close(wait=wait)
        if self._at_hand is not None:
            self._at_hand.shut()
        if not self._is_given:
            with self._single:  # SQLite crashes if a connection is closed while another thread uses it
                self.engine.dispose()
        self._loops.close()

    def _revision(self, conn: Connection) -> str | None:
        return schema.current(conn, self.tables)

    def _fits(self, conn: Connection) -> bool:
        """As `_keys_fit`. Raises SchemaError, too."""
        schema.check(conn, self.tables)
        return self._keys_fit(conn)

    def _keys_fit(self, conn: Connection) -> bool:
        """Whether the database has its key; False if it is to begin with ours. Raises WrongKey."""
        return keyring.check(conn, self.tables)

    def _kept(self, work: Work[T]) -> Work[T]:
        """The work under the database's key, with what it adds to the audit."""
        return self._keyed(audit.chained(work, self.tables, self.clock))

    def _keyed(self, work: Work[T]) -> Work[T]:
        """The work, during which nobody changes the key that it seals with."""

        def keyed(conn: Connection) -> T:
            keyring.hold(conn, self.tables)
            return work(conn)

        return keyed if self.tables.cipher.ids else work

    def _begin_key(self, conn: Connection) -> None:
        keyring.begin(conn, self.tables, stamp(conn, self.clock))

    async def _in_threads(self, work: Work[T], write: bool, unsure: Work[T] | None, durable: bool) -> T:
        if self._commits is None or not write or not self._ready:
            return await self._threads.run(partial(self.run, work, write=write, unsure=unsure, durable=durable))
        trial = self._trial(self._kept(work) if durable else work, unsure and self._kept(unsure))
        begin = partial(self._transaction, True)
        piece = Tried(trial, self._commits, begin, durable)
        return await self._threads.written(piece, partial(self._commits.write, begin=begin))

    def _work(
        self,
        work: Work[T],
        write: bool,
        unsure: Work[T] | None = None,
        *,
        alone: bool = False,
        durable: bool = True,
    ) -> T:
        trial = self._trial(work, unsure)
        begin = partial(self._transaction, write)
        commits = self._commits if write else None

        def attempt() -> T:
            if commits is not None:
                return commits.alone(trial.run, begin) if alone else commits.together(trial.run, begin, durable=durable)
            with begin() as conn:
                return trial.run(conn)

        return trial.ended(attempt)

    def _trial(self, work: Work[T], unsure: Work[T] | None) -> Trial[T]:
        return Trial(work, unsure, patient=self._ready, file=self._file, keys=lambda: self.tables.cipher)

    def _transaction(self, write: bool, durable: bool = True) -> AbstractContextManager[Connection]:
        if self._at_hand is not None:
            return sqlite.Transaction(self._at_hand, self._check_open, write, durable)
        return self._pooled(write, durable)

    @contextmanager
    def _pooled(self, write: bool, durable: bool) -> Iterator[Connection]:
        gate = forks.gate if self.is_sqlite or not self._ready else nullcontext()  # the first connection has a lock
        with gate, self._single:
            self._check_open()  # again: it may have been closed while this waited
            if not self.is_sqlite:
                with self.engine.connect() as conn:
                    if self._is_given:
                        isolate(conn)
                    with conn.begin():
                        yield conn
            else:
                with self.engine.connect() as conn, sqlite.transaction(conn, write, durable):
                    yield conn

    async def _awork(self, engine: AsyncEngine, work: Work[T], unsure: Work[T] | None = None) -> T:
        trial = self._trial(work, unsure)
        while True:
            with trial:
                self._check_open()
                async with engine.connect() as conn:
                    if self._given_async is not None:
                        await conn.run_sync(isolate)
                    async with conn.begin():
                        return await conn.run_sync(trial.run)
            await asyncio.sleep(trial.pause)

    def _check_open(self) -> None:
        if self.closed:
            raise Closed(CLOSED)

    async def _async_engine(self) -> AsyncEngine | None:
        """The async engine of the running loop, if the driver has an asyncio side."""
        if self._given_async is not None:
            return self._given_async
        is_async = self._owned and self.url.drivername in ASYNC_DRIVERS
        return await self._loops.engine() if is_async else None


def _came_back(database: Callable[[], Database | None], connection: Any, record: Any) -> None:
    """Close a connection that was in use when its pool was closed: it would stay open until something collects it."""
    found = database()
    if found is not None and found.closed:
        record.invalidate()


def _collected(engine: Engine, at_hand: sqlite.AtHand | None, process: int) -> None:
    """Close the files of a database that nobody closed, in the process that opened them."""
    if os.getpid() == process:
        if at_hand is not None:
            at_hand.close()
        engine.dispose()
