"""What is put into the outbox, and when: in the transaction that asks, by whoever was told to tell."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, and_, insert, select, update

from scallion.sql.tables import Tables


def asked(conn: Connection, t: Tables, session: int, id: str, now: Any) -> None:
    """Somebody is to be told that this approval is pending; what was going to tell it before is not sent any more."""
    if not t.tells:
        return
    o = t.outbox.c
    older = and_(o.session == session, o.subject == id, o.due.is_not(None))
    conn.execute(update(t.outbox).where(older).values(status="skipped", due=None))
    _add(conn, t, session, id, "asked", now)


def escalated(conn: Connection, t: Tables, session: int, id: str, now: Any) -> None:
    """The same people are to be told that others may decide now: wherever somebody was to be told that it was asked."""
    if _is_told(conn, t, session, id):
        _add(conn, t, session, id, "escalated", now)


def withdrawn(conn: Connection, t: Tables, session: int, id: str, now: Any) -> None:
    """The approval is pending again: what was skipped because it was decided is to be sent."""
    o = t.outbox.c
    skipped = and_(o.session == session, o.subject == id, o.status == "skipped")
    last = conn.execute(select(o.no).where(skipped).order_by(o.no.desc()).limit(1)).scalar()
    if last is not None:
        conn.execute(update(t.outbox).where(o.no == last).values(status="waiting", due=now))


def _is_told(conn: Connection, t: Tables, session: int, id: str) -> bool:
    o = t.outbox.c
    return conn.execute(select(o.no).where(o.session == session, o.subject == id).limit(1)).first() is not None


def _add(conn: Connection, t: Tables, session: int, id: str, event: str, now: Any) -> None:
    values = {"session": session, "subject": id, "event": event, "status": "waiting", "attempts": 0}
    conn.execute(insert(t.outbox).values(**values, created=now, due=now))
