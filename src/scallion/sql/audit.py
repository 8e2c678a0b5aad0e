"""The audit: what was decided and done, as one chain of hashes over the whole database. Rows are only added.

    hash = SHA-256 of the JSON of [hash before, no, at, event, thread, subject, by, detail]

so that a row that is changed, removed, put in or moved breaks the chain there. One row beside the table, the head,
holds the last number and hash: whoever adds locks it, so that one comes behind the other in every database.

A transaction adds its rows when all its work is done: the head is the last lock that it takes, which no two
transactions can wait for crosswise, and it is held until the commit only.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from hashlib import sha256
from typing import Any, NamedTuple, TypeVar

from sqlalchemy import BigInteger, ColumnElement, Connection, insert, literal, select, update

from scallion.approvals.chain import GENESIS, Link
from scallion.sql import names
from scallion.sql.clock import Clock, stamp, to_micros
from scallion.sql.failures import Work
from scallion.sql.prepared import prepared
from scallion.sql.statement import NoShortcut, StandIn
from scallion.sql.tables import Tables

T = TypeVar("T")
WAITING = "scallion.audit"
"""Where a connection keeps the rows that its transaction is going to add."""


class _Waiting(NamedTuple):
    now: Any
    rest: tuple[str, str, str | None, str | None, str]


def add(
    conn: Connection,
    t: Tables,
    event: str,
    *,
    thread: str,
    subject: str | None = None,
    by: str | None = None,
    detail: Mapping[str, Any] | None = None,
    now: Any = None,
) -> None:
    """Add a row when the transaction's work is done; outside of `chained`, at once.

    `subject`: the id of what it is about. `by`: a person, or a rule. `detail`: ids, digests, kinds and numbers; texts
    and arguments never. `now`: an instant, also as microseconds or an SQL expression; None: that of the adding.
    """
    if isinstance(conn, StandIn):
        raise NoShortcut
    fits = names.fitting
    row = _Waiting(now, (event, fits(thread) or "", fits(subject, 64), fits(by), _text(detail or {})))
    waiting = conn.info.get(WAITING)
    if waiting is None:
        _append(conn, t, [row], None)
    else:
        waiting.append(row)


def ending(conn: Connection, t: Tables, event: str, which: ColumnElement[bool], now: Any = None) -> int:
    """Add a row for each approval that `which` chooses, before they get another status; how many there are."""
    a, s = t.approvals.c, t.sessions.c
    thread = select(s.thread).where(s.no == a.session).scalar_subquery()
    query = select(a.id, a.status, thread.label("thread")).where(which).order_by(a.no).with_for_update()
    rows = conn.execute(query).all()
    for row in rows:
        add(conn, t, event, thread=row.thread, subject=row.id, detail={"was": row.status}, now=now)
    return len(rows)


def chained(work: Work[T], t: Tables, clock: Clock | None) -> Work[T]:
    """The work, behind which the rows that it adds are added."""

    def recorded(conn: Connection) -> T:
        waiting: list[_Waiting] = []
        if isinstance(conn, StandIn):
            return work(conn)
        info = conn.info  # of a connection that died it cannot be asked any more
        info[WAITING] = waiting
        try:
            done = work(conn)
        finally:
            del info[WAITING]
        if waiting:
            _append(conn, t, waiting, clock)
        return done

    return recorded


def digest(t: Tables, value: Any) -> str:
    """What stands for data in a detail; in an encrypted database it says nothing to who has no key."""
    plain = sha256(json.dumps(value, sort_keys=True, separators=(",", ":"), default=repr).encode()).digest()
    return t.cipher.digests(plain, 0)[0].hex()


def _text(detail: Mapping[str, Any]) -> str:
    for value in detail.values():
        parts = value if isinstance(value, list | tuple) else [value]
        if not all(isinstance(part, str | int | None) and len(str(part)) <= 255 for part in parts):
            raise TypeError("a detail of the audit is made of ids, digests, kinds and numbers")
    return json.dumps(detail, sort_keys=True, separators=(",", ":"))


def _append(conn: Connection, t: Tables, rows: Sequence[_Waiting], clock: Clock | None) -> None:
    last, before, now = _head(conn, t, next((row.now for row in rows if row.now is not None), stamp(conn, clock)))
    added: list[dict[str, Any]] = []
    for no, row in enumerate(rows, last + 1):
        link = Link(no, _instant(row.now, now), *row.rest)
        before = link.hash(before)
        added.append({**link._asdict(), "hash": before})
    conn.execute(insert(t.audit), added)
    conn.execute(update(t.audit_head).values(last=added[-1]["no"], hash=before))


def _head(conn: Connection, t: Tables, now: Any) -> tuple[int, str, int]:
    """The number and the hash of the last row, locked, and the present instant."""
    h = t.audit_head.c
    query = select(h.last, h.hash, _column(now)).with_for_update()
    found = conn.execute(query).one_or_none()
    if found is None:  # the first row of all; who else has the same idea waits here
        conn.execute(prepared(conn, t).unless_there(t.audit_head).values(no=1, last=0, hash=GENESIS))
        found = conn.execute(query).one()
    return found[0], found[1], found[2]


def _column(now: Any) -> ColumnElement[Any]:
    if isinstance(now, ColumnElement):
        return now
    return literal(to_micros(now) if isinstance(now, datetime) else now, BigInteger)


def _instant(given: Any, now: int) -> int:
    if isinstance(given, datetime):
        return to_micros(given)
    return given if isinstance(given, int) else now
