"""At which turn a thread stands, told by the steps of its turns alone: where each began, and where traces of them end.

A rewind, a closed pause and a change from outside put a step behind that which the turn ended with.
"""

from __future__ import annotations

from sqlalchemy import Connection, select

from scallion.sql import checkpoints
from scallion.sql.checkpoints import StoredCheckpoint
from scallion.sql.tables import Tables
from scallion.sql.traces import NOWHERE
from scallion.sql.trail import COPY


def at(conn: Connection, t: Tables, session: int, head: str | None) -> str | None:
    """The id of the turn that this step is of; None where no trace of it is kept."""
    if head is None:
        return None
    r = t.traces.c
    traced = select(r.turn, r.checkpoint).where(r.session == session).order_by(r.no)
    if found := conn.execute(traced.where(r.checkpoint == head).limit(1)).first():
        return str(found.turn)
    first = _first(conn, t, session, head)
    later = conn.execute(traced.where(r.checkpoint >= first, r.checkpoint != NOWHERE)).all() if first else ()
    return next((row.turn for row in later if _first(conn, t, session, row.checkpoint) == first), None)


def _first(conn: Connection, t: Tables, session: int, id: str | None) -> str | None:
    """The first step that is there of the turn which the step `id` is of."""
    first: StoredCheckpoint | None = None
    while id is not None and (row := checkpoints.row(conn, t, session, "", id)) is not None:
        if first is not None and _is_of_another(row, first):
            break
        first = row
        # Of a copy that a rewind made the turn goes on where its original stands.
        id = None if row.metadata.get("source") == "input" else row.metadata.get(COPY) or row.parent
    return None if first is None else first.id


def _is_of_another(before: StoredCheckpoint, step: StoredCheckpoint) -> bool:
    """Whether steps between the two were not stored, as only the end of a turn was: `durability="exit"`."""
    older, newer = before.metadata.get("step"), step.metadata.get("step")
    if step.metadata.get("source") != "loop" or not isinstance(older, int) or not isinstance(newer, int):
        return False
    return older < newer - 1
