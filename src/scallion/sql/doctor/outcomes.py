"""Calls that run at most once, were begun, and came to no end that is known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from sqlalchemy import Connection

from scallion.approvals.effects import call_digest
from scallion.sql import effects
from scallion.sql.doctor.conversation import open_calls
from scallion.sql.doctor.findings import Finding
from scallion.sql.doctor.heads import Head
from scallion.sql.doctor.standing import Standing
from scallion.sql.tables import Tables

REMEDY = (
    "`scallion resume GRAPH THREAD` does not run it again before it is known what came of it: "
    "a person is asked, unless its filter says otherwise"
)


class Begun(NamedTuple):
    """An attempt at a call of which nobody knows more."""

    call: str
    tool: str
    key: str
    attempt: int


def begun(conn: Connection, t: Tables, row: Standing, calls: Mapping[str, str]) -> list[Begun]:
    """The attempts that are the newest at these calls, ids by digest, and were only begun."""
    newest = {one.call: one for one in effects.attempts(conn, t, row.no, list(calls))}
    last = sorted(newest.values(), key=lambda one: (one.begun, one.call))
    return [Begun(calls[one.call], one.tool, one.key, one.attempt) for one in last if one.status == "begun"]


def asks_for(head: Head) -> dict[str, str]:
    """The open calls at the end of its conversation: ids by the digests that the ledger knows."""
    message, calls = open_calls(head.messages) if head.is_read else (None, ())
    return {call_digest(str(message or ""), id): id for id in calls}


def findings(row: Standing, found: Sequence[Begun]) -> list[Finding]:
    """What is told of them; a person who is asked already need not be told."""
    asked = {one.call for one in row.open if one.kind == "unknown_outcome" and not one.is_begun}
    return [_unknown(row, one) for one in found if one.call not in asked]


def _unknown(row: Standing, one: Begun) -> Finding:
    what = (
        f"call {one.call} of {one.tool} was begun, and came to no end that is known; its idempotency key is {one.key}"
    )
    return Finding(row.thread, "unknown_outcome", what, REMEDY, one.call, by=None)
