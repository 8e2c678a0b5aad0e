"""Traces of turns: written with the release of the lease, so that they cost no commit; read when somebody looks.

A part of a turn is one row, which says in which order the parts came and where the thread stood when it ended. It is
there as long as the turn: a thread that keeps none of the checkpoints of a turn keeps no trace of it either.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, Row, delete, func, insert, or_, select, update

from scallion.errors import StorageError, WrongKey
from scallion.sql import keyring, ledger, names
from scallion.sql.statement import NoShortcut, StandIn
from scallion.sql.tables import Tables
from scallion.values import Approval

if TYPE_CHECKING:
    from scallion.sql.granting import Grants
    from scallion.sql.leases import Lease
    from scallion.tracing.recorder import Ended
    from scallion.tracing.trace import Part, Trace

log = logging.getLogger("scallion")
DATA = "traces.data"
NOWHERE = ""
"""Where a turn ended that failed before its first step: at none of the thread's."""
PARTS = 100
"""How many parts of a turn are kept, of more the first one and the last ones."""
LARGEST = 4
"""How many times as large as what is recorded a part is at most that is taken from an export: it has ids on top."""
DAMAGED = (ValueError, TypeError, AttributeError, OverflowError)
"""What comes of reading what is no part of a trace."""


def rows(parts: Sequence[Ended]) -> list[tuple[Ended, bytes]]:
    """What is kept of each part."""
    from scallion.tracing.compact import dump  # here and below: a listing knows no traces

    return [(one, dump(one.part)) for one in parts if len(one.turn) <= names.LENGTHS["turn id"]]


def release(
    conn: Connection, t: Tables, s: Grants, lease: Lease, parts: Sequence[tuple[Ended, bytes]], now: int | None
) -> None:
    """End the grant of the lease, and keep what was recorded under it, if that still holds.

    What has to be looked at first takes a real transaction: a turn that goes on or has no steps, and sealed values.
    """
    ended, data = parts[0]
    held: dict[str, Any] = {"for_thread": lease.thread, "seen": lease.fence}
    if len(parts) > 1 or ended.goes_on or not ended.has_steps or t.cipher.ids:
        if isinstance(conn, StandIn):
            raise NoShortcut
        _release(conn, t, s, lease, parts, now)
        return
    row = {**held, "turn": ended.turn, "part": 0, "data": data} | ({} if now is None else {"now": now})
    if conn.dialect.name == "postgresql":
        s.release_with_trace.rows(conn, **row)
    elif s.release.run(conn, held) == 1:
        s.trace.run(conn, row)


def _release(
    conn: Connection, t: Tables, s: Grants, lease: Lease, parts: Sequence[tuple[Ended, bytes]], now: int | None
) -> None:
    may_seal = _may_seal(conn, t)  # before the session's row is held, as all who write do it
    held: dict[str, Any] = {"for_thread": lease.thread, "seen": lease.fence}
    if s.release.run(conn, held) != 1 or not may_seal:
        return
    no = conn.execute(select(t.sessions.c.no).where(t.sessions.c.thread == lease.thread)).scalar_one()
    for ended, data in parts:
        known = _numbers(conn, t, no, ended.turn) if ended.goes_on else {}
        if lease.fence in known.values():  # a COMMIT whose answer was lost has stored it
            continue
        part = max(known) + 1 if known else 0
        sealed = t.cipher.seal(data, DATA, no, ended.turn, part)
        row = {**held, "turn": ended.turn, "part": part, "data": sealed} | ({} if now is None else {"now": now})
        s.trace.run(conn, row)
        if not ended.has_steps:
            _place_nowhere(conn, t, no, ended.turn)
        elif len(known) >= PARTS:
            _thin(conn, t, no, ended.turn, sorted(known)[1 : 2 - PARTS])


def _place_nowhere(conn: Connection, t: Tables, session: int, turn: str) -> None:
    """Have this trace be that of no step, and the only one of the session's: they would pile up."""
    r = t.traces.c
    conn.execute(delete(t.traces).where(r.session == session, r.checkpoint == NOWHERE))
    conn.execute(update(t.traces).where(r.session == session, r.turn == turn).values(checkpoint=NOWHERE))


def _thin(conn: Connection, t: Tables, session: int, turn: str, parts: Sequence[int]) -> None:
    r = t.traces.c
    conn.execute(delete(t.traces).where(r.session == session, r.turn == turn, r.part.in_(parts)))


def _may_seal(conn: Connection, t: Tables) -> bool:
    """Whether what is sealed now can be opened later, by the database's own key."""
    if not t.cipher.ids:
        return True
    try:
        keyring.hold(conn, t)
    except WrongKey:
        return False
    return True


def _numbers(conn: Connection, t: Tables, session: int, turn: str) -> dict[int, int]:
    """The numbers of the parts that are there, each with the fence that it was recorded under."""
    r = t.traces.c
    found = conn.execute(select(r.part, r.fence).where(r.session == session, r.turn == turn))
    return {row.part: row.fence for row in found}


def _of_turn(conn: Connection, t: Tables, session: int, turn: str) -> Sequence[Row[Any]]:
    r = t.traces.c
    return conn.execute(select(t.traces).where(r.session == session, r.turn == turn).order_by(r.part)).all()


def _told(
    conn: Connection, t: Tables, session: int, thread: str, turn: str, now: Any
) -> tuple[Sequence[Part], Sequence[Approval]]:
    try:
        parts = tuple(_part(_opened(t, row)) for row in _of_turn(conn, t, session, turn))
    except DAMAGED:
        raise StorageError(f"the trace of turn {turn!r} of thread {thread!r} cannot be read by this program") from None
    asked = list(dict.fromkeys(id for part in parts for id in (*part.answered, *part.asked)))
    if not asked:
        return parts, ()
    a = t.approvals.c
    query = ledger.rows(t, now).where(a.session == session, a.id.in_(asked))
    known = {one.id: one for one in ledger.read(conn, t, conn.execute(query).all())}
    return parts, tuple(known[id] for id in asked if id in known)


def _opened(t: Tables, row: Row[Any]) -> bytes:
    return t.cipher.open(bytes(row.data), DATA, row.session, row.turn, row.part)


def _part(data: bytes) -> Part:
    from scallion.tracing.compact import load

    return load(data)


def is_readable(t: Tables, row: Row[Any]) -> bool:
    """Whether this program can read the part in the row."""
    try:
        _part(_opened(t, row))
    except (*DAMAGED, WrongKey):
        return False
    return True


def read(conn: Connection, t: Tables, now: Any, thread: str, turn: str | None, owner: str | None) -> Trace | None:
    """The trace of a turn, by its id or by the checkpoint that it ended with, or of the last turn."""
    from scallion.tracing.trace import Trace

    s = t.sessions.c
    query = select(s.no, s.head, s.updated).where(s.thread == thread)
    if owner is not None:
        query = query.where(s.owner == owner)
    row = conn.execute(query).one_or_none()
    if row is None:
        return None
    found = _last(conn, t, *row) if turn is None else _named(conn, t, row.no, turn)
    return None if found is None else Trace(thread, found, *_told(conn, t, row.no, thread, found, now))


def _named(conn: Connection, t: Tables, session: int, turn: str) -> str | None:
    r = t.traces.c
    query = select(r.turn).where(r.session == session, or_(r.turn == turn, r.checkpoint == turn))
    found: str | None = conn.execute(query.order_by(r.no).limit(1)).scalar()
    return found


def _last(conn: Connection, t: Tables, session: int, head: str | None, updated: int) -> str | None:
    """The turn that the thread stands at, or one that failed at once behind it; None where that has no trace."""
    from scallion.sql import last_turn  # reads checkpoints, which a listing does without

    r = t.traces.c
    query = select(r.turn, r.checkpoint, r.ended).where(r.session == session).order_by(r.no.desc())
    newest = conn.execute(query.limit(1)).first()
    if newest is None:
        return None
    if newest.checkpoint == NOWHERE and newest.ended >= updated:
        return str(newest.turn)
    return last_turn.at(conn, t, session, head)


def turns(conn: Connection, t: Tables, thread: str, owner: str | None) -> Sequence[str]:
    """The ids of the turns of a thread that have a trace, the oldest first."""
    r, s = t.traces.c, t.sessions.c
    query = select(r.turn).join(t.sessions, s.no == r.session).where(s.thread == thread)
    if owner is not None:
        query = query.where(s.owner == owner)
    return conn.execute(query.group_by(r.turn).order_by(func.min(r.no))).scalars().all()


def every(conn: Connection, t: Tables, session: int) -> Iterator[dict[str, Any]]:
    """All parts of traces of a session in their order, opened."""
    query = select(t.traces).where(t.traces.c.session == session).order_by(t.traces.c.no)
    for row in conn.execute(query):
        carried = {name: row._mapping[name] for name in ("turn", "part", "ended", "checkpoint")}
        yield {**carried, "data": _opened(t, row)}


def restore(conn: Connection, t: Tables, session: int, rows: Sequence[Mapping[str, Any]]) -> None:
    """Store parts as `every` gave them. What is none raises StorageError, KeyError, ValueError, ...

    A part whose data this program cannot read is left out: a thread does not depend on its traces.
    """
    from scallion.tracing.compact import BYTES

    for row in rows:
        names.check("turn id", row["turn"])
        names.check("checkpoint id", row["checkpoint"])
        if not isinstance(row["part"], int) or row["part"] < 0 or len(row["data"]) > LARGEST * BYTES:
            raise ValueError("this is no part of a trace")
        try:
            _part(row["data"])
        except DAMAGED:
            log.warning("a trace that cannot be read was left out of a thread that is loaded")
            continue
        sealed = t.cipher.seal(row["data"], DATA, session, row["turn"], row["part"])
        conn.execute(insert(t.traces).values({**row, "session": session, "fence": 0, "data": sealed}))
