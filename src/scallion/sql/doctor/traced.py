"""What is wrong with the traces of a thread: those that no program could read, and those that are of no turn."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from sqlalchemy import Connection

from scallion.sql import strays
from scallion.sql.doctor.findings import Finding, Kind
from scallion.sql.tables import Tables

REMEDY = "it is deleted"
WHAT: dict[Kind, str] = {
    "unreadable_trace": "the trace of turn {0} cannot be read",
    "orphan_trace": "the trace of turn {0} is of none of its checkpoints",
}


class Flaw(NamedTuple):
    """What is wrong with the trace of one turn."""

    kind: Kind
    turn: str


def flaws(conn: Connection, t: Tables, nos: Sequence[int]) -> dict[int, list[Flaw]]:
    """What is wrong in these sessions, by their numbers; those without a flaw are left out."""
    found: dict[int, list[Flaw]] = {}
    orphans = set(strays.orphans(conn, t, nos))
    for no, turn in strays.unreadable(conn, t, nos):
        orphans.discard((no, turn))
        found.setdefault(no, []).append(Flaw("unreadable_trace", turn))
    for no, turn in sorted(orphans):
        found.setdefault(no, []).append(Flaw("orphan_trace", turn))
    return found


def findings(thread: str, found: Sequence[Flaw]) -> list[Finding]:
    """What is told of them."""
    return [Finding(thread, one.kind, WHAT[one.kind].format(one.turn), REMEDY, one.turn) for one in found]
