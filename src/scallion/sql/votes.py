"""Votes: what each of several people said about an approval on which they have to agree."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Connection, delete, insert, select, tuple_

from scallion.approvals import decisions
from scallion.sql import names, sessions
from scallion.sql.clock import from_micros, to_micros
from scallion.sql.tables import Tables
from scallion.values import Decision, Vote

SAID = "votes.decision"
BATCH = 200
"""About how many approvals is asked at once."""
Votes = Mapping[tuple[int, str], tuple[Vote, ...]]
"""By session and approval id."""


def of(conn: Connection, t: Tables, approvals: Iterable[tuple[int, str]]) -> Votes:
    """The votes about these approvals, the first first."""
    v = t.votes.c
    found: dict[tuple[int, str], list[Vote]] = {}
    for batch in _batches(list(approvals)):
        query = select(t.votes).where(tuple_(v.session, v.approval).in_(batch)).order_by(v.at, v.by)
        for row in conn.execute(query):
            text = t.cipher.open_text(row.decision, SAID, row.session, row.approval, row.by)
            vote = Vote(row.by, decisions.stored(json.loads(text)), from_micros(row.at))
            found.setdefault((row.session, row.approval), []).append(vote)
    return {key: tuple(given) for key, given in found.items()}


def _batches(keys: Sequence[tuple[int, str]]) -> Iterator[Sequence[tuple[int, str]]]:
    return (keys[start : start + BATCH] for start in range(0, len(keys), BATCH))


def add(conn: Connection, t: Tables, session: int, approval: str, vote: Vote) -> None:
    """Store a vote. Whoever calls holds the session, and knows that this person has none."""
    said = t.cipher.seal_text(json.dumps(vote.decision.to_json()), SAID, session, approval, vote.by)
    row = {"session": session, "approval": approval, "by": vote.by, "decision": said, "at": to_micros(vote.at)}
    conn.execute(insert(t.votes).values(row))


def take_back(conn: Connection, t: Tables, session: int, approval: str, by: str) -> bool:
    """Delete the vote of that person; whether there was one."""
    v = t.votes.c
    mine = delete(t.votes).where(v.session == session, v.approval == approval, v.by == by)
    return conn.execute(mine).rowcount == 1


def forget(conn: Connection, t: Tables, session: int, approvals: Sequence[str]) -> None:
    """Delete all votes about these approvals: something else is asked under their ids."""
    v = t.votes.c
    conn.execute(delete(t.votes).where(v.session == session, v.approval.in_(approvals)))


def are_open(t: Tables, session: int) -> ColumnElement[bool]:
    """Which votes of a session are about what it waits for."""
    a = t.approvals.c
    return t.votes.c.approval.in_(select(a.id).where(a.session == session, sessions.waits(t)))


def carried(votes: Iterable[Vote]) -> list[dict[str, Any]]:
    """Votes as an export has them."""
    return [vote.to_json() for vote in votes]


def restore(conn: Connection, t: Tables, session: int, approval: str, rows: Iterable[Mapping[str, Any]]) -> None:
    """Store votes as `carried` gave them. What is none raises StorageError, InvalidDecision, KeyError, ..."""
    for row in rows:
        names.check("name of who decides", row["by"])
        said: Decision = decisions.stored(row["decision"])
        add(conn, t, session, approval, Vote(row["by"], said, datetime.fromisoformat(row["at"])))
