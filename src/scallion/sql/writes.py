"""Pending writes: one row per task of a checkpoint, which holds all that the task wrote, in order of its indexes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, and_, insert, select, update

from scallion.sql import items, ledger, sessions
from scallion.sql.encoding import Leaf, Plan, blobs, leaf, pack, unpack
from scallion.sql.ledger import Place, Question
from scallion.sql.memory import Known, Memory
from scallion.sql.tables import Tables


@dataclass(frozen=True, slots=True)
class NewWrites:
    """What one task wrote: (index, channel, plan) each; a negative index is a special channel's."""

    thread: str
    place: Place
    path: str
    rows: Sequence[tuple[int, str, Plan]]
    questions: Sequence[Question]
    failed: bool
    finished: bool


@dataclass(frozen=True, slots=True)
class StoredWrite:
    """One pending write, not decoded."""

    path: str
    task: str
    index: int
    channel: str
    leaf: Leaf


def put(conn: Connection, t: Tables, memory: Memory, new: NewWrites, now: Any) -> Known:
    """Store the writes: special ones replace what is there, others are kept as they were first."""
    session = sessions.claim(conn, t, new.thread, now)
    known = Known(memory, session.no, session.generation)
    added = items.store(
        conn, t, known, (blob for _, _, planned in new.rows for blob in blobs(planned) if not blob.is_small)
    )
    _merge(
        conn, t, session.no, new, {index: [channel, leaf(planned, known.item)] for index, channel, planned in new.rows}
    )
    if new.questions:
        ledger.ask(conn, t, session.no, new.place, new.questions, now)
    elif new.finished and session.open_count:
        ledger.finish(conn, t, session.no, new.place)
    changes: dict[str, Any] = {"bytes": session.bytes + added} if added else {}
    if new.failed and new.place.ns == "":
        changes |= {"progress": "failed", "updated": now}
    if changes:
        sessions.advance(conn, t, session.no, changes)
    return known


def _merge(conn: Connection, t: Tables, session: int, new: NewWrites, written: dict[int, list[Any]]) -> None:
    w = t.writes.c
    place = new.place
    key = {"session": session, "ns": place.ns, "checkpoint": place.checkpoint, "task": place.task}
    this = and_(*(w[name] == value for name, value in key.items()))
    found = conn.execute(select(w.leaves).where(this)).scalar()
    if found is None:
        conn.execute(insert(t.writes).values(key | {"path": new.path, "leaves": pack(written)}))
        return
    stored: dict[int, list[Any]] = unpack(bytes(found))
    merged = stored | {index: row for index, row in written.items() if index < 0 or index not in stored}
    conn.execute(update(t.writes).where(this).values(leaves=pack(merged)))


def read(
    conn: Connection, t: Tables, session: int, keys: Sequence[tuple[str, str]]
) -> dict[tuple[str, str], list[StoredWrite]]:
    """The writes of these checkpoints, (namespace, id) each, in the order of (path, task, index)."""
    w = t.writes.c
    query = select(w.ns, w.checkpoint, w.task, w.path, w.leaves).where(
        w.session == session, w.checkpoint.in_({id for _, id in keys})
    )
    found: dict[tuple[str, str], list[StoredWrite]] = {key: [] for key in keys}
    for ns, checkpoint, task, path, leaves in conn.execute(query):
        if (ns, checkpoint) in found:
            found[ns, checkpoint] += _rows(path, task, unpack(bytes(leaves)))
    for stored in found.values():
        stored.sort(key=lambda write: (write.path, write.task, write.index))
    return found


def _rows(path: str, task: str, leaves: Mapping[int, list[Any]]) -> list[StoredWrite]:
    return [StoredWrite(path, task, index, channel, stored) for index, (channel, stored) in leaves.items()]
