"""Pending writes: one row per task of a checkpoint, which holds all that the task wrote, in order of its indexes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, and_, select, update

from scallion.approvals.questions import Question
from scallion.sql import asking, items, names, sessions
from scallion.sql.asking import Place
from scallion.sql.encoding import Leaf, Plan, blobs, leaf, pack, unpack
from scallion.sql.failures import Vanished
from scallion.sql.memory import Known, Memory
from scallion.sql.prepared import prepared
from scallion.sql.tables import Tables

if TYPE_CHECKING:
    from scallion.sql.leases import Lease

LEAVES = "writes.leaves"


@dataclass(frozen=True, slots=True)
class NewWrites:
    """What one task wrote: (index, channel, plan) each; a negative index is a special channel's."""

    thread: str
    place: Place
    path: str
    rows: Sequence[tuple[int, str, Plan]] = ()
    questions: Sequence[Question] = ()
    failed: bool = False
    finished: bool = False
    answers: int = 0
    """How many of its questions were answered."""
    asks_again: bool = False
    """Whether the last of them was answered with the news that everything has to be asked again."""
    owner: str | None = None
    """Whose thread it must be; None: anybody's."""


@dataclass(frozen=True, slots=True)
class StoredWrite:
    """One pending write, not decoded."""

    path: str
    task: str
    index: int
    channel: str
    leaf: Leaf


def put(conn: Connection, t: Tables, memory: Memory, new: NewWrites, now: Any, lease: Lease | None = None) -> Known:
    """Store the writes: special ones replace what is there, others are kept as they were first."""
    known = Known(memory, sessions.claim(conn, t, new.thread, now, new.owner, lease), new.thread, new.place.ns)
    large = (blob for _, _, planned in new.rows for blob in blobs(planned) if not blob.is_small)
    added = items.store(conn, t, known, large)
    _add(conn, t, known.session, new, {index: [name, leaf(planned, known.item)] for index, name, planned in new.rows})
    failed = new.failed and new.place.ns == ""
    if failed or added:
        changes = {"bytes": known.claimed.bytes + added} | ({"progress": "failed"} if failed else {})
        sessions.advance(conn, t, known, changes, now if failed else None)
    if new.questions or known.claimed.open_count:
        known.lose_row()
    if new.questions:
        place = replace(new.place, owner=known.claimed.owner or new.place.owner)
        asking.ask(conn, t, known.session, place, new.questions, now, anew=new.asks_again)
    elif known.claimed.open_count and new.finished:
        asking.finish(conn, t, known.session, new.place, anew=new.asks_again)
    elif known.claimed.open_count and new.failed:
        asking.take(conn, t, known.session, new.place, new.answers)
    return known


def _add(conn: Connection, t: Tables, session: int, new: NewWrites, written: dict[int, list[Any]]) -> None:
    place = new.place
    _check(place, new.path)
    key: dict[str, Any] = {"session": session, "ns": place.ns, "checkpoint": place.checkpoint, "task": place.task}
    sealed = t.cipher.seal(pack(written), LEAVES, *key.values())
    if prepared(conn, t).add_writes.run(conn, key | {"path": new.path, "leaves": sealed}) == 1:
        return
    this = and_(*(t.writes.c[name] == value for name, value in key.items()))
    stored = opened(t, conn.execute(select(t.writes.c.leaves).where(this)).scalar_one(), **key)
    merged = dict(stored) | {index: row for index, row in written.items() if index < 0 or index not in stored}
    conn.execute(update(t.writes).where(this).values(leaves=t.cipher.seal(pack(merged), LEAVES, *key.values())))


def _check(place: Place, path: str) -> None:
    """Before they are stored: MySQL would cut what is too long, as the statement ignores errors."""
    names.check("checkpoint namespace", place.ns)
    names.check("checkpoint id", place.checkpoint)
    names.check("task id", place.task)
    names.check("task path", path)


def restore(
    conn: Connection, t: Tables, session: int, place: Place, path: str, written: Mapping[int, list[Any]]
) -> None:
    """Store the writes of a task as another database has them: [channel, leaf] by index, of items that lie here."""
    _add(conn, t, session, NewWrites("", place, path), dict(written))


def every(
    conn: Connection, t: Tables, session: int
) -> Iterator[tuple[tuple[str, str, str], str, Mapping[int, list[Any]]]]:
    """All pending writes of a session: namespace, checkpoint and task; path; [channel, leaf] by index."""
    w = t.writes.c
    query = select(w.ns, w.checkpoint, w.task, w.path, w.leaves).where(w.session == session)
    for ns, checkpoint, task, path, leaves in conn.execute(query.execution_options(yield_per=items.STREAMED)):
        yield (ns, checkpoint, task), path, opened(t, leaves, session, ns, checkpoint, task)


def read(conn: Connection, t: Tables, session: int, generation: int, ns: str, checkpoint: str) -> list[StoredWrite]:
    """The writes of this checkpoint, in the order of (path, task, index). Raises Vanished in another generation."""
    found = _of_generation(prepared(conn, t).writes.rows(conn, of=session, within=ns, at=checkpoint), generation)
    rows = [row for path, task, leaves in found for row in _rows(t, path, task, leaves, session, ns, checkpoint)]
    return sorted(rows, key=_place_in_order)


def _of_generation(rows: Sequence[Any], generation: int) -> list[Sequence[Any]]:
    """The rows without what comes first in them. No row means no writes only while the session is what it was."""
    if not rows or rows[0][0] != generation:
        raise Vanished
    return [row[1:] for row in rows if row[1] is not None]


def of_many(
    conn: Connection, t: Tables, session: int, generation: int, ns: str, checkpoints: Sequence[str]
) -> Mapping[str, list[StoredWrite]]:
    """The writes of these checkpoints of a namespace, by checkpoint, each in the order of `read`; raises as that."""
    query = prepared(conn, t).writes_of_many
    found: dict[str, list[StoredWrite]] = {checkpoint: [] for checkpoint in checkpoints}
    for batch in items.batches(checkpoints):
        rows = conn.execute(query, {"of": session, "within": ns, "ids": batch}).all()
        for at, path, task, leaves in _of_generation(rows, generation):
            found[at] += _rows(t, path, task, leaves, session, ns, at)
    return {checkpoint: sorted(rows, key=_place_in_order) for checkpoint, rows in found.items()}


def _rows(t: Tables, path: str, task: str, leaves: bytes, session: int, ns: str, at: str) -> list[StoredWrite]:
    written = opened(t, leaves, session, ns, at, task)
    return [StoredWrite(path, task, index, channel, stored) for index, (channel, stored) in written.items()]


def _place_in_order(write: StoredWrite) -> tuple[str, str, int]:
    return write.path, write.task, write.index


def opened(t: Tables, leaves: bytes, session: int, ns: str, checkpoint: str, task: str) -> Mapping[int, list[Any]]:
    """What a row of writes holds: (channel, leaf) by index."""
    found: Mapping[int, list[Any]] = unpack(t.cipher.open(bytes(leaves), LEAVES, session, ns, checkpoint, task))
    return found


def has_failed(conn: Connection, t: Tables, known: Known, ns: str, checkpoint: str) -> bool:
    """Whether a task of this checkpoint wrote an error."""
    found = read(conn, t, known.session, known.claimed.generation, ns, checkpoint)
    return any(write.channel == "__error__" for write in found)
