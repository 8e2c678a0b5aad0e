"""Leases: the right to run a thread, of one turn at a time in all processes that share the database.

It lies in the session's row: a *fence* that every grant changes, who holds it, and until when. Granting is a
compare-and-set. What a turn writes carries its lease (`Lease.configurable` is part of the turn's config, which
LangGraph hands on to each write), and the transaction that writes compares the fences in the row that it locks anyway:
a holder that lost its lease writes nothing. All times are those of the database's clock; a process compares its own
clock only with itself.

A fence is a number that never comes twice, also where a crash of the database took a grant back or a thread was deleted
and made anew. So granting and releasing need not wait for the disk: what is lost is found free, or held until it
expires, and whoever believes to hold a lease that was lost is refused.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from secrets import randbits
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, and_, select, update

from scallion.approvals.naming import check_owner
from scallion.bridge import call
from scallion.errors import ConfigurationError, LeaseLost, NotPaused, StorageError, ThreadBusy, ThreadError
from scallion.sql import holders, names, owners, sessions, traces
from scallion.sql.clock import from_micros, stamp
from scallion.sql.failures import is_refusal
from scallion.sql.granting import Grants, grants
from scallion.sql.heartbeat import Heartbeat
from scallion.sql.sessions import Claimed
from scallion.sql.tables import Tables

if TYPE_CHECKING:
    from collections.abc import Mapping

    from scallion.sql.engines import Database
    from scallion.sql.failures import Work
    from scallion.sql.memory import Memory
    from scallion.tracing.recorder import Ended

log = logging.getLogger("scallion")
KEY = "__scallion_lease"
"""Where a config carries the lease: neither LangChain nor this library copies such a key into metadata."""

_CLOCK = getattr(time, "CLOCK_BOOTTIME", None)


def _elapsed() -> float:
    """Seconds of this machine, those included that it or the process slept."""
    return time.monotonic() if _CLOCK is None else time.clock_gettime(_CLOCK)


class Lease:
    """The right to run `thread`, once it is granted; `since` when it was, and `status` what the thread was then."""

    def __init__(self, leases: Leases, thread: str) -> None:
        self.thread = thread
        self.fence = randbits(62) + 1
        self.name = holders.begin()
        self.since: datetime | None = None
        self.status: str | None = None
        self.row: Claimed | None = None
        """What the session's row held when the lease was granted; None for a thread that is new."""
        self.is_new = False
        self.lost = False
        self.asked_to_stop = False
        self.was_cancelled = False
        """Whether the turn before, whose holder is gone, was to stop."""
        self.given_up = False
        self.sure_until = 0.0
        self.parts: list[Ended] = []
        """What is kept of the traces of its turns when it is released."""
        self.steps = 0
        """How many steps of the outermost graph were stored under it."""
        self._leases = leases

    @property
    def holder(self) -> str:
        """Who holds it, as people are told."""
        return holders.shown(self.name)

    @property
    def configurable(self) -> Mapping[str, Any]:
        """What the config of the turn carries."""
        return {KEY: self}

    def is_of(self, database: Database, thread: str) -> bool:
        """Whether it is about this thread."""
        return self._leases.database is database and self.thread == thread

    def admit(self, row: Claimed) -> None:
        """Raise LeaseLost unless the row, which the transaction holds, says that it holds."""
        if row.fence != self.fence:
            raise LeaseLost(self.thread)
        if row.asked_to_stop is not None:
            self.asked_to_stop = True

    def is_over(self) -> bool:
        """Whether the turn is to stop: the lease was lost, or somebody asked. The database says so where time is up."""
        if not self.lost and _elapsed() > self.sure_until:
            call(self._leases.renew, self._leases.arenew, self)
        return self.lost or self.asked_to_stop

    def beat(self) -> None:
        """Renew it."""
        if not self.lost and not self._leases.database.closed:
            self._leases.renew(self)

    def leave(self) -> None:
        """Release it, whatever became of its turn."""
        self._leases.release(self, failed=True)


def carried(config: Mapping[str, Any], database: Database, thread: str) -> Lease | None:
    """The lease that a config carries about this thread of this database."""
    found = (config.get("configurable") or {}).get(KEY)
    return found if isinstance(found, Lease) and found.is_of(database, thread) else None


def check(conn: Connection, t: Tables, lease: Lease | None) -> None:
    """Hold the session's row, and raise LeaseLost unless the lease holds: for what is written beside checkpoints."""
    if lease is not None:
        query = select(t.sessions.c.fence).where(t.sessions.c.thread == lease.thread)
        if conn.execute(query.with_for_update()).scalar() != lease.fence:
            raise LeaseLost(lease.thread)


class Leases:
    """The leases on the threads of one database; each lasts `seconds` unless it is renewed, which a thread does."""

    def __init__(self, database: Database, memory: Memory, seconds: float) -> None:
        if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not seconds > 0:
            raise ConfigurationError(f"lease_seconds is a number above zero or None, not {seconds!r}")
        self.database = database
        self.seconds = seconds
        self._memory = memory
        self._heartbeat = Heartbeat(seconds / 3)

    def take(self, thread: str, *, new: bool, owner: str | None = None, bound: str | None = None) -> Lease:
        """The lease on the thread, which is made if it is `new`.

        `owner`: whose it must be, unless it is nobody's; `bound`: whose it must be, or be unknown.
        Raises ThreadBusy where another turn holds it, ThreadError where it is another owner's, NotPaused where there is
        none and it is not `new`.
        """
        with self._taking(thread) as lease:
            self.database.find(self._take(lease, new, owner, bound), write=True)
        return lease

    async def atake(self, thread: str, *, new: bool, owner: str | None = None, bound: str | None = None) -> Lease:
        """As `take`."""
        with self._taking(thread) as lease:
            await self.database.afind(self._take(lease, new, owner, bound), write=True)
        return lease

    def renew(self, lease: Lease) -> None:
        """Have it last from now on, or note that it is lost."""
        begun = _elapsed()
        self._renewed(lease, begun, self.database.find(self._renew(lease), write=True))

    async def arenew(self, lease: Lease) -> None:
        """As `renew`."""
        begun = _elapsed()
        self._renewed(lease, begun, await self.database.afind(self._renew(lease), write=True))

    def release(self, lease: Lease, *, failed: bool) -> None:
        """Free the thread; one that was new and whose turn `failed` before it wrote anything is not there any more."""
        with self._releasing(lease):
            try:
                self.database.find(self._release(lease, failed), write=True)
            except StorageError as error:
                _lose_trace(lease, error)
                self.database.find(self._release(lease, failed), write=True)

    async def arelease(self, lease: Lease, *, failed: bool) -> None:
        """As `release`."""
        with self._releasing(lease):
            try:
                await self.database.afind(self._release(lease, failed), write=True)
            except StorageError as error:
                _lose_trace(lease, error)
                await self.database.afind(self._release(lease, failed), write=True)

    def give_up(self, lease: Lease) -> None:
        """Have it released soon, without waiting for the database."""
        lease.given_up = True
        holders.end(lease.name)
        self._heartbeat.give_up(lease)

    def ask_to_stop(self, thread: str, bound: str | None = None) -> bool:
        """Ask the turn that holds the thread to stop before its next call; whether there is one."""
        return self.database.run(self._ask_to_stop(thread, bound), write=True)

    async def aask_to_stop(self, thread: str, bound: str | None = None) -> bool:
        """As `ask_to_stop`."""
        return await self.database.arun(self._ask_to_stop(thread, bound), write=True)

    @contextmanager
    def _taking(self, thread: str) -> Iterator[Lease]:
        lease = Lease(self, names.text("thread id", thread))
        begun = _elapsed()
        try:
            yield lease
        except BaseException as error:
            holders.end(lease.name)
            if not isinstance(error, ThreadError):  # a thread of ours may be granted it yet
                self.give_up(lease)
            raise
        self._memory.rows.put([(lease.thread, lease.row)])
        lease.sure_until = begun + self.seconds
        self._heartbeat.add(lease)

    @contextmanager
    def _releasing(self, lease: Lease) -> Iterator[None]:
        self._heartbeat.remove(lease)
        try:
            yield
        except BaseException:
            if not lease.given_up:
                self.give_up(lease)
            raise
        finally:
            holders.end(lease.name)

    def _renewed(self, lease: Lease, begun: float, found: tuple[bool, bool]) -> None:
        holds, asked_to_stop = found
        lease.sure_until = begun + self.seconds
        lease.lost = lease.lost or not holds
        lease.asked_to_stop = lease.asked_to_stop or asked_to_stop

    def _statements(self, conn: Connection) -> Grants:
        return grants(self.database.tables, conn.dialect.name, self._now(conn) is None)

    def _now(self, conn: Connection) -> int | None:
        """The present instant; None where the server knows it."""
        now = stamp(conn, self.database.clock)
        return now if isinstance(now, int) else None

    def _times(self, conn: Connection) -> dict[str, int]:
        now = self._now(conn)
        return {"lasts": int(self.seconds * 1_000_000)} | ({} if now is None else {"now": now})

    def _take(self, lease: Lease, new: bool, owner: str | None, bound: str | None) -> Work[None]:
        def work(conn: Connection) -> None:
            if lease.given_up:
                raise ThreadError(lease.thread, "interrupted")
            for _ in range(sessions.ATTEMPTS):
                found = self._statements(conn).look.rows(conn, for_thread=lease.thread)
                if found:
                    if self._take_from(conn, lease, found[0], new, owner, bound):
                        return
                    continue  # somebody was faster: who that is says the row
                if not new:
                    raise NotPaused(lease.thread, f"there is no thread {lease.thread!r}")
                if self._make(conn, lease, owner=bound):
                    return
            raise ThreadBusy(lease.thread)

        return work

    def _take_from(
        self, conn: Connection, lease: Lease, found: Any, new: bool, owner: str | None, bound: str | None
    ) -> bool:
        *held, status, holder, since, until, told, _ = found
        row = Claimed(*held)
        _check_owner(row, lease.thread, new, owner, bound)
        now: Any = told or self._now(conn)
        mine = row.fence == lease.fence  # granted by a COMMIT whose answer was lost
        if holder is not None and until > now and not mine and not holders.is_gone(holder):
            raise ThreadBusy(lease.thread, holders.shown(holder), from_micros(since))
        grant = {"of": row.no, "seen": row.fence, "fence": lease.fence, "holder": lease.name, **self._times(conn)}
        if self._statements(conn).grant.run(conn, grant) != 1:
            return False
        lease.status, lease.since = status, from_micros(now)
        lease.was_cancelled = row.asked_to_stop is not None and not mine
        lease.row = row._replace(fence=lease.fence, asked_to_stop=None)
        return True

    def _make(self, conn: Connection, lease: Lease, owner: str | None) -> bool:
        """Make the thread, as one that the lease is on; False if somebody else just did."""
        held = {"fence": lease.fence, "holder": lease.name, **self._times(conn)}
        made = self._statements(conn).make.run(conn, sessions.new_row(lease.thread, owner) | held)
        lease.is_new = made == 1 or lease.is_new
        return lease.is_new

    def _renew(self, lease: Lease) -> Work[tuple[bool, bool]]:
        def work(conn: Connection) -> tuple[bool, bool]:
            s = self._statements(conn)
            given = {"for_thread": lease.thread, "seen": lease.fence, **self._times(conn)}
            if s.renew.run(conn, given) != 1:
                return False, False
            asked = s.asked.rows(conn, for_thread=lease.thread)
            return True, bool(asked) and asked[0][0] is not None

        return work

    def _release(self, lease: Lease, failed: bool) -> Work[None]:
        parts = traces.rows(lease.parts)

        def work(conn: Connection) -> None:
            s = self._statements(conn)
            if parts:
                now = self._now(conn)
                traces.release(conn, self.database.tables, s, lease, parts, now)
            else:
                s.release.run(conn, {"for_thread": lease.thread, "seen": lease.fence})
            if failed and lease.is_new:
                conn.execute(s.forget, {"for_thread": lease.thread, "seen": lease.fence})

        return work

    def _ask_to_stop(self, thread: str, bound: str | None) -> Work[bool]:
        thread = names.text("thread id", thread)

        def work(conn: Connection) -> bool:
            s, now = self.database.tables.sessions, stamp(conn, self.database.clock)
            held = and_(s.c.thread == thread, sessions.is_held(self.database.tables, now))
            if bound is not None:
                held = and_(held, s.c.owner == bound)
            return bool(conn.execute(update(s).where(held).values(asked_to_stop=now)).rowcount)

        return work


def _lose_trace(lease: Lease, error: StorageError) -> None:
    """Have the lease released without the trace that the database refused; raises the error if it is about others."""
    if not lease.parts or not is_refusal(error.__cause__):
        raise error
    lease.parts.clear()
    log.warning("the trace of a turn was refused, and is lost: %s", type(error.__cause__).__name__)


def _check_owner(row: Claimed, thread: str, new: bool, owner: str | None, bound: str | None) -> None:
    if bound is not None and row.owner != bound and not new:
        raise NotPaused(thread, f"there is no thread {thread!r}")
    owners.admit(thread, row.owner, bound)
    check_owner(thread, row.owner, owner)
