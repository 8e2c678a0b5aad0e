"""The ledger of approvals: rows that follow the interrupts of a graph, and the decisions about them.

A row is bound to the task that asked: thread, namespace, checkpoint, task. It is

    pending      until somebody decides
    decided      until the task has used the decision
    used         when the task finished, or went on to ask something else
    superseded   when the thread went on without an answer, or the same was asked again because the answer did not fit
    cancelled, expired   when it was closed
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol, cast, get_args

from sqlalchemy import Column, ColumnElement, Connection, Row, Select, and_, case, insert, or_, select, update

from scallion.approvals import decisions, payload
from scallion.approvals.questions import Question
from scallion.errors import AlreadyDecided, DecisionError, UnknownApproval
from scallion.sql import sessions
from scallion.sql.clock import from_micros, to_micros
from scallion.sql.sessions import Page
from scallion.sql.tables import Tables
from scallion.values import Approval, ApprovalStatus, Decision

STATUSES = get_args(ApprovalStatus)
OPEN = ("pending", "decided")
PAYLOAD, DECISION = "approvals.payload", "approvals.decision"
TEXTS = {"payload": PAYLOAD, "decision": DECISION}
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


def ask(conn: Connection, t: Tables, session: int, place: Place, questions: Sequence[Question], now: Any) -> None:
    """Record the questions that a task asks now; what it asked before and asks no more is used."""
    ids = [question.id for question in questions]
    refused = any(_problem(question.value) for question in questions)
    _use(conn, t, session, place, except_ids=ids, refused=refused)
    a = t.approvals.c
    query = select(a.id, a.payload).where(a.session == session, a.id.in_(ids))
    known = {id: t.cipher.open_text(payload, PAYLOAD, session, id) for id, payload in conn.execute(query)}
    for question in questions:
        _ask_one(conn, t, session, place, question, known.get(question.id), now)
    sessions.recount(conn, t, session)


def _ask_one(
    conn: Connection, t: Tables, session: int, place: Place, question: Question, known: str | None, now: Any
) -> None:
    row = _row(question, place, now)
    stored = row["payload"]
    row["payload"] = t.cipher.seal_text(stored, PAYLOAD, session, question.id)
    if known is None:
        bound = {"ns": place.ns, "checkpoint": place.checkpoint, "root": place.root, "task": place.task}
        first = {"session": session, "id": question.id, "status": "pending", "created": now}
        conn.execute(insert(t.approvals).values(first | bound | row))
    elif _words(known) != _words(stored):  # asked again with other words, and nobody has answered the old ones
        this = and_(
            t.approvals.c.session == session, t.approvals.c.id == question.id, t.approvals.c.status == "pending"
        )
        conn.execute(update(t.approvals).where(this).values(row))


def _words(stored: str) -> Any:
    """What is asked, without when: a task that runs again does not ask anew."""
    value = json.loads(stored)["value"]
    return {name: part for name, part in value.items() if name not in TIMES} if payload.is_ours(value) else stored


def _row(question: Question, place: Place, now: Any) -> dict[str, Any]:
    stored = _stored(question)
    asked = _asked(_question(question.id, stored), "")
    return {
        "payload": stored,
        "kind": asked.kind,
        "tool": asked.tool,
        "owner": place.owner or asked.owner,
        "requested_by": asked.requested_by or place.user,
        "expires": _expiry(question.value, asked, now),
    }


def _stored(question: Question) -> str:
    written = {"value": question.value, "schema": question.response_schema}
    if question.parts > 1:
        written["part"] = [question.part, question.parts]
    try:
        return json.dumps(written, default=repr)
    except (TypeError, ValueError, RecursionError):  # keys that JSON does not have, or a value within itself
        return json.dumps(written | {"value": repr(question.value), "schema": None})


def _expiry(value: Any, asked: Approval, now: Any) -> Any:
    """When it expires, by the clock that `now` comes from."""
    seconds = value.get("expires_in") if asked.expires_at and isinstance(value, Mapping) else None
    if isinstance(seconds, int | float):
        return now + int(seconds * 1_000_000)
    return to_micros(asked.expires_at) if asked.expires_at else None


def _question(id: str, stored: str) -> Question:
    written = json.loads(stored)
    return Question(id, written["value"], written["schema"], *written.get("part", ()))


def _asked(question: Question, thread: str) -> Approval:
    try:
        return question.approval(thread)
    except (KeyError, TypeError, ValueError):
        # It carries our mark without being ours: never a reason to lose a checkpoint.
        return payload.approval(question.id, repr(question.value), thread, question.response_schema)


def finish(conn: Connection, t: Tables, session: int, place: Place) -> None:
    """The task came to its end: its answers are used."""
    _use(conn, t, session, place, except_ids=())
    sessions.recount(conn, t, session)


def _problem(value: Any) -> bool:
    """Whether the question is asked again because the answer before it did not fit."""
    return payload.is_ours(value) and bool(value.get("problem"))


def _use(
    conn: Connection, t: Tables, session: int, place: Place, *, except_ids: Sequence[str], refused: bool = False
) -> None:
    """What the task asks no more is used; `refused`: what nobody decided is superseded, its answer was no decision."""
    a = t.approvals.c
    task = and_(a.session == session, a.ns == place.ns, a.checkpoint == place.checkpoint, a.task == place.task)
    gone = and_(task, a.id.not_in(except_ids))
    if refused:
        conn.execute(update(t.approvals).where(gone, a.status == "pending").values(status="superseded"))
    conn.execute(update(t.approvals).where(gone, a.status.in_(OPEN)).values(status="used"))


def move_on(conn: Connection, t: Tables, session: int, new: Step) -> None:
    """A checkpoint was added. What it says to answer, and what the step that it ended answered, is used.

    What else was open is superseded.
    """
    a = t.approvals.c
    mine = and_(a.session == session, a.status.in_(OPEN))
    before = and_(a.ns == new.ns, a.checkpoint == new.parent)
    if new.answered is not None:
        this = and_(a.session == session, a.id == new.answered, a.status == "decided")
        conn.execute(update(t.approvals).where(this).values(status="used"))
    if new.metadata.get("source") == "loop":
        # A step of the outermost graph ends its subgraphs too, which write nothing of it where durability is "exit".
        ended = before if new.ns else a.root == new.parent
        conn.execute(update(t.approvals).where(mine, ended).values(status="used"))
    behind = or_(before, a.root < new.id) if new.ns == "" else before
    conn.execute(update(t.approvals).where(mine, behind).values(status="superseded"))
    sessions.recount(conn, t, session)


def close(conn: Connection, t: Tables, thread: str, status: ApprovalStatus, owner: str | None = None) -> int:
    """Give what is open on the thread this final status; how many there were."""
    session = conn.execute(select(t.sessions.c.no).where(t.sessions.c.thread == thread).with_for_update()).scalar()
    if session is None:
        return 0
    mine = and_(t.approvals.c.session == session, t.approvals.c.status.in_(OPEN))
    if owner is not None:
        mine = and_(mine, t.approvals.c.owner == owner)
    closed = conn.execute(update(t.approvals).where(mine).values(status=status)).rowcount
    sessions.recount(conn, t, session)
    return closed


def page(
    conn: Connection,
    t: Tables,
    now: Any,
    *,
    status: str | None = "pending",
    thread: str | None = None,
    owner: str | None = None,
    tool: str | None = None,
    kind: str | None = None,
    limit: int = 50,
    after: str | None = None,
) -> Page[Approval]:
    """Approvals, the oldest first."""
    sessions.check_limit(limit)
    a = t.approvals.c
    sessions.check_choice("status", status, [None, *STATUSES])
    of = None if thread is None else select(t.sessions.c.no).where(t.sessions.c.thread == thread).scalar_subquery()
    wanted = {a.owner: owner, a.tool: tool, a.kind: kind, a.session: of}
    query = _select(t, now).where(*(column == value for column, value in wanted.items() if value is not None))
    if status is not None:
        query = query.where(_has_status(t, status, now))
    if after is not None:
        query = query.where(a.no > sessions.cursor(after, 1)[0])
    rows = conn.execute(query.order_by(a.no).limit(limit + 1)).all()
    return Page([_approval(t, row) for row in rows[:limit]], str(rows[limit - 1].no) if len(rows) > limit else None)


def _has_status(t: Tables, status: str, now: Any) -> ColumnElement[bool]:
    """As `_shown`, in terms of what is indexed."""
    a = t.approvals.c
    if status == "expired":
        return or_(a.status == "expired", and_(a.status == "pending", a.expires <= now))
    if status == "pending":
        return and_(a.status == "pending", or_(a.expires.is_(None), a.expires > now))
    return a.status == status


def _shown(t: Tables, now: Any) -> ColumnElement[str]:
    """The status, which expiry changes without anybody writing it down."""
    a = t.approvals.c
    return case((and_(a.status == "pending", a.expires <= now), "expired"), else_=a.status)


def get(
    conn: Connection, t: Tables, id: str, now: Any, *, thread: str | None = None, owner: str | None = None
) -> Approval:
    """The approval. Raises UnknownApproval, also where several threads have it and `thread` is not given."""
    return _approval(t, _found(conn, t, id, now, thread, owner))


def decide(
    conn: Connection,
    t: Tables,
    chosen: Mapping[str, Any],
    now: datetime,
    *,
    by: str | None,
    thread: str | None = None,
    owner: str | None = None,
) -> list[Approval]:
    """Store all of the decisions, by id, or none. Raises what `decisions.check` raises, and UnknownApproval."""
    checked = [_checked(conn, t, id, decision, now, thread, owner) for id, decision in chosen.items()]
    for row, decision in checked:
        _store(conn, t, row, decision, by, now)
    for session in sorted({row.session for row, _ in checked}):
        sessions.recount(conn, t, session)
    return [get(conn, t, row.id, to_micros(now), thread=row.thread) for row, _ in checked]


def decided(
    conn: Connection,
    t: Tables,
    chosen: Mapping[str, Any],
    at: datetime,
    *,
    by: str | None,
    thread: str | None = None,
    owner: str | None = None,
) -> list[Approval]:
    """The approvals, where `decide` stored these decisions at that instant; else none."""
    rows = [_found(conn, t, id, to_micros(at), thread, owner) for id in chosen]
    ours = all(row.decided == to_micros(at) and row.decided_by == by for row in rows)
    return [_approval(t, row) for row in rows] if ours else []


def _checked(
    conn: Connection, t: Tables, id: str, decision: Any, now: datetime, thread: str | None, owner: str | None
) -> tuple[Row[Any], Decision]:
    read = decisions.read(decision)
    row = _found(conn, t, id, to_micros(now), thread, owner)
    decisions.check(_approval(t, row), read, now=now)
    return row, read


def _store(conn: Connection, t: Tables, row: Row[Any], decision: Decision, by: str | None, now: datetime) -> None:
    values = {
        "status": "decided",
        "decision": t.cipher.seal_text(json.dumps(decision.to_json()), DECISION, row.session, row.id),
        "decided_by": by,
        "decided": to_micros(now),
    }
    this = and_(t.approvals.c.no == row.no, t.approvals.c.status == "pending", t.approvals.c.payload == row.payload)
    if conn.execute(update(t.approvals).where(this).values(values)).rowcount == 1:
        return
    first = get(conn, t, row.id, to_micros(now), thread=row.thread)
    if first.status == "pending":
        raise DecisionError(f"approval {row.id!r} was changed while it was decided: look at it again")
    raise AlreadyDecided(row.id, by=first.decided_by, at=first.decided_at, decision=first.decision, status=first.status)


def withdraw(
    conn: Connection, t: Tables, id: str, now: Any, *, thread: str | None = None, owner: str | None = None
) -> Approval:
    """Take a decision back that nothing has used yet; the approval is pending again."""
    row = _found(conn, t, id, now, thread, owner)
    this = and_(t.approvals.c.no == row.no, t.approvals.c.status == "decided")
    values = {"status": "pending", "decision": None, "decided_by": None, "decided": None}
    if conn.execute(update(t.approvals).where(this).values(values)).rowcount != 1:
        raise DecisionError(f"approval {id!r} is {row.shown}: there is no decision to take back")
    sessions.recount(conn, t, row.session)
    return get(conn, t, id, now, thread=row.thread)


def every(conn: Connection, t: Tables, session: int) -> Iterator[dict[str, Any]]:
    """All approvals of a session, the oldest first: columns by name, payload and decision as data."""
    query = select(*_carried(t)).where(t.approvals.c.session == session).order_by(t.approvals.c.no)
    for row in conn.execute(query).mappings():
        opened = {
            name: row[name] and json.loads(t.cipher.open_text(row[name], place, session, row["id"]))
            for name, place in TEXTS.items()
        }
        yield {**row, **opened}


def restore(conn: Connection, t: Tables, session: int, rows: Iterable[Mapping[str, Any]]) -> None:
    """Store approvals as `every` gave them."""
    names = [column.name for column in _carried(t)]
    for row in rows:
        texts = {
            name: row[name] and t.cipher.seal_text(json.dumps(row[name]), place, session, row["id"])
            for name, place in TEXTS.items()
        }
        conn.execute(insert(t.approvals).values({name: row[name] for name in names} | texts | {"session": session}))


def _carried(t: Tables) -> list[Column[Any]]:
    """The columns that mean the same in every database."""
    return [column for column in t.approvals.columns if column.name not in ("no", "session")]


def _select(t: Tables, now: Any) -> Select[Any]:
    columns = (t.approvals, t.sessions.c.thread, _shown(t, now).label("shown"))
    return select(*columns).join(t.sessions, t.sessions.c.no == t.approvals.c.session)


def _found(conn: Connection, t: Tables, id: str, now: Any, thread: str | None, owner: str | None) -> Row[Any]:
    wanted = {t.sessions.c.thread: thread, t.approvals.c.owner: owner}
    query = _select(t, now).where(t.approvals.c.id == id)
    rows = conn.execute(query.where(*(column == value for column, value in wanted.items() if value is not None))).all()
    if not rows:
        raise UnknownApproval(id)
    if len(rows) > 1:
        raise UnknownApproval(id, f"several threads have an approval {id!r}: say which `thread` is meant")
    return rows[0]


def _approval(t: Tables, row: Row[Any]) -> Approval:
    return _asked(question_of(t, row), row.thread).replace(
        status=cast("ApprovalStatus", row.shown),
        owner=row.owner,
        requested_by=row.requested_by,
        created_at=from_micros(row.created),
        expires_at=from_micros(row.expires) if row.expires is not None else None,
        decision=decision_of(t, row),
        decided_by=row.decided_by,
        decided_at=from_micros(row.decided) if row.decided is not None else None,
    )


def question_of(t: Tables, row: Row[*tuple[Any, ...]]) -> Question:
    """The question that a row holds."""
    return _question(row.id, t.cipher.open_text(row.payload, PAYLOAD, row.session, row.id))


def decision_of(t: Tables, row: Row[*tuple[Any, ...]]) -> Decision | None:
    """The decision that a row holds."""
    if row.decision is None:
        return None
    return decisions.read(json.loads(t.cipher.open_text(row.decision, DECISION, row.session, row.id)))
