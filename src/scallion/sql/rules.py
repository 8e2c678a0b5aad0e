"""Standing rules in the database: made, listed, revoked, and used, each use counted by a compare-and-set."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, and_, insert, or_, select, update

from scallion.approvals.rules import Asked, Rule, Ruling
from scallion.errors import DecisionError
from scallion.sql import audit, ledger, sessions
from scallion.sql.clock import from_micros, to_micros
from scallion.sql.sessions import Page
from scallion.sql.tables import Tables

EVENTS = {"allow": "allowed", "deny": "denied"}
"""What the audit calls a use."""


def add(conn: Connection, t: Tables, values: Mapping[str, Any], condition: str, now: datetime) -> Rule:
    """Make a rule. `values`: its columns; `condition`: what it says of arguments."""
    row = {**values, "created": to_micros(now), "used": 0}
    sealed = t.cipher.seal_text(condition, *_place(row))
    key = conn.execute(insert(t.rules).values({**row, "pattern": sealed})).inserted_primary_key
    assert key is not None
    no: int = key[0]
    made = _one(conn, t, no, None)
    told = {"tool": made.tool, "verdict": made.verdict, "args": made.args, "uses": made.uses_left, "owner": made.owner}
    told["pattern"] = audit.digest(t, made.pattern) if made.pattern is not None else None
    told["expires"] = row["expires"]
    audit.add(
        conn, t, "rule_added", thread=made.thread or "", subject=str(no), by=made.created_by, detail=told, now=now
    )
    return made


def added(conn: Connection, t: Tables, values: Mapping[str, Any], at: datetime) -> Rule | None:
    """The rule that `add` made at that instant, if it did."""
    r = t.rules.c
    query = select(t.rules).where(
        r.created == to_micros(at), r.created_by == values["created_by"], r.tool == values["tool"]
    )
    row = conn.execute(query).first()
    return _rule(t, row) if row is not None else None


def page(
    conn: Connection,
    t: Tables,
    now: Any,
    *,
    tool: str | None = None,
    thread: str | None = None,
    owner: str | None = None,
    ended: bool = False,
    limit: int = 50,
    after: str | None = None,
) -> Page[Rule]:
    """Rules, the oldest first; with those that are revoked, expired or used up where `ended`."""
    r = t.rules.c
    wanted = {r.tool: tool, r.thread: thread, r.owner: owner}
    query = select(t.rules).where(*(column == value for column, value in wanted.items() if value is not None))
    if not ended:
        query = query.where(_holds(t, now))
    rows, following = sessions.numbered(conn, query, r.no, limit, after)
    return Page([_rule(t, row) for row in rows], following)


def revoke(conn: Connection, t: Tables, no: int, by: str, now: datetime, owner: str | None) -> Rule:
    """End a rule, if nobody has. Raises DecisionError where there is none."""
    found = _one(conn, t, no, owner)
    this = and_(t.rules.c.no == no, t.rules.c.revoked.is_(None))
    change = update(t.rules).where(this).values(revoked=to_micros(now), revoked_by=by)
    if conn.execute(change).rowcount == 1:
        audit.add(conn, t, "rule_revoked", thread=found.thread or "", subject=str(no), by=by, now=now)
    return _one(conn, t, no, owner)


def is_any(conn: Connection, t: Tables, tool: str) -> bool:
    """Whether there is, or was, a rule about the tool at all."""
    return conn.execute(select(t.rules.c.no).where(t.rules.c.tool == tool).limit(1)).first() is not None


def use(conn: Connection, t: Tables, call: Asked, now: datetime, owner: str | None) -> Ruling | None:
    """The rule that fits the call, used: a denial before an allowance.

    What a rule said of this very call holds on, and what a person was asked already is left to that person.
    """
    args = audit.digest(t, call.args)
    before = _used(conn, t, call, args)
    if before is not None:
        return before if before.verdict == "deny" or not call.deny_only else None
    if _is_asked(conn, t, call):
        return None
    rules = _about(conn, t, call, to_micros(now), owner)
    for verdict in ("deny",) if call.deny_only else ("deny", "allow"):
        for rule in rules:
            if rule.verdict == verdict and rule.fits(call) and _count(conn, t, rule, to_micros(now)):
                told = {"rule": rule.id, "tool": call.tool, "args": args}
                about = {"thread": call.thread, "subject": call.call, "by": f"rule {rule.id}"}
                audit.add(conn, t, EVENTS[verdict], **about, detail=told, now=now)
                return Ruling(rule.id, rule.verdict)
    return None


def _used(conn: Connection, t: Tables, call: Asked, args: str) -> Ruling | None:
    """What a rule said of this call, with these arguments, before: it is not used twice, and nobody takes it back.

    Nothing, where the thread went on since: the call is made once more.
    """
    a, c, s = t.audit.c, t.checkpoints.c, t.sessions.c
    ns, id = call.checkpoint
    later = select(c.id).join(t.sessions, s.no == c.session).where(s.thread == call.thread, c.ns == ns, c.id > id)
    if conn.execute(later.limit(1)).first() is not None:
        return None
    mine = (a.thread == call.thread, a.subject == call.call, a.event.in_(EVENTS.values()))
    for event, detail in conn.execute(select(a.event, a.detail).where(*mine).order_by(a.no)):
        told = json.loads(detail)
        if (told["tool"], told["args"]) == (call.tool, args):
            return Ruling(told["rule"], "allow" if event == EVENTS["allow"] else "deny")
    return None


def _is_asked(conn: Connection, t: Tables, call: Asked) -> bool:
    """Whether a person was asked about this call already, and has not decided."""
    a, s = t.approvals.c, t.sessions.c
    query = select(a.session, a.id, a.payload).join(t.sessions, s.no == a.session)
    rows = conn.execute(query.where(s.thread == call.thread, a.status == "pending", a.tool == call.tool)).all()
    return any(ledger.question_of(t, row).approval(call.thread).call_id == call.call_id for row in rows)


def _about(conn: Connection, t: Tables, call: Asked, now: int, owner: str | None) -> Sequence[Rule]:
    """The rules for this tool, in this thread of its owner, the oldest first."""
    r, s = t.rules.c, t.sessions.c
    if owner is None:
        owner = conn.execute(select(s.owner).where(s.thread == call.thread)).scalar()
    mine = or_(r.owner.is_(None), r.owner == owner) if owner is not None else r.owner.is_(None)
    here = or_(r.thread.is_(None), r.thread == call.thread)
    query = select(t.rules).where(r.tool == call.tool, mine, here, _holds(t, now)).order_by(r.no)
    return [_rule(t, row) for row in conn.execute(query).all()]


def _holds(t: Tables, now: Any) -> ColumnElement[bool]:
    r = t.rules.c
    counted, timed = or_(r.left.is_(None), r.left > 0), or_(r.expires.is_(None), r.expires > now)
    return and_(r.revoked.is_(None), counted, timed)


def _count(conn: Connection, t: Tables, rule: Rule, now: int) -> bool:
    """Count a use, if the rule still has one: of several that come at once, no more than are left."""
    r = t.rules.c
    change = update(t.rules).where(r.no == rule.id, _holds(t, now)).values(used=r.used + 1, left=r.left - 1)
    return conn.execute(change).rowcount == 1


def reseal(conn: Connection, t: Tables) -> None:
    """Seal what every rule says with the key that the database has now."""
    r = t.rules.c
    query = select(t.rules).order_by(r.no).with_for_update()
    for row in map(dict, conn.execute(query).mappings().all()):
        text = t.cipher.open_text(row["pattern"], *_place(row))
        conn.execute(update(t.rules).where(r.no == row["no"]).values(pattern=t.cipher.seal_text(text, *_place(row))))


def _place(row: Mapping[str, Any]) -> tuple[str | int, ...]:
    """What it says is bound to all that the rule is about: it cannot be moved to another tool, thread or verdict."""
    about = [row["tool"], row["thread"], row["owner"], row["verdict"], row["created_by"]]
    return "rules.pattern", 0, json.dumps(about), row["created"]


def _one(conn: Connection, t: Tables, no: int, owner: str | None) -> Rule:
    query = select(t.rules).where(t.rules.c.no == no)
    row = conn.execute(query if owner is None else query.where(t.rules.c.owner == owner)).one_or_none()
    if row is None:
        raise DecisionError(f"there is no rule {no}: list them")
    return _rule(t, row)


def _rule(t: Tables, row: Row[Any]) -> Rule:
    said = json.loads(t.cipher.open_text(row.pattern, *_place(dict(row._mapping))))
    return Rule(
        id=row.no,
        tool=row.tool,
        verdict=row.verdict,
        thread=row.thread,
        owner=row.owner,
        args=said.get("args"),
        pattern=said.get("pattern"),
        created_at=from_micros(row.created),
        created_by=row.created_by,
        expires_at=from_micros(row.expires) if row.expires is not None else None,
        uses_left=row.left,
        used=row.used,
        revoked_at=from_micros(row.revoked) if row.revoked is not None else None,
        revoked_by=row.revoked_by,
    )
