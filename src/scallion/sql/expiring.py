"""What time does to approvals: they expire, are escalated once, or are only overdue.

A row's `on_expire` says what comes at `expires`: null that it has expired, "keep" nothing, "escalate:NAME" that this
person may decide too from then on, and that the time starts anew. Listings show it at once; who decides, resumes or
sweeps writes it down.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, and_, func, or_, select, update

from scallion.approvals import deciders
from scallion.sql import audit, clock, ledger, names, sessions, telling
from scallion.sql.clock import to_micros
from scallion.sql.failures import Work
from scallion.sql.tables import Tables
from scallion.sql.view import Leased

BATCH = 200
"""How many approvals one transaction ends."""


@dataclass(frozen=True)
class Swept:
    """What a sweep found: how many have expired, how many it escalated, how many are overdue and stay open."""

    expired: int = 0
    escalated: int = 0
    overdue: int = 0

    def __add__(self, other: Swept) -> Swept:
        return Swept(*(getattr(self, one.name) + getattr(other, one.name) for one in fields(self)))

    def to_json(self) -> dict[str, int]:
        """Plain data."""
        return {one.name: getattr(self, one.name) for one in fields(self)}


def sweep(conn: Connection, t: Tables, now: int, thread: str | None, owner: str | None) -> tuple[Swept, bool]:
    """End and escalate one batch of what is due; and whether there may be more."""
    a = t.approvals.c
    late, mine = ledger.is_late(t, now), _of(t, thread, owner)
    is_due = and_(late, or_(a.on_expire.is_(None), a.on_expire != "keep"))
    found = conn.execute(select(a.no, a.session).where(is_due, *mine).order_by(a.expires).limit(BATCH)).all()
    sessions_held = hold(conn, t, {row.session for row in found})
    still = and_(a.no.in_([row.no for row in found]), is_due)  # somebody may have decided before they were held
    expired = ledger.end(conn, t, and_(still, a.on_expire.is_(None)), "expired", now)
    rows = conn.execute(ledger.rows(t, now).where(still)).all()
    for row in rows:
        escalate(conn, t, row, now)
    for session in sessions_held:
        sessions.recount(conn, t, session)
    if len(found) == BATCH:
        return Swept(expired, len(rows)), True
    kept = select(func.count()).select_from(t.approvals).where(late, a.on_expire == "keep", *mine)
    return Swept(expired, len(rows), int(conn.execute(kept).scalar_one())), False


def _of(t: Tables, thread: str | None, owner: str | None) -> list[ColumnElement[bool]]:
    a = t.approvals.c
    found = [] if owner is None else [a.owner == owner]
    if thread is not None:
        found.append(a.session == select(t.sessions.c.no).where(t.sessions.c.thread == thread).scalar_subquery())
    return found


def hold(conn: Connection, t: Tables, found: set[int]) -> Sequence[int]:
    """Lock these sessions, in one order for everybody."""
    s = t.sessions.c
    if not found:
        return ()
    return conn.execute(select(s.no).where(s.no.in_(found)).order_by(s.no).with_for_update()).scalars().all()


def escalate(conn: Connection, t: Tables, row: Row[Any], now: int) -> None:
    """From now on somebody else may decide too, for as long as it was asked for first."""
    name = deciders.role(row.on_expire)
    span = int((ledger.question_of(t, row).value.get("expires_in") or 0) * 1_000_000)
    changes = {"escalated": name, "expires": now + span, "on_expire": None}
    conn.execute(update(t.approvals).where(t.approvals.c.no == row.no).values(changes))
    telling.escalated(conn, t, row.session, row.id, now)
    audit.add(conn, t, "escalated", thread=row.thread, subject=row.id, detail={"to": name}, now=now)


class Sweeping(Leased):
    """Writes down what time did, for whoever has approvals."""

    def sweep(self, *, thread: str | None = None) -> Swept:
        """Mark what has expired, escalate what is to be escalated, of all threads or of one; how many there were.

        A transaction ends 200 at most. Nothing depends on it: whoever decides or resumes looks at the time too.
        """
        total, more = Swept(), True
        while more:
            found, more = self.database.run(self._sweep(thread), write=True)
            total += found
        return total

    async def asweep(self, *, thread: str | None = None) -> Swept:
        """As `sweep`."""
        total, more = Swept(), True
        while more:
            found, more = await self.database.arun(self._sweep(thread), write=True)
            total += found
        return total

    def _sweep(self, thread: str | None) -> Work[tuple[Swept, bool]]:
        thread = names.optional("thread id", thread)

        def work(conn: Connection) -> tuple[Swept, bool]:
            self._check_lease(conn)
            now = to_micros(clock.read(conn, self.database.clock))
            return sweep(conn, self.database.tables, now, thread, self.owner)

        return work
