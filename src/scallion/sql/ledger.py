"""The ledger of approvals: listing them, and the decisions about them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any, cast, get_args

from sqlalchemy import Column, ColumnElement, Connection, Row, Select, and_, case, insert, or_, select, update

from scallion.approvals import decisions, questions
from scallion.approvals.questions import Question
from scallion.errors import AlreadyDecided, DecisionError, UnknownApproval
from scallion.sql import audit, names, sessions, telling
from scallion.sql.clock import from_micros, to_micros
from scallion.sql.sessions import Page
from scallion.sql.tables import Tables
from scallion.values import Approval, ApprovalKind, ApprovalStatus, Decision

STATUSES = get_args(ApprovalStatus)
KINDS = get_args(ApprovalKind)
PAYLOAD, DECISION = "approvals.payload", "approvals.decision"
NAMED = {
    "id": "approval id", "ns": "checkpoint namespace", "checkpoint": "checkpoint id", "root": "checkpoint id",
    "task": "task id", "kind": "kind", "owner": "owner", "requested_by": "name of who asks", "tool": "name of a tool",
    "decided_by": "name of who decides",
}  # fmt: skip
"""The columns with names, and what those are called."""
TEXTS = {"payload": PAYLOAD, "decision": DECISION}


def close(conn: Connection, t: Tables, thread: str, status: ApprovalStatus, owner: str | None = None) -> int:
    """Give what is open on the thread this final status; how many there were."""
    session = conn.execute(select(t.sessions.c.no).where(t.sessions.c.thread == thread).with_for_update()).scalar()
    if session is None:
        return 0
    mine = and_(t.approvals.c.session == session, t.approvals.c.status.in_(sessions.OPEN))
    if owner is not None:
        mine = and_(mine, t.approvals.c.owner == owner)
    closed = end(conn, t, mine, status)
    sessions.recount(conn, t, session)
    return closed


def end(conn: Connection, t: Tables, which: ColumnElement[bool], status: ApprovalStatus, now: Any = None) -> int:
    """Give the approvals that `which` chooses this final status; how many there were.

    Whoever calls holds their session, and recounts it.
    """
    ended = audit.ending(conn, t, status, which, now)
    if ended:
        conn.execute(update(t.approvals).where(which).values(status=status))
    return ended


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
    sessions.check_choice("kind", kind, [None, *KINDS])
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
    if _change(conn, t, row, "pending", values):
        audit.add(conn, t, "decided", thread=row.thread, subject=row.id, by=by, detail=_told(t, row, decision), now=now)
        return
    first = get(conn, t, row.id, to_micros(now), thread=row.thread)
    if first.status == "pending":
        raise DecisionError(f"approval {row.id!r} was changed while it was decided: look at it again")
    raise AlreadyDecided(row.id, by=first.decided_by, at=first.decided_at, decision=first.decision, status=first.status)


def _told(t: Tables, row: Row[Any], decision: Decision) -> dict[str, Any]:
    """What the audit says of a decision: nothing that a person or a model wrote, but what proves it."""
    shown = {"decision": decision.type, "kind": row.kind, "tool": row.tool}
    asked = question_of(t, row).approval(row.thread).args
    return shown | {"args": audit.digest(t, asked), "answer": audit.digest(t, decision.to_json())}


def _change(conn: Connection, t: Tables, row: Row[Any], status: str, values: Mapping[str, Any]) -> bool:
    """Change the approval, if it still has this status and asks what was read; only its seal may be another."""
    a = t.approvals.c
    change = update(t.approvals).where(a.no == row.no, a.status == status).values(values)
    if conn.execute(change.where(a.payload == row.payload)).rowcount == 1:
        return True
    locked = select(a.session, a.id, a.payload).where(a.no == row.no, a.status == status).with_for_update()
    now = conn.execute(locked).one_or_none()
    if now is None or question_of(t, now) != question_of(t, row):
        return False
    return conn.execute(change).rowcount == 1


def withdraw(
    conn: Connection,
    t: Tables,
    id: str,
    now: Any,
    *,
    by: str | None = None,
    thread: str | None = None,
    owner: str | None = None,
) -> Approval:
    """Take a decision back that nothing has used yet; the approval is pending again."""
    row = _found(conn, t, id, now, thread, owner)
    if question_of(t, row).taken:
        raise DecisionError(f"the graph has taken the answer to {id!r}: it goes on with that one")
    values = {"status": "pending", "decision": None, "decided_by": None, "decided": None}
    if not _change(conn, t, row, "decided", values):
        raise DecisionError(f"approval {id!r} is {row.shown}: there is no decision to take back")
    audit.add(conn, t, "withdrawn", thread=row.thread, subject=row.id, by=by, detail={"of": row.decided_by}, now=now)
    telling.withdrawn(conn, t, row.session, row.id, now)
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
    """Store approvals as `every` gave them. What is none raises StorageError, InvalidDecision, KeyError, ..."""
    carried = [column.name for column in _carried(t)]
    for row in rows:
        _check(row)
        texts = {
            name: row[name] and t.cipher.seal_text(json.dumps(row[name]), place, session, row["id"])
            for name, place in TEXTS.items()
        }
        conn.execute(insert(t.approvals).values({name: row[name] for name in carried} | texts | {"session": session}))


def _check(row: Mapping[str, Any]) -> None:
    """Raise for what no listing could show."""
    for name, what in NAMED.items():
        names.check(what, row[name])
    sessions.check_choice("status", row["status"], STATUSES)
    questions.read(row["id"], json.dumps(row["payload"])).approval("")
    if row["decision"] is not None:
        decisions.stored(row["decision"])


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
        raise UnknownApproval(id, f"several threads have the approval {id!r}: say with thread=... which one is meant")
    return rows[0]


def _approval(t: Tables, row: Row[Any]) -> Approval:
    return (
        question_of(t, row)
        .approval(row.thread)
        .replace(
            status=cast("ApprovalStatus", row.shown),
            owner=row.owner,
            requested_by=row.requested_by,
            created_at=from_micros(row.created),
            expires_at=from_micros(row.expires) if row.expires is not None else None,
            decision=decision_of(t, row),
            decided_by=row.decided_by,
            decided_at=from_micros(row.decided) if row.decided is not None else None,
        )
    )


def question_of(t: Tables, row: Row[*tuple[Any, ...]]) -> Question:
    """The question that a row holds."""
    return questions.read(row.id, t.cipher.open_text(row.payload, PAYLOAD, row.session, row.id))


def decision_of(t: Tables, row: Row[*tuple[Any, ...]]) -> Decision | None:
    """The decision that a row holds."""
    if row.decision is None:
        return None
    return decisions.stored(json.loads(t.cipher.open_text(row.decision, DECISION, row.session, row.id)))
