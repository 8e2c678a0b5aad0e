"""Approvals follow the interrupts of a graph: rows that come and go with what its tasks write.

A row is bound to the task that asked: thread, namespace, checkpoint, task. It is

    pending      until somebody decides
    decided      until the task has used the decision
    used         when the task finished, or went on to ask something else
    superseded   when the thread went on without an answer, or the same was asked again because the answer did not fit
    cancelled, expired   when it was closed

A subgraph that keeps its state asks the same again after the thread went on: that is a new row, which is pending.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from sqlalchemy import ColumnElement, Connection, Row, and_, delete, insert, or_, select, update

from scallion.approvals import payload, questions
from scallion.approvals.questions import Question
from scallion.sql import ledger, names, sessions, telling, votes
from scallion.sql.clock import to_micros
from scallion.sql.ledger import PAYLOAD, question_of
from scallion.sql.sessions import OPEN
from scallion.sql.tables import Tables
from scallion.values import Approval

TIMES = ("created_at", "expires_at")
"""What differs in a payload when the same is asked again."""


@dataclass(frozen=True, slots=True)
class Place:
    """The task that asks, and who stands behind it. `root` is the checkpoint of the outermost graph."""

    ns: str
    checkpoint: str
    root: str
    task: str
    owner: str | None = None
    user: str | None = None


class Step(Protocol):
    """A checkpoint that was added, as far as approvals depend on it."""

    @property
    def ns(self) -> str: ...
    @property
    def id(self) -> str: ...
    @property
    def parent(self) -> str | None: ...
    @property
    def metadata(self) -> Mapping[str, Any]: ...
    @property
    def answered(self) -> str | None: ...


def ask(
    conn: Connection,
    t: Tables,
    session: int,
    place: Place,
    asked: Sequence[Question],
    now: Any,
    *,
    anew: bool = False,
) -> None:
    """Record the questions that a task asks now; what it asked before and asks no more is used.

    `anew`: nothing of that was used, decided or not: the task began again from its top.
    """
    ids = [question.id for question in asked]
    refused = any(_problem(question.value) for question in asked)
    _use(conn, t, session, place, except_ids=ids, refused=refused, anew=anew)
    a = t.approvals.c
    _forget_closed(conn, t, session, place, ids)
    query = select(a.session, a.id, a.ns, a.payload).where(a.session == session, a.id.in_(ids))
    known = {row.id: (row.ns, question_of(t, row)) for row in conn.execute(query)}
    for question in asked:
        _ask_one(conn, t, session, place, question, known.get(question.id), now)
    sessions.recount(conn, t, session)


def _ask_one(
    conn: Connection,
    t: Tables,
    session: int,
    place: Place,
    question: Question,
    known: tuple[str, Question] | None,
    now: Any,
) -> None:
    stored = questions.stored(question)
    plain = questions.read(question.id, stored)
    row = {"payload": t.cipher.seal_text(stored, PAYLOAD, session, question.id), **_row(plain, place, now)}
    bound = {"ns": place.ns, "checkpoint": place.checkpoint, "root": place.root, "task": place.task}
    this = and_(t.approvals.c.session == session, t.approvals.c.id == question.id)
    if known is None:
        first = {"session": session, "id": question.id, "status": "pending", "created": now}
        conn.execute(insert(t.approvals).values(first | bound | row))
        telling.asked(conn, t, session, question.id, now)
    elif len(known[0]) < len(place.ns):  # a subgraph's task asks: those around it, which came first, only pass it on
        bound["payload"] = row["payload"]
        conn.execute(update(t.approvals).where(this, t.approvals.c.status.in_(OPEN)).values(bound))
    elif _words(known[1]) != _words(plain):  # asked again with other words, and nobody has answered the old ones
        anew = {"escalated": None, **row}
        if conn.execute(update(t.approvals).where(this, t.approvals.c.status == "pending").values(anew)).rowcount:
            votes.forget(conn, t, session, [question.id])
            telling.asked(conn, t, session, question.id, now)


def _forget_closed(conn: Connection, t: Tables, session: int, place: Place, ids: Sequence[str]) -> None:
    """Delete rows that are closed and asked again as the thread went on: they are asked anew.

    Asked at the same checkpoint, or behind the thread's newest, they stay: a task runs again, or is late.
    """
    a, s = t.approvals.c, t.sessions.c
    closed = and_(a.session == session, a.id.in_(ids), a.status.not_in(OPEN), a.root != place.root)
    found = conn.execute(select(a.no, a.id, s.head).join(t.sessions, s.no == a.session).where(closed)).all()
    if again := {no: id for no, id, head in found if place.root >= (head or "")}:
        conn.execute(delete(t.approvals).where(a.no.in_(again)))
        votes.forget(conn, t, session, list(again.values()))


def _words(question: Question) -> Any:
    """What is asked, without when: a task that runs again does not ask anew."""
    value = question.value
    if payload.is_ours(value):
        value = {name: part for name, part in value.items() if name not in TIMES}
    return value, question.response_schema


def _row(question: Question, place: Place, now: Any) -> dict[str, Any]:
    asked = question.approval("")
    return {
        "kind": names.fitting(asked.kind, 32),
        "tool": names.fitting(asked.tool),
        "owner": names.fitting(place.owner or asked.owner),
        "requested_by": names.fitting(asked.requested_by or place.user),
        "expires": _expiry(question.value, asked, now),
        "on_expire": names.fitting(None if asked.on_expire == "reject" else asked.on_expire),
    }


def _expiry(value: Any, asked: Approval, now: Any) -> Any:
    """When it expires, by the clock that `now` comes from."""
    seconds = value.get("expires_in") if asked.expires_at and isinstance(value, Mapping) else None
    if isinstance(seconds, int | float):
        return now + int(seconds * 1_000_000)
    return to_micros(asked.expires_at) if asked.expires_at else None


def finish(conn: Connection, t: Tables, session: int, place: Place, *, anew: bool = False) -> None:
    """The task came to its end: its answers are used, and those of the subgraph that it ran.

    `anew`: it began again from its top, and used none.
    """
    _use(conn, t, session, place, except_ids=(), anew=anew)
    a = t.approvals.c
    # Where durability is "exit", a subgraph that ends writes nothing. The task's id is part of its namespace.
    below = or_(a.ns.endswith(f":{place.task}", autoescape=True), a.ns.contains(f":{place.task}|", autoescape=True))
    inner = and_(a.session == session, a.root == place.root, below, a.status.in_(OPEN))
    ledger.end(conn, t, inner, "used")
    sessions.recount(conn, t, session)


def _problem(value: Any) -> bool:
    """Whether the question is asked again because the answer before it did not fit."""
    return payload.is_ours(value) and bool(value.get("problem"))


def _use(
    conn: Connection,
    t: Tables,
    session: int,
    place: Place,
    *,
    except_ids: Sequence[str],
    refused: bool = False,
    anew: bool = False,
) -> None:
    """What the task asks no more is used.

    `refused`: what nobody decided is superseded, as its answer was no decision; `anew`: what somebody decided too.
    """
    a = t.approvals.c
    gone = and_(_of_task(t, session, place), a.id.not_in(except_ids))
    if refused or anew:
        unused = OPEN if anew else ("pending",)
        ledger.end(conn, t, and_(gone, a.status.in_(unused)), "superseded")
    ledger.end(conn, t, and_(gone, a.status.in_(OPEN)), "used")


def _of_task(t: Tables, session: int, place: Place) -> ColumnElement[bool]:
    a = t.approvals.c
    return and_(a.session == session, a.ns == place.ns, a.checkpoint == place.checkpoint, a.task == place.task)


def take(conn: Connection, t: Tables, session: int, place: Place, answers: int) -> None:
    """The task failed after so many of its questions were answered.

    LangGraph keeps those answers: they are not to be given again, which would answer its next question.
    """
    a = t.approvals.c
    query = select(a.no, a.session, a.id, a.payload).where(_of_task(t, session, place), a.status.in_(OPEN))
    for row in conn.execute(query).all():
        question = question_of(t, row)
        if question.number < answers:
            _mark(conn, t, row, replace(question, taken=True))
    sessions.recount(conn, t, session)


def begin(conn: Connection, t: Tables, session: int, tool: str, call_id: str) -> None:
    """A call that runs at most once is begun: what was decided about it is not to be taken back any more."""
    a = t.approvals.c
    about = and_(a.session == session, a.status == "decided", a.tool == tool)
    for row in conn.execute(select(a.no, a.session, a.id, a.payload).where(about)).all():
        question = question_of(t, row)
        if question.approval("").call_id == call_id:
            _mark(conn, t, row, replace(question, begun=True))


def _mark(conn: Connection, t: Tables, row: Row[*tuple[Any, ...]], question: Question) -> None:
    """Keep what became of the answer, which is decided then."""
    sealed = t.cipher.seal_text(questions.stored(question), PAYLOAD, row.session, row.id)
    conn.execute(update(t.approvals).where(t.approvals.c.no == row.no).values(status="decided", payload=sealed))


def move_on(conn: Connection, t: Tables, session: int, new: Step) -> None:
    """A checkpoint was added. What it says to answer, and what the step that it ended answered, is used.

    What else was open is superseded.
    """
    a = t.approvals.c
    mine = and_(a.session == session, a.status.in_(OPEN))
    before = and_(a.ns == new.ns, a.checkpoint == new.parent)
    if new.answered is not None:
        ledger.end(conn, t, and_(a.session == session, a.id == new.answered, a.status == "decided"), "used")
    if new.metadata.get("source") == "loop":
        # A step of the outermost graph ends its subgraphs too, which write nothing of it where durability is "exit".
        ended = before if new.ns else a.root == new.parent
        ledger.end(conn, t, and_(mine, ended), "used")
    behind = or_(before, a.root < new.id) if new.ns == "" else before
    ledger.end(conn, t, and_(mine, behind), "superseded")
    sessions.recount(conn, t, session)
