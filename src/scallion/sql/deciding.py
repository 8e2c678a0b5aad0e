"""Decisions about approvals: each is stored once, by somebody who may, and can be taken back until it is used.

Storing is a compare-and-set. Where several people have to agree, whoever votes holds the session's row, so that one
comes behind the other.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row, select, update

from scallion.approvals import deciders, decisions
from scallion.errors import AlreadyDecided, DecisionError, InvalidDecision
from scallion.sql import audit, expiring, ledger, sessions, telling, votes
from scallion.sql.clock import to_micros
from scallion.sql.ledger import DECISION, found, get, question_of
from scallion.sql.tables import Tables
from scallion.values import Approval, Decision, Vote


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
    instant = to_micros(now)
    said = {id: decisions.read(decision) for id, decision in chosen.items()}
    rows = {id: _settled(conn, t, id, instant, thread, owner) for id in said}
    shown = dict(zip(rows, ledger.read(conn, t, rows.values()), strict=True))
    for id, decision in said.items():
        decisions.check(shown[id], decision, by)
    for id, decision in said.items():
        if by is not None and deciders.counts(shown[id], decision):
            _vote(conn, t, rows[id], shown[id], Vote(by, decision, now))
        else:
            _store(conn, t, rows[id], decision, by, now)
    for session in sorted({row.session for row in rows.values()}):
        sessions.recount(conn, t, session)
    return [get(conn, t, row.id, instant, thread=row.thread) for row in rows.values()]


def _settled(conn: Connection, t: Tables, id: str, now: int, thread: str | None, owner: str | None) -> Row[Any]:
    """The row, after what time did to it; held where others may be about to say something about it too."""
    row = found(conn, t, id, now, thread, owner)
    if row.status == "pending" and not row.there:
        raise DecisionError(f"the step that asks {id!r} is not stored, nor may ever be: there is nothing to decide yet")
    is_due = row.status == "pending" and row.late and deciders.role(row.on_expire) is not None
    if not is_due and question_of(t, row).approval("").quorum == 1:
        return row
    expiring.hold(conn, t, {row.session})
    row = found(conn, t, id, now, row.thread, owner)
    if row.status == "pending" and row.late and deciders.role(row.on_expire) is not None:
        expiring.escalate(conn, t, row, now)
        row = found(conn, t, id, now, row.thread, owner)
    return row


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
    rows = [found(conn, t, id, to_micros(at), thread, owner) for id in chosen]
    these = ledger.read(conn, t, rows)
    ours = all((one.decided_at, one.decided_by) == (at, by) or _has_voted(one, by, at) for one in these)
    return these if ours else []


def _has_voted(approval: Approval, by: str | None, at: datetime) -> bool:
    return any((vote.by, vote.at) == (by, at) for vote in approval.votes)


def _vote(conn: Connection, t: Tables, row: Row[Any], approval: Approval, vote: Vote) -> None:
    """Add the vote, and decide if that makes enough of the same."""
    if any(one.by == vote.by for one in approval.votes):
        raise InvalidDecision(f"{vote.by!r} has voted already: others have to agree, or withdraw the vote", approval)
    votes.add(conn, t, row.session, row.id, vote)
    agreed = 1 + sum(deciders.is_same(one.decision, vote.decision) for one in approval.votes)
    told = {**_told(t, row, vote.decision), "agreed": agreed, "of": approval.quorum}
    audit.add(conn, t, "voted", thread=row.thread, subject=row.id, by=vote.by, detail=told, now=vote.at)
    if agreed >= approval.quorum:
        _store(conn, t, row, vote.decision, vote.by, vote.at)


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
    in_turn: bool = False,
) -> Approval:
    """Take back a decision that nothing has used yet, or one's own vote; the approval is pending again.

    Refused while a turn runs on the thread, which may be using it, unless that turn takes it back itself: `in_turn`.
    """
    row = _settled(conn, t, id, now, thread, owner)
    expiring.hold(conn, t, {row.session})
    approval = ledger.read(conn, t, [row])[0]
    deciders.check(approval, by)
    if row.status == "decided" and not in_turn and _is_running(conn, t, row.session, now):
        raise DecisionError(f"a turn runs on thread {row.thread!r}, and may be using the decision about {id!r}")
    question = question_of(t, row)
    if question.taken:
        raise DecisionError(f"the graph has taken the answer to {id!r}: it goes on with that one")
    if question.begun and row.status == "decided":
        raise DecisionError(f"the call that {id!r} is about was begun: it may have taken effect")
    is_voter = _has_a_part(approval, by) and votes.take_back(conn, t, row.session, row.id, str(by))
    if row.status == "decided" and approval.quorum > 1 and not is_voter and by != row.decided_by:
        raise DecisionError(f"{by!r} is not among those who decided {id!r}: there is nothing of theirs to take back")
    values = {"status": "pending", "decision": None, "decided_by": None, "decided": None}
    is_voice = is_voter and row.status == "pending"
    if not is_voice and not _change(conn, t, row, "decided", values):
        raise DecisionError(f"approval {id!r} is {approval.status}: there is no decision to take back")
    told = {"of": by if is_voter else row.decided_by}
    audit.add(conn, t, "withdrawn", thread=row.thread, subject=row.id, by=by, detail=told, now=now)
    if not is_voice:
        telling.withdrawn(conn, t, row.session, row.id, now)
    sessions.recount(conn, t, row.session)
    return get(conn, t, id, now, thread=row.thread)


def _is_running(conn: Connection, t: Tables, session: int, now: Any) -> bool:
    """Whether somebody holds the thread. Whoever calls holds the row: a turn that begins later sees what was done."""
    s = t.sessions.c
    held = select(s.no).where(s.no == session, sessions.is_held(t, now))
    return conn.execute(held).first() is not None


def _has_a_part(approval: Approval, by: str | None) -> bool:
    """Whether a vote of theirs is for what was decided, or nothing is decided yet."""
    mine = next((vote for vote in approval.votes if vote.by == by), None)
    return mine is not None and (approval.decision is None or deciders.is_same(mine.decision, approval.decision))
