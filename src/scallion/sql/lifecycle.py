"""The life of stored data: threads are copied and rid of checkpoints; what nothing refers to is collected."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    Table,
    and_,
    delete,
    func,
    insert,
    literal,
    select,
    tuple_,
    update,
)

from scallion.sql import checkpoints, items, last_turn, ledger, lineage, resealing, sessions, strays, votes, writes
from scallion.sql.encoding import is_runs, references, runs
from scallion.sql.tables import Tables


def delete_runs(conn: Connection, t: Tables, runs: Sequence[str], owner: str | None = None) -> list[str]:
    """Delete the checkpoints of these runs with their writes, and threads that have no others; gives the threads left.

    What the rows of these say is no longer true.
    """
    c = t.checkpoints.c
    query = select(c.session, c.ns, c.id).where(c.run.in_(runs))
    if owner is not None:
        query = query.where(c.session.in_(select(t.sessions.c.no).where(t.sessions.c.owner == owner)))
    doomed: dict[int, list[tuple[str, str]]] = {}
    for session, ns, id in conn.execute(query):
        doomed.setdefault(session, []).append((ns, id))
    left: list[str] = []
    for session in sorted(doomed):
        query = select(t.sessions.c.thread).where(t.sessions.c.no == session).with_for_update()
        thread: str | None = conn.execute(query).scalar()
        if thread is None:  # deleted before it could be locked
            continue
        drop(conn, t, session, doomed[session])
        if conn.execute(select(c.id).where(c.session == session).limit(1)).first():
            left.append(thread)
        else:
            sessions.remove(conn, t, thread)
    return left


def drop(conn: Connection, t: Tables, session: int, keys: Sequence[tuple[str, str]]) -> None:
    """Delete these checkpoints, by namespace and id, and all that only they need."""
    c, w, a = t.checkpoints.c, t.writes.c, t.approvals.c
    lineage.keep_past(conn, t, session, keys)
    _hold_trace(conn, t, session, keys)
    for batch in items.batches(keys):
        conn.execute(delete(t.checkpoints).where(c.session == session, tuple_(c.ns, c.id).in_(batch)))
        conn.execute(delete(t.writes).where(w.session == session, tuple_(w.ns, w.checkpoint).in_(batch)))
        gone = and_(a.session == session, a.status.in_(sessions.OPEN), tuple_(a.ns, a.checkpoint).in_(batch))
        ledger.end(conn, t, gone, "superseded")
    for batch in items.batches(keys):
        orphans = and_(c.session == session, tuple_(c.ns, c.parent).in_(batch))
        conn.execute(update(t.checkpoints).where(orphans).values(parent=None))
    strays.drop_left(conn, t, session)
    sessions.recount(conn, t, session)
    head = select(func.max(c.id)).where(c.session == session, c.ns == "").scalar_subquery()
    conn.execute(update(t.sessions).where(t.sessions.c.no == session).values(head=head))
    collect(conn, t, session)


def _hold_trace(conn: Connection, t: Tables, session: int, keys: Sequence[tuple[str, str]]) -> None:
    """Have the trace of the turn that the thread goes on from stand at the checkpoint that stays."""
    r, c = t.traces.c, t.checkpoints.c
    head = conn.execute(select(func.max(c.id)).where(c.session == session, c.ns == "")).scalar()
    turn = None if ("", head) in keys else last_turn.at(conn, t, session, head)
    if turn is not None:
        conn.execute(update(t.traces).where(r.session == session, r.turn == turn).values(checkpoint=head))


def collect(conn: Connection, t: Tables, session: int) -> None:
    """Delete the items and log entries of the session that nothing refers to."""
    used, spans = _used(conn, t, session)
    e, i = t.entries.c, t.items.c
    query = select(e.channel, e.pos, e.item).where(e.session == session).order_by(e.channel, e.pos)
    log = conn.execute(query).all()
    live = {(channel, pos) for channel, first, last in spans for pos in range(first, last + 1)}
    used |= {item for channel, pos, item in log if (channel, pos) in live}
    for channel, rows in groupby(log, key=itemgetter(0)):
        items.cut(conn, t, session, channel, (pos for _, pos, _ in rows if (channel, pos) not in live))
    stored = conn.execute(select(i.id).where(i.session == session)).scalars()
    for ids in items.batches([id for id in stored if id not in used]):
        conn.execute(delete(t.items).where(i.session == session, i.id.in_(ids)))
    length = func.length(i.data) - t.cipher.overhead
    size = select(func.coalesce(func.sum(length), 0)).where(i.session == session).scalar_subquery()
    # The next generation: what a process remembers of this session's items holds no longer.
    s = t.sessions.c
    changes = {"generation": s.generation + 1, "version": s.version + 1, "bytes": size}
    conn.execute(update(t.sessions).where(t.sessions.c.no == session).values(changes))


def _used(conn: Connection, t: Tables, session: int) -> tuple[set[int], set[tuple[str, int, int]]]:
    """The items that checkpoints and writes refer to, and the ranges of the logs."""
    used: set[int] = set()
    spans: set[tuple[str, int, int]] = set()
    for form, stored in checkpoints.every(conn, t, session):
        used.add(form)
        for channel, found in stored.leaves:
            if is_runs(found):
                spans.update((channel, first, last) for first, last in runs(found))
            else:
                used.update(references(found))
    for _, _, written in writes.every(conn, t, session):
        used.update(id for _, found in written.values() for id in references(found))
    return used, spans


def copy(conn: Connection, t: Tables, source: str, target: str, now: Any, owner: str | None = None) -> None:
    """Copy a whole thread, open approvals included. Raises StorageError if the target exists."""
    old = sessions.locked(conn, t, source, owner)
    if old is None:
        return
    new = sessions.vacant(conn, t, target, now, owner).no
    # All numbers in them are the session's own. With its effects a copy knows what it must not do again.
    for name in ("items", "entries", "checkpoints", "writes", "effects", "inbound"):
        _copy_rows(conn, t, name, old, new)
    _copy_rows(conn, t, "approvals", old, new, sessions.waits(t))
    _copy_rows(conn, t, "votes", old, new, votes.are_open(t, old))
    _copy_tags(conn, t, old, new)
    names = (
        "owner", "agent", "title", "preview", "message_count", "bytes", "head", "progress", "status", "item_count",
        "tag_count",
    )  # fmt: skip
    row = conn.execute(select(*(t.sessions.c[name] for name in names)).where(t.sessions.c.no == old)).one()
    told = resealing.Move(t.cipher, t.cipher, old, new).sealed("sessions", dict(row._mapping))
    conn.execute(update(t.sessions).where(t.sessions.c.no == new).values({**row._mapping, **told}))
    sessions.recount(conn, t, new)


def is_copy(conn: Connection, t: Tables, source: str, target: str) -> bool:
    """Whether the threads have the same checkpoints."""
    c, s = t.checkpoints.c, t.sessions.c
    ours, theirs = (
        set(conn.execute(select(c.ns, c.id).join(t.sessions, s.no == c.session).where(s.thread == thread)).all())
        for thread in (source, target)
    )
    return ours == theirs


def _copy_tags(conn: Connection, t: Tables, old: int, new: int) -> None:
    g, s = t.session_tags.c, t.sessions.c
    times = (select(column).where(s.no == new).scalar_subquery() for column in (s.created, s.updated))
    chosen = select(literal(new), g.tag, *times).where(g.session == old)
    conn.execute(insert(t.session_tags).from_select(["session", "tag", "created", "updated"], chosen))


def _copy_rows(conn: Connection, t: Tables, name: str, old: int, new: int, *which: ColumnElement[bool]) -> None:
    if t.cipher.ids and name in resealing.SEALED:
        resealing.copy(conn, t, name, old, new, *which)
        return
    table: Table = getattr(t, name)
    names = [column.name for column in table.columns if column.name not in ("no", "session")]
    chosen = select(literal(new), *(table.c[name] for name in names)).where(table.c.session == old, *which)
    chosen = chosen.order_by(*table.primary_key.columns)  # what is numbered keeps its order
    conn.execute(insert(table).from_select(["session", *names], chosen))
