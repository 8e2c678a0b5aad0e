"""Sessions as they are listed: one page of them, or one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, Row, or_, select

from scallion.sql import holders, marks, searching, sessions
from scallion.sql.clock import from_micros
from scallion.sql.sessions import SEALED, Page, Session
from scallion.sql.tables import Tables


def page(
    conn: Connection,
    t: Tables,
    *,
    status: str | None = None,
    owner: str | None = None,
    tag: str | None = None,
    agent: str | None = None,
    search: Sequence[str] | None = None,
    archived: bool | None = False,
    order: str = "updated",
    limit: int = 50,
    after: str | None = None,
) -> Page[Session]:
    """Sessions, the newest by `order` first; `search`: those that have all of these words."""
    sessions.check_choice("archived", archived, [None, False, True])
    sessions.check_limit(limit)
    sessions.check_choice("order", order, sessions.ORDERS)
    sessions.check_choice("status", status, [None, *sessions.STATUSES])
    s, g = t.sessions.c, t.session_tags.c
    if archived and tag is None:
        tag, archived = marks.ARCHIVED, None  # which an index has in order
    wanted = {s.status: status, s.owner: owner, s.agent: agent, g.tag: tag}
    query = select(t.sessions).where(*(column == value for column, value in wanted.items() if value is not None))
    ordered, no = s[order], s.no
    if tag is not None:  # a tag has the times of its session, so that an index of its own has their order
        query = query.join(t.session_tags, g.session == s.no)
        ordered, no = g[order], g.session
    if archived is not None:
        lacks = marks.lacks(t, marks.ARCHIVED)
        query = query.where(~lacks if archived else lacks)
    if search is not None:
        query = searching.narrowed(conn, t, query, search)
    if after is not None:
        moment, last = sessions.cursor(after, 2, order)
        query = query.where(ordered <= moment, or_(ordered < moment, no < last))
    rows = conn.execute(query.order_by(ordered.desc(), no.desc()).limit(limit + 1)).all()
    more = rows[limit - 1] if len(rows) > limit else None
    return Page(
        _sessions(conn, t, rows[:limit], search or ()), f"{order}.{more._mapping[order]}.{more.no}" if more else None
    )


def get(conn: Connection, t: Tables, thread: str, owner: str | None = None) -> Session | None:
    """The session of `thread`; None if there is none, or it is another owner's."""
    query = select(t.sessions).where(t.sessions.c.thread == thread)
    if owner is not None:
        query = query.where(t.sessions.c.owner == owner)
    return next(iter(_sessions(conn, t, conn.execute(query).all())), None)


def _sessions(conn: Connection, t: Tables, rows: Sequence[Row[Any]], search: Sequence[str] = ()) -> list[Session]:
    found = searching.passages(conn, t, [row.no for row in rows], search)
    tags: dict[int, list[str]] = {}
    g = t.session_tags.c
    if tagged := [row.no for row in rows if row.tag_count]:
        for no, tag in conn.execute(select(g.session, g.tag).where(g.session.in_(tagged))):
            tags.setdefault(no, []).append(tag)
    return [_session(t, row, tags.get(row.no, ()), found.get(row.no)) for row in rows]


def _session(t: Tables, row: Row[Any], tags: Sequence[str], found: str | None) -> Session:
    title, preview = (
        None if (text := getattr(row, name)) is None else t.cipher.open_text(text, f"sessions.{name}", row.no)
        for name in SEALED
    )
    return Session(
        thread=row.thread,
        status=row.status,
        created=from_micros(row.created),
        updated=from_micros(row.updated),
        owner=row.owner,
        agent=row.agent,
        title=title,
        preview=preview,
        message_count=row.message_count,
        pending_count=row.pending_count,
        bytes=row.bytes,
        tags=tuple(sorted(tag for tag in tags if not marks.is_mark(tag))),
        archived=marks.ARCHIVED in tags,
        holder=row.holder and holders.shown(row.holder),
        held_since=None if row.held_since is None else from_micros(row.held_since),
        held_until=None if row.held_until is None else from_micros(row.held_until),
        found=found,
    )
