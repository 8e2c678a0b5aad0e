"""Pruning: of a thread only what it goes on from is kept; threads that rest are found by an index, not read."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from sqlalchemy import Connection, exists, func, or_, select

from scallion.errors import ConfigurationError
from scallion.sql import checkpoints, lifecycle, sessions
from scallion.sql.checkpoints import StoredCheckpoint
from scallion.sql.tables import Tables

Key = tuple[str, str]
"""A checkpoint of a session: namespace and id."""

PAGE = 500
"""How many resting threads are looked up at a time."""


def prune(conn: Connection, t: Tables, threads: Sequence[str], strategy: str, owner: str | None = None) -> None:
    """Keep what each thread goes on from ("keep_latest"), or delete the threads ("delete")."""
    if strategy not in ("keep_latest", "delete"):
        raise ConfigurationError(f'the strategy is "keep_latest" or "delete", not {strategy!r}')
    for thread in threads:
        if strategy == "delete":
            sessions.remove(conn, t, thread, owner)
        elif (session := sessions.locked(conn, t, thread, owner)) is not None:
            lifecycle.drop(conn, t, session, superfluous(conn, t, session))


def superfluous(conn: Connection, t: Tables, session: int) -> list[Key]:
    """The checkpoints that the thread can do without.

    It needs the newest of each namespace, and what an open approval is about. The namespace of a subgraph's call goes
    with the checkpoint that made the call. Among them are those that were never stored, as the program died, and of
    which there are writes.
    """
    c = t.checkpoints.c
    every = {(ns, id) for ns, id in conn.execute(select(c.ns, c.id).where(c.session == session))}
    every |= _abandoned(conn, t, session)
    kept: set[Key] = set()
    for key in _heads(conn, t, session):
        row = checkpoints.row(conn, t, session, *key)
        if row is not None and _calls(row) & every <= kept:
            kept.add(key)
    return sorted(every - kept)


def _abandoned(conn: Connection, t: Tables, session: int) -> set[Key]:
    """What only writes belong to, and the thread has gone on without: a newer checkpoint may still be on its way."""
    w, s = t.writes.c, t.sessions.c
    head = select(s.head).where(s.no == session).scalar_subquery()
    old = select(w.ns, w.checkpoint).distinct().where(w.session == session, w.checkpoint < head)
    return {(ns, id) for ns, id in conn.execute(old)}


def _heads(conn: Connection, t: Tables, session: int) -> list[Key]:
    """The newest checkpoints and those with open approvals, callers before what they called."""
    c, a = t.checkpoints.c, t.approvals.c
    newest = select(c.ns, func.max(c.id)).where(c.session == session).group_by(c.ns)
    waiting = select(a.ns, a.checkpoint, a.root).where(a.session == session, sessions.waits(t))
    found = {(ns, id) for ns, id in conn.execute(newest)}
    for ns, id, root in conn.execute(waiting):
        found |= {(ns, id), ("", root)}
    return sorted(found, key=lambda key: (_depth(key[0]), key))


def _depth(ns: str) -> int:
    return len(ns.split("|")) if ns else 0


def _calls(row: StoredCheckpoint) -> set[Key]:
    """The checkpoints that made the call which this is one of; a subgraph that keeps its state is not bound to one."""
    return set((row.metadata.get("parents") or {}).items()) if ":" in row.ns else set()


def resting(
    conn: Connection, t: Tables, status: str, before: int, after: tuple[int, int] | None = None, *, past: bool = False
) -> Sequence[tuple[int, int]]:
    """One page of threads of this status that nothing has changed since `before`: (time, number) each, in order.

    `past`: only those of several checkpoints, so that what was pruned before costs nothing.
    """
    s, older, newer = t.sessions.c, t.checkpoints.alias().c, t.checkpoints.alias().c
    query = select(s.updated, s.no).where(s.status == status, s.updated <= before).order_by(s.updated, s.no)
    if past:
        query = query.where(exists().where(older.session == s.no, newer.session == s.no, older.id < newer.id))
    if after is not None:
        query = query.where(s.updated >= after[0], or_(s.updated > after[0], s.no > after[1]))
    return [(updated, no) for updated, no in conn.execute(query.limit(PAGE))]


def prune_resting(
    conn: Connection, t: Tables, no: int, statuses: Iterable[str], before: int, *, delete: bool, dry_run: bool
) -> str | None:
    """Prune a thread unless something has happened to it meanwhile; its name if there was something to do."""
    s = t.sessions.c
    still = select(s.thread).where(s.no == no, s.status.in_(statuses), s.updated <= before)
    thread: str | None = conn.execute(still.with_for_update()).scalar()
    if thread is None:
        return None
    doomed: Any = delete or superfluous(conn, t, no)
    if doomed and not dry_run:
        sessions.remove(conn, t, thread) if delete else lifecycle.drop(conn, t, no, doomed)
    return thread if doomed else None
