"""Traces that are of no checkpoint, or that nobody can read."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Connection, delete, exists, select

from scallion.sql import items
from scallion.sql.tables import Tables
from scallion.sql.traces import NOWHERE, is_readable


def _without_step(conn: Connection, t: Tables, nos: Sequence[int]) -> dict[tuple[int, str], set[str]]:
    """By session and turn, where the turns ended of which these sessions have no checkpoint any more."""
    r, c = t.traces.c, t.checkpoints.c
    is_there = exists().where(c.session == r.session, c.ns == "", c.id == r.checkpoint)
    mine = select(r.session, r.turn, r.checkpoint).where(r.session.in_(nos))
    kept = {(no, turn) for no, turn, _ in conn.execute(mine.where(is_there))}
    found: dict[tuple[int, str], set[str]] = {}
    for no, turn, checkpoint in conn.execute(mine.distinct()):
        if (no, turn) not in kept:
            found.setdefault((no, turn), set()).add(checkpoint)
    return found


def orphans(conn: Connection, t: Tables, nos: Sequence[int]) -> list[tuple[int, str]]:
    """The turns, each with its session, that had steps of which none is there any more."""
    return [key for key, ends in _without_step(conn, t, nos).items() if NOWHERE not in ends]


def unreadable(conn: Connection, t: Tables, nos: Sequence[int]) -> list[tuple[int, str]]:
    """The turns, each with its session, of whose traces this program cannot read a part."""
    r = t.traces.c
    query = select(t.traces).where(r.session.in_(nos)).order_by(r.session, r.no)
    return list(dict.fromkeys((row.session, row.turn) for row in conn.execute(query) if not is_readable(t, row)))


def drop_left(conn: Connection, t: Tables, session: int) -> None:
    """Delete the traces of turns of which the session has no checkpoint."""
    drop(conn, t, session, [turn for _, turn in _without_step(conn, t, [session])])


def drop(conn: Connection, t: Tables, session: int, turns: Sequence[str]) -> None:
    """Delete the traces of these turns."""
    r = t.traces.c
    for batch in items.batches(turns):
        conn.execute(delete(t.traces).where(r.session == session, r.turn.in_(batch)))
