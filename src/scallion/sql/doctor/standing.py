"""What the tables say of threads, a page of them at a time, and what of the tables is mended."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from sqlalchemy import Connection, Row, and_, exists, literal, or_, select

from scallion.approvals.questions import Question
from scallion.errors import ThreadBusy
from scallion.sql import asking, clock, holders, ledger, sessions
from scallion.sql.asking import Place
from scallion.sql.clock import Clock, to_micros
from scallion.sql.tables import Tables

QUIET = 60_000_000
"""For so many microseconds after a checkpoint a graph that holds no lease may be running."""


@dataclass(frozen=True)
class Opened:
    """An approval that somebody still has to do something with: decide, or go on as it has expired."""

    id: str
    interrupt: str
    status: str
    kind: str
    tool: str | None
    ns: str
    checkpoint: str
    root: str
    call: str | None = None
    is_begun: bool = False
    """Whether a call that runs at most once was begun on the answer."""

    @property
    def is_open(self) -> bool:
        """Whether it is not closed."""
        return self.status in sessions.OPEN


@dataclass(frozen=True)
class Standing:
    """A thread's row, its open approvals, and the instant at which they were read."""

    no: int
    thread: str
    owner: str | None
    status: str
    progress: str
    head: str | None
    updated: int
    fence: int
    holder: str | None
    held_since: int | None
    held_until: int | None
    asked_to_stop: int | None
    open_count: int
    message_count: int
    now: int = 0
    open: Sequence[Opened] = ()
    is_empty: bool = False
    """Whether nothing belongs to it."""
    is_held: bool = False
    """Whether a turn runs on it, or another machine may believe so."""

    @property
    def is_fresh(self) -> bool:
        """Whether it was written to so lately that a graph that holds no lease may be running."""
        return self.updated > self.now - QUIET

    @property
    def is_miscounted(self) -> bool:
        """Whether the row says something else of the approvals than they do, and none is ahead of its checkpoint."""
        if any(self.head is None or one.root > self.head for one in self.open):
            return False
        says, is_open = {self.status == "paused", self.open_count > 0}, any(one.is_open for one in self.open)
        return says != {True} if is_open else True in says and not self.open

    @property
    def is_resting(self) -> bool:
        """Whether nobody holds it, nothing waits and nothing comes next, as far as its row tells."""
        nothing_open = self.status == self.progress == "idle" and not self.open and not self.open_count
        return nothing_open and self.holder is None and self.head is not None

    @property
    def was_left(self) -> bool:
        """Whether it has a holder that is gone, as far as one look tells: it may just have been released."""
        return self.holder is not None and not self.is_held

    def here(self) -> Standing:
        """As it is for whoever holds it."""
        return replace(self, holder=None, is_held=False)


def page(
    conn: Connection, t: Tables, at: Clock | None, owner: str | None, limit: int, after: int = 0
) -> list[Standing]:
    """Threads in the order of their numbers, behind that one."""
    query = select(*_columns(t)).where(t.sessions.c.no > after).order_by(t.sessions.c.no).limit(limit)
    if owner is not None:
        query = query.where(t.sessions.c.owner == owner)
    return _read(conn, t, at, conn.execute(query).all())


def one(conn: Connection, t: Tables, at: Clock | None, owner: str | None, thread: str) -> Standing | None:
    """That thread; None if there is none, or it is another owner's."""
    query = select(*_columns(t)).where(t.sessions.c.thread == thread)
    if owner is not None:
        query = query.where(t.sessions.c.owner == owner)
    return next(iter(_read(conn, t, at, conn.execute(query).all())), None)


def _columns(t: Tables) -> list[Any]:
    told = ("now", "open", "is_empty", "is_held")
    return [t.sessions.c[field.name] for field in fields(Standing) if field.name not in told]


def _read(conn: Connection, t: Tables, at: Clock | None, rows: Sequence[Row[Any]]) -> list[Standing]:
    now = to_micros(clock.read(conn, at))
    opened = _opened(conn, t, [row.no for row in rows])
    empty = _empty(conn, t, [row.no for row in rows if row.head is None])
    return [
        Standing(
            **row._mapping, now=now, open=opened.get(row.no, ()), is_empty=row.no in empty, is_held=_held(row, now)
        )
        for row in rows
    ]


def _held(row: Row[Any], now: int) -> bool:
    return row.holder is not None and row.held_until > now and not holders.is_gone(row.holder)


def _opened(conn: Connection, t: Tables, nos: Sequence[int]) -> dict[int, list[Opened]]:
    a, s = t.approvals.c, t.sessions.c
    query = select(a.session, a.id, a.status, a.kind, a.tool, a.ns, a.checkpoint, a.root, a.payload)
    waits = or_(a.status.in_(sessions.OPEN), and_(a.status == "expired", a.root == s.head))
    query = query.join(t.sessions, s.no == a.session).where(a.session.in_(nos), waits)
    found: dict[int, list[Opened]] = {}
    for row in conn.execute(query.order_by(a.no)):
        question = ledger.question_of(t, row)
        place = row.ns, row.checkpoint, row.root, question.approval("").call_id, question.begun
        opened = Opened(row.id, question.interrupt, row.status, row.kind, row.tool, *place)
        found.setdefault(row.session, []).append(opened)
    return found


def _empty(conn: Connection, t: Tables, nos: Sequence[int]) -> set[int]:
    s = t.sessions.c
    nothing = [~exists(select(literal(1)).where(one.c.session == s.no)) for one in t.belonging]
    return set(conn.execute(select(s.no).where(s.no.in_(nos), *nothing)).scalars()) if nos else set()


def asked_at(conn: Connection, t: Tables, no: int, root: str) -> set[str]:
    """The ids of the questions that the thread has rows of, of this checkpoint of its outermost graph."""
    a = t.approvals.c
    return set(conn.execute(select(a.id).where(a.session == no, a.root == root)).scalars())


def asking_tasks(conn: Connection, t: Tables, no: int, head: str) -> list[tuple[str, str, str]]:
    """The tasks that may ask something: namespace, checkpoint and id; each before those that pass on what it asks."""
    w = t.writes.c
    query = select(w.ns, w.checkpoint, w.task, w.path)
    found = conn.execute(query.where(w.session == no, or_(w.ns != "", w.checkpoint == head))).all()
    return [(ns, at, task) for ns, at, task, path in sorted(found, key=_depth, reverse=True)]


def _depth(task: Any) -> tuple[int, int]:
    """How far within others a task is: in subgraphs, and called by other tasks, whose path its own has in it."""
    return len(task.ns), task.path.count("~")


def stay(conn: Connection, t: Tables, thread: str, *heads: str | None) -> int:
    """The number of the thread, whose row is held from now on. Raises ThreadBusy unless one of these is its head."""
    s = t.sessions.c
    row = conn.execute(select(s.no, s.head).where(s.thread == thread).with_for_update()).one_or_none()
    if row is None or row.head not in heads:  # a graph that holds no lease went on meanwhile
        raise ThreadBusy(thread)
    return int(row.no)


def mend(
    conn: Connection,
    t: Tables,
    standing: Standing,
    stale: Sequence[str],
    missing: Sequence[tuple[Place, Sequence[Question]]],
    now: Any,
) -> None:
    """Close the approvals of these ids as superseded, record the questions, and count again."""
    no = stay(conn, t, standing.thread, standing.head)
    a = t.approvals.c
    for id in stale:
        ledger.end(conn, t, and_(a.session == no, a.id == id, a.status.in_(sessions.OPEN)), "superseded", now)
    for place, asked in missing:
        asking.ask(conn, t, no, place, asked, now)
    sessions.recount(conn, t, no)


def remove_empty(conn: Connection, t: Tables, standing: Standing) -> None:
    """Delete the thread, if still nothing belongs to it."""
    no = stay(conn, t, standing.thread, None)
    if no in _empty(conn, t, [no]):
        sessions.remove(conn, t, standing.thread)
