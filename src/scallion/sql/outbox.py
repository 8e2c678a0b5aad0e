"""The outbox: rows that say what somebody is to be told, written in the transaction of what it is about.

    waiting     to be sent at `due`, or being sent until then
    delivered   somebody was told
    skipped     the approval was decided or closed before
    failed      it was tried too often

Who sends takes a row by a compare-and-set: it moves `due` behind the time that the sending may take. So no two send it
at the same moment, and what a process that died was sending is due again. Of one approval's rows the older go first.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from hashlib import sha256
from typing import Any, Literal, get_args

from sqlalchemy import ColumnElement, Connection, Row, Select, and_, exists, select, update

from scallion.errors import ConfigurationError, UnknownApproval
from scallion.notify import Notification
from scallion.sql import ledger, sessions
from scallion.sql.clock import from_micros
from scallion.sql.sessions import Page
from scallion.sql.tables import Tables

DeliveryStatus = Literal["waiting", "delivered", "skipped", "failed"]
STATUSES = get_args(DeliveryStatus)
UNDELIVERED: tuple[DeliveryStatus, ...] = ("waiting", "failed")
NUMBER = re.compile(r"([0-9]{1,18})-", re.ASCII)
"""The number of a row, as an id begins with it."""


@dataclass(frozen=True, slots=True)
class Delivery:
    """A notification on its way: `status` is "waiting", "delivered", "skipped" or "failed". Times are UTC and aware.

    `due_at`: when it is sent, or sent again; None unless it waits. `error`: why the last attempt failed.
    """

    id: str
    event: str
    approval: str
    thread: str
    status: DeliveryStatus
    attempts: int
    created_at: datetime
    due_at: datetime | None = None
    delivered_at: datetime | None = None
    error: str | None = None

    def to_json(self) -> dict[str, Any]:
        """Plain data, times as ISO 8601 texts."""
        plain = {one.name: getattr(self, one.name) for one in fields(self)}
        return {name: value.isoformat() if isinstance(value, datetime) else value for name, value in plain.items()}


@dataclass(frozen=True, slots=True)
class Taken:
    """A row that this process is to send; None in place of the notification: nobody needs it any more."""

    no: int
    attempts: int
    notification: Notification | None


def due(conn: Connection, t: Tables, now: Any, limit: int, owner: str | None) -> list[tuple[int, int]]:
    """Number and time of rows that are to be sent, none of which waits for an older one of its approval."""
    o, older = t.outbox.c, t.outbox.alias("older")
    blocked = exists(
        select(older.c.no).where(
            older.c.session == o.session, older.c.subject == o.subject, older.c.no < o.no, older.c.due.is_not(None)
        )
    )
    query = select(o.no, o.due).where(o.due <= now, ~blocked, *_owned(t, owner)).order_by(o.due, o.no).limit(limit)
    return [(row.no, row.due) for row in conn.execute(query)]


def _owned(t: Tables, owner: str | None) -> list[ColumnElement[bool]]:
    if owner is None:
        return []
    a, o = t.approvals.c, t.outbox.c
    return [exists(select(a.no).where(a.session == o.session, a.id == o.subject, a.owner == owner))]


def take(conn: Connection, t: Tables, no: int, seen: int, now: Any, hold: int, *, include_args: bool) -> Taken | None:
    """Take a row to send it within `hold` microseconds; None where somebody else has."""
    o = t.outbox.c
    mine = update(t.outbox).where(o.no == no, o.due == seen).values(due=now + hold, attempts=o.attempts + 1)
    if conn.execute(mine).rowcount != 1:
        return None
    s = t.sessions
    row = conn.execute(select(t.outbox, s.c.thread).join(s, s.c.no == o.session).where(o.no == no)).one()
    told = _notification(conn, t, row, now, include_args)
    if told is None:
        skipped = {"status": "skipped", "due": None, "error": None, "attempts": row.attempts - 1}
        conn.execute(update(t.outbox).where(o.no == no).values(skipped))
    return Taken(no, row.attempts, told)


def _notification(conn: Connection, t: Tables, row: Row[Any], now: Any, include_args: bool) -> Notification | None:
    try:
        asked = ledger.get(conn, t, row.subject, now, thread=row.thread)
    except UnknownApproval:
        return None
    if asked.status != "pending":
        return None
    return Notification(
        id=_id(row),
        event=row.event,
        approval=asked.id,
        thread=asked.thread,
        owner=asked.owner,
        kind=asked.kind,
        tool=asked.tool,
        allowed=tuple(asked.allowed),
        requested_by=asked.requested_by,
        deciders=asked.deciders,
        escalated=asked.escalated,
        created_at=asked.created_at,
        expires_at=asked.expires_at,
        description=asked.description if include_args else None,
        args=asked.args if include_args else None,
    )


def _id(row: Row[Any]) -> str:
    """The same for a row whenever it is sent, another one in every other database; letters and digits."""
    return f"{row.no}-{sha256(f'{row.subject}/{row.created}'.encode()).hexdigest()[:16]}"


def delivered(conn: Connection, t: Tables, no: int, now: Any) -> None:
    """Note that somebody was told, whoever is sending it again at this moment."""
    values = {"status": "delivered", "delivered": now, "due": None, "error": None}
    conn.execute(update(t.outbox).where(t.outbox.c.no == no, t.outbox.c.status != "delivered").values(values))


def failed(conn: Connection, t: Tables, taken: Taken, error: str, again: Any) -> None:
    """Note why it failed, and when it is due `again`; never, if that is None."""
    o = t.outbox.c
    values = {"error": error, "due": again} | ({"status": "failed"} if again is None else {})
    mine = and_(o.no == taken.no, o.status == "waiting", o.attempts == taken.attempts)
    conn.execute(update(t.outbox).where(mine).values(values))


def retry(conn: Connection, t: Tables, now: Any, owner: str | None, id: str | None = None) -> int:
    """Have what failed wait again, all or one, from its first attempt on; how many that are."""
    values = {"status": "waiting", "due": now, "attempts": 0}
    this = [] if id is None else [t.outbox.c.no == _number(conn, t, owner, id)]
    which = and_(t.outbox.c.status == "failed", *this, *_owned(t, owner))
    return conn.execute(update(t.outbox).where(which).values(values)).rowcount


def _number(conn: Connection, t: Tables, owner: str | None, id: object) -> int:
    """The number of the row with this id; raises ConfigurationError."""
    found = NUMBER.match(id) if isinstance(id, str) else None
    if found:
        query = select(t.outbox).where(t.outbox.c.no == int(found[1]), *_owned(t, owner))
        row = conn.execute(query).one_or_none()
        if row is not None and _id(row) == id:
            return int(row.no)
    raise ConfigurationError(f"no notification has the id {id!r}")


def page(
    conn: Connection,
    t: Tables,
    statuses: Sequence[str],
    *,
    owner: str | None = None,
    limit: int = 50,
    after: str | None = None,
) -> Page[Delivery]:
    """Rows of these statuses, the oldest first."""
    for status in statuses:
        sessions.check_choice("status", status, STATUSES)
    query = _shown(t).where(t.outbox.c.status.in_(statuses), *_owned(t, owner))
    rows, following = sessions.numbered(conn, query, t.outbox.c.no, limit, after)
    return Page([_delivery(row) for row in rows], following)


def _shown(t: Tables) -> Select[Any]:
    return select(t.outbox, t.sessions.c.thread).join(t.sessions, t.sessions.c.no == t.outbox.c.session)


def _delivery(row: Row[Any]) -> Delivery:
    return Delivery(
        id=_id(row),
        event=row.event,
        approval=row.subject,
        thread=row.thread,
        status=row.status,
        attempts=row.attempts,
        created_at=from_micros(row.created),
        due_at=None if row.due is None else from_micros(row.due),
        delivered_at=None if row.delivered is None else from_micros(row.delivered),
        error=row.error,
    )
