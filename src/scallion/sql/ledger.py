"""The ledger of approvals: listing them, ending them, and carrying them elsewhere."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, cast, get_args

from sqlalchemy import Column, ColumnElement, Connection, Row, Select, and_, case, insert, or_, select, update

from scallion.approvals import deciders, decisions, payload, questions
from scallion.approvals.questions import Question
from scallion.errors import UnknownApproval
from scallion.sql import audit, names, sessions, votes
from scallion.sql.clock import from_micros
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
LATER = ("escalated", "on_expire")
"""The columns that the exports of older releases lack."""


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
    """Approvals, the oldest first, those of a page that one step asks in the order of its calls.

    Of open ones a page leaves out those whose checkpoint is not stored.
    """
    sessions.check_choice("kind", kind, [None, *KINDS])
    a = t.approvals.c
    sessions.check_choice("status", status, [None, *STATUSES])
    of = None if thread is None else select(t.sessions.c.no).where(t.sessions.c.thread == thread).scalar_subquery()
    wanted = {a.owner: owner, a.tool: tool, a.kind: kind, a.session: of}
    query = rows(t, now).where(*(column == value for column, value in wanted.items() if value is not None))
    if status is not None:
        query = query.where(_has_status(t, status, now))
    these, following = sessions.numbered(conn, query, a.no, limit, after)
    if status in sessions.OPEN:  # not in the query: PostgreSQL takes that for rare, and sorts the whole listing
        these = [row for row in these if row.there]
    return Page(_by_calls(these, read(conn, t, these)), following)


def _by_calls(these: Sequence[Row[Any]], found: Sequence[Approval]) -> list[Approval]:
    """The approvals of these rows, those of one step in the order of the calls: they ask at once, whoever is first.

    Each step keeps the places that it has, so that the page ends where the next one begins.
    """
    steps: dict[tuple[int, str], list[int]] = {}
    for number, row in enumerate(these):
        steps.setdefault((row.session, row.root), []).append(number)
    ordered = list(found)
    for numbers in steps.values():
        in_order = sorted((found[number] for number in numbers), key=_place)
        for number, one in zip(numbers, in_order, strict=True):
            ordered[number] = one
    return ordered


def _place(one: Approval) -> tuple[bool, tuple[int, ...]]:
    place = payload.placed(one.bound)
    return not place, place


def _has_status(t: Tables, status: str, now: Any) -> ColumnElement[bool]:
    """As `_shown`, in terms of what is indexed."""
    a = t.approvals.c
    if status == "expired":
        return or_(a.status == "expired", and_(a.status == "pending", a.expires <= now, a.on_expire.is_(None)))
    if status == "pending":
        is_open = or_(a.expires.is_(None), a.expires > now, a.on_expire.is_not(None))
        return and_(a.status == "pending", is_open)
    return a.status == status


def is_late(t: Tables, now: Any) -> ColumnElement[bool]:
    """Whether it still waits for somebody, behind its time."""
    return and_(t.approvals.c.status == "pending", t.approvals.c.expires <= now)


def get(
    conn: Connection, t: Tables, id: str, now: Any, *, thread: str | None = None, owner: str | None = None
) -> Approval:
    """The approval. Raises UnknownApproval, also where several threads have it and `thread` is not given."""
    return read(conn, t, [found(conn, t, id, now, thread, owner)])[0]


def every(conn: Connection, t: Tables, session: int) -> Iterator[dict[str, Any]]:
    """All approvals of a session, the oldest first: columns by name, payload, decision and votes as data."""
    query = select(*_carried(t)).where(t.approvals.c.session == session).order_by(t.approvals.c.no)
    these = conn.execute(query).mappings().all()
    given = votes.of(conn, t, [(session, row["id"]) for row in these])
    for row in these:
        opened = {
            name: row[name] and json.loads(t.cipher.open_text(row[name], place, session, row["id"]))
            for name, place in TEXTS.items()
        }
        said = votes.carried(given.get((session, row["id"]), ()))
        yield {**row, **opened} | ({"votes": said} if said else {})


def restore(conn: Connection, t: Tables, session: int, rows: Iterable[Mapping[str, Any]]) -> None:
    """Store approvals as `every` gave them. What is none raises StorageError, InvalidDecision, KeyError, ..."""
    carried = [column.name for column in _carried(t)]
    for row in rows:
        _check(row)
        texts = {
            name: row[name] and t.cipher.seal_text(json.dumps(row[name]), place, session, row["id"])
            for name, place in TEXTS.items()
        }
        kept = {name: row.get(name) if name in LATER else row[name] for name in carried}
        conn.execute(insert(t.approvals).values(kept | texts | {"session": session}))
        votes.restore(conn, t, session, row["id"], row.get("votes", ()))


def _check(row: Mapping[str, Any]) -> None:
    """Raise for what no listing could show."""
    for name, what in NAMED.items():
        names.check(what, row[name])
    for name in LATER:
        names.check("name of whom it is escalated to", row.get(name))
    sessions.check_choice("status", row["status"], STATUSES)
    questions.read(row["id"], json.dumps(row["payload"])).approval("")
    if row["decision"] is not None:
        decisions.stored(row["decision"])


def _carried(t: Tables) -> list[Column[Any]]:
    """The columns that mean the same in every database."""
    return [column for column in t.approvals.columns if column.name not in ("no", "session")]


def rows(t: Tables, now: Any) -> Select[Any]:
    """Every approval, with its thread, whether its time is up, and whether the step that asks it is stored."""
    late = case((t.approvals.c.expires <= now, 1), else_=0).label("late")
    there = case((sessions.has_asked(t), 1), else_=0).label("there")
    columns = (t.approvals, t.sessions.c.thread, late, there)
    return select(*columns).join(t.sessions, t.sessions.c.no == t.approvals.c.session)


def found(conn: Connection, t: Tables, id: str, now: Any, thread: str | None, owner: str | None) -> Row[Any]:
    """The row of that id. Raises UnknownApproval, also where several threads have it."""
    wanted = {t.sessions.c.thread: thread, t.approvals.c.owner: owner}
    query = rows(t, now).where(t.approvals.c.id == id)
    these = conn.execute(query.where(*(column == value for column, value in wanted.items() if value is not None))).all()
    if not these:
        raise UnknownApproval(id)
    if len(these) > 1:
        raise UnknownApproval(id, f"several threads have the approval {id!r}: say with thread=... which one is meant")
    return these[0]


def read(conn: Connection, t: Tables, these: Iterable[Row[Any]]) -> list[Approval]:
    """The approvals of these rows, with the votes about them."""
    pairs = [(row, _approval(t, row)) for row in these]
    several = [(row.session, row.id) for row, one in pairs if one.quorum > 1]
    given = votes.of(conn, t, several) if several else {}
    return [one.replace(votes=given.get((row.session, row.id), ())) for row, one in pairs]


def _approval(t: Tables, row: Row[Any]) -> Approval:
    is_late = row.status == "pending" and bool(row.late)
    return (
        question_of(t, row)
        .approval(row.thread)
        .replace(
            status="expired" if is_late and row.on_expire is None else cast("ApprovalStatus", row.status),
            owner=row.owner,
            requested_by=row.requested_by,
            created_at=from_micros(row.created),
            expires_at=from_micros(row.expires) if row.expires is not None else None,
            decision=decision_of(t, row),
            decided_by=row.decided_by,
            decided_at=from_micros(row.decided) if row.decided is not None else None,
            escalated=row.escalated or (deciders.role(row.on_expire) if is_late else None),
            overdue=is_late and row.on_expire == "keep",
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
