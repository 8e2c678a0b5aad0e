"""The life of stored data: threads are copied, pruned and rid of runs; what nothing refers to is collected."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sqlalchemy import ColumnElement, Connection, Table, and_, delete, func, insert, literal, select, tuple_, update

from scallion.errors import ConfigurationError, StorageError
from scallion.sql import checkpoints, items, ledger, sessions, writes
from scallion.sql.encoding import is_runs, references, runs
from scallion.sql.tables import Tables

STEPS = "counters_since_delta_snapshot"
"""Metadata of DeltaChannel graphs: per channel (updates, supersteps) since its value was stored as a whole."""


def prune(conn: Connection, t: Tables, threads: Sequence[str], strategy: str, owner: str | None = None) -> None:
    """Keep the newest checkpoint of each namespace ("keep_latest"), or delete the threads ("delete")."""
    if strategy not in ("keep_latest", "delete"):
        raise ConfigurationError(f'the strategy is "keep_latest" or "delete", not {strategy!r}')
    for thread in threads:
        if strategy == "delete":
            sessions.remove(conn, t, thread, owner)
        elif (session := _session(conn, t, thread, owner)) is not None:
            _keep_latest(conn, t, session)


def _session(conn: Connection, t: Tables, thread: str, owner: str | None) -> int | None:
    query = select(t.sessions.c.no).where(t.sessions.c.thread == thread)
    if owner is not None:
        query = query.where(t.sessions.c.owner == owner)
    found: int | None = conn.execute(query.with_for_update()).scalar()
    return found


def _keep_latest(conn: Connection, t: Tables, session: int) -> None:
    c = t.checkpoints.c
    newest = select(c.ns, func.max(c.id)).where(c.session == session).group_by(c.ns)
    kept = {(ns, id) for head in conn.execute(newest) for ns, id in _needed(conn, t, session, *head)}
    every = conn.execute(select(c.ns, c.id).where(c.session == session)).all()
    _drop(conn, t, session, [(ns, id) for ns, id in every if (ns, id) not in kept])


def _needed(conn: Connection, t: Tables, session: int, ns: str, head: str) -> Iterable[tuple[str, str]]:
    """The head, and those of its ancestors whose writes make up its delta channels."""
    row = checkpoints.row(conn, t, session, ns, head)
    counters: Mapping[str, Sequence[int]] = (row.metadata.get(STEPS) if row else None) or {}
    left = 1 + max((supersteps + 1 for _, supersteps in counters.values()), default=0)
    while row is not None and left:
        yield row.ns, row.id
        left -= 1
        row = checkpoints.row(conn, t, session, ns, row.parent) if row.parent else None


def delete_runs(conn: Connection, t: Tables, runs: Sequence[str], owner: str | None = None) -> None:
    """Delete the checkpoints of these runs with their writes."""
    c = t.checkpoints.c
    query = select(c.session, c.ns, c.id).where(c.run.in_(runs))
    if owner is not None:
        query = query.where(c.session.in_(select(t.sessions.c.no).where(t.sessions.c.owner == owner)))
    doomed: dict[int, list[tuple[str, str]]] = {}
    for session, ns, id in conn.execute(query):
        doomed.setdefault(session, []).append((ns, id))
    for session in sorted(doomed):
        conn.execute(select(t.sessions.c.no).where(t.sessions.c.no == session).with_for_update())
        _drop(conn, t, session, doomed[session])


def _drop(conn: Connection, t: Tables, session: int, keys: Sequence[tuple[str, str]]) -> None:
    c, w, a = t.checkpoints.c, t.writes.c, t.approvals.c
    for batch in items.batches(keys):
        conn.execute(delete(t.checkpoints).where(c.session == session, tuple_(c.ns, c.id).in_(batch)))
        conn.execute(delete(t.writes).where(w.session == session, tuple_(w.ns, w.checkpoint).in_(batch)))
        gone = and_(a.session == session, a.status.in_(ledger.OPEN), tuple_(a.ns, a.checkpoint).in_(batch))
        conn.execute(update(t.approvals).where(gone).values(status="superseded"))
    sessions.recount(conn, t, session)
    head = select(func.max(c.id)).where(c.session == session, c.ns == "").scalar_subquery()
    conn.execute(update(t.sessions).where(t.sessions.c.no == session).values(head=head))
    collect(conn, t, session)


def collect(conn: Connection, t: Tables, session: int) -> None:
    """Delete the items and log entries of the session that nothing refers to."""
    used, spans = _used(conn, t, session)
    e, i = t.entries.c, t.items.c
    log = conn.execute(select(e.channel, e.pos, e.item).where(e.session == session)).all()
    live = {(channel, pos) for channel, first, last in spans for pos in range(first, last + 1)}
    used |= {item for channel, pos, item in log if (channel, pos) in live}
    for entries in items.batches([(channel, pos) for channel, pos, _ in log if (channel, pos) not in live]):
        conn.execute(delete(t.entries).where(e.session == session, tuple_(e.channel, e.pos).in_(entries)))
    stored = conn.execute(select(i.id).where(i.session == session)).scalars()
    for ids in items.batches([id for id in stored if id not in used]):
        conn.execute(delete(t.items).where(i.session == session, i.id.in_(ids)))
    size = select(func.coalesce(func.sum(func.length(i.data)), 0)).where(i.session == session).scalar_subquery()
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
        for channel, found in stored.values.items():
            if is_runs(found):
                spans.update((channel, first, last) for first, last in runs(found))
            else:
                used.update(references(found))
    for _, _, written in writes.every(conn, t, session):
        used.update(id for _, found in written.values() for id in references(found))
    return used, spans


def copy(conn: Connection, t: Tables, source: str, target: str, now: Any, owner: str | None = None) -> None:
    """Copy a whole thread, open approvals included. Raises StorageError if the target has checkpoints."""
    old = _session(conn, t, source, owner)
    if old is None:
        return
    new = sessions.claim(conn, t, target, now, owner).no
    if conn.execute(select(t.checkpoints.c.id).where(t.checkpoints.c.session == new).limit(1)).first():
        raise StorageError(f"the thread {target!r} exists: delete it first, or copy to another")
    for table in (t.items, t.entries, t.checkpoints, t.writes):  # all numbers in them are the session's own
        _copy_rows(conn, table, old, new)
    _copy_rows(conn, t.approvals, old, new, t.approvals.c.status.in_(ledger.OPEN))
    names = ("owner", "agent", "title", "preview", "message_count", "bytes", "head", "progress", "status", "item_count")
    row = conn.execute(select(*(t.sessions.c[name] for name in names)).where(t.sessions.c.no == old)).one()
    conn.execute(update(t.sessions).where(t.sessions.c.no == new).values(dict(row._mapping)))
    sessions.recount(conn, t, new)


def is_copy(conn: Connection, t: Tables, source: str, target: str) -> bool:
    """Whether the threads have the same checkpoints."""
    c, s = t.checkpoints.c, t.sessions.c
    ours, theirs = (
        set(conn.execute(select(c.ns, c.id).join(t.sessions, s.no == c.session).where(s.thread == thread)).all())
        for thread in (source, target)
    )
    return ours == theirs


def _copy_rows(conn: Connection, table: Table, old: int, new: int, *which: ColumnElement[bool]) -> None:
    names = [column.name for column in table.columns if column.name not in ("no", "session")]
    chosen = select(literal(new), *(table.c[name] for name in names)).where(table.c.session == old, *which)
    conn.execute(insert(table).from_select(["session", *names], chosen))
