"""Checkpoints: what they share is kept once.

A checkpoint is a *form* (names of channels and nodes, an item that many checkpoints share) and its *leaves* (versions
and references to values, as numbers). Values of channels that did not change keep the references of the parent.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

from sqlalchemy import Connection, Row, Select, and_, or_, select

from scallion.sql import items, ledger, sessions
from scallion.sql.encoding import Blob, Leaf, Many, Plan, blobs, is_runs, leaf, pack, references, unpack
from scallion.sql.memory import Known, Memory
from scallion.sql.tables import Tables, upsert

Versions = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class NewCheckpoint:
    """A checkpoint to store. `plans` has the new values; `plan_again` plans one that the parent does not have."""

    thread: str
    ns: str
    id: str
    parent: str | None
    fixed: Mapping[str, Any]
    versions: Versions
    seen: Mapping[str, Versions]
    plans: Mapping[str, Plan]
    changed: frozenset[str]
    present: frozenset[str]
    plan_again: Callable[[str], Plan]
    metadata: Mapping[str, Any]
    session: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class StoredCheckpoint:
    """A checkpoint as it lies in its row; `values` are leaves by channel."""

    session: int
    generation: int
    thread: str
    ns: str
    id: str
    parent: str | None
    fixed: Mapping[str, Any]
    versions: Versions
    seen: Mapping[str, Versions]
    values: Mapping[str, Leaf]
    metadata: Mapping[str, Any]


def put(conn: Connection, t: Tables, memory: Memory, new: NewCheckpoint, now: Any) -> Known:
    """Store the checkpoint, move the session on, and settle the approvals that it leaves behind."""
    session = sessions.claim(conn, t, new.thread, now)
    known = Known(memory, session.no, session.generation)
    parent = row(conn, t, session.no, new.ns, new.parent) if new.parent else None
    kept = _kept(new, parent)
    plans = dict(new.plans) | {name: new.plan_again(name) for name in new.present - new.changed - set(kept)}
    form = _form(new, [*plans, *kept])
    added = items.store(conn, t, known, [form, *_large(plans)])
    values = _values(conn, t, known, plans, parent) | kept
    _insert(conn, t, known, new, form, _leaves(new, list(values.values())))
    if session.open_count:
        ledger.move_on(conn, t, session.no, new.ns, new.parent, new.id, new.metadata.get("source") == "loop")
    size = {"bytes": session.bytes + added}
    changes = {**new.session, "head": new.id, "updated": now, **size} if new.session else size
    sessions.advance(conn, t, session.no, changes)
    return known


def _kept(new: NewCheckpoint, parent: StoredCheckpoint | None) -> dict[str, Leaf]:
    """The parent's references of the channels that are the same version as there."""
    if parent is None:
        return {}
    same = (
        name for name in new.versions if name not in new.changed and new.versions[name] == parent.versions.get(name)
    )
    return {name: parent.values[name] for name in same if name in parent.values}


def _large(plans: Mapping[str, Plan]) -> Iterator[Blob]:
    """The blobs that need items: large ones, and all that a log refers to."""
    for planned in plans.values():
        if isinstance(planned, Many):
            yield from planned.parts
        else:
            yield from (blob for blob in blobs(planned) if not blob.is_small)


def _values(
    conn: Connection, t: Tables, known: Known, plans: Mapping[str, Plan], parent: StoredCheckpoint | None
) -> dict[str, Leaf]:
    values: dict[str, Leaf] = {}
    for name, planned in plans.items():
        if isinstance(planned, Many):
            before = parent.values.get(name) if parent else None
            values[name] = items.version(
                conn, t, known, name, known.items(planned.parts), before if is_runs(before) else None
            )
        else:
            values[name] = leaf(planned, known.item)
    return values


def _form(new: NewCheckpoint, names: Sequence[str]) -> Blob:
    seen = [[node, list(versions)] for node, versions in new.seen.items()]
    fixed = {key: value for key, value in new.fixed.items() if key != "ts"}
    return Blob("form", pack([fixed, list(new.versions), seen, list(names)]))


def _leaves(new: NewCheckpoint, values: Sequence[Leaf]) -> bytes:
    seen = [version for versions in new.seen.values() for version in versions.values()]
    return pack([new.fixed.get("ts"), *new.versions.values(), *seen, *values])


def _insert(conn: Connection, t: Tables, known: Known, new: NewCheckpoint, form: Blob, leaves: bytes) -> None:
    values = {
        "parent": new.parent,
        "form": known.item(form.hash),
        "leaves": leaves,
        "metadata": json.dumps(new.metadata),
    }
    values["run"] = run if isinstance(run := new.metadata.get("run_id"), str) else None
    key = {"session": known.session, "ns": new.ns, "id": new.id}
    conn.execute(upsert(conn, t.checkpoints, key, values))


def row(conn: Connection, t: Tables, session: int, ns: str, id: str) -> StoredCheckpoint | None:
    """The checkpoint of that id."""
    c = t.checkpoints.c
    found = conn.execute(_select(t).where(c.session == session, c.ns == ns, c.id == id)).first()
    return _stored(found) if found else None


def every(conn: Connection, t: Tables, session: int) -> Iterator[tuple[int, StoredCheckpoint]]:
    """All checkpoints of a session, each with the item of its form."""
    for found in conn.execute(_select(t).where(t.checkpoints.c.session == session)):
        yield found.form, _stored(found)


def find(conn: Connection, t: Tables, thread: str, ns: str, id: str | None) -> StoredCheckpoint | None:
    """The checkpoint of that id, or the newest of the namespace."""
    c = t.checkpoints.c
    query = _select(t).where(t.sessions.c.thread == thread, c.ns == ns)
    query = query.where(c.id == id) if id else query.order_by(c.id.desc()).limit(1)
    found = conn.execute(query).first()
    return _stored(found) if found else None


def page(
    conn: Connection,
    t: Tables,
    *,
    thread: str | None,
    ns: str | None,
    id: str | None,
    before: str | None,
    after: StoredCheckpoint | None,
    limit: int,
) -> list[StoredCheckpoint]:
    """Checkpoints, newest first, that come after `after` in this order."""
    c = t.checkpoints.c
    wanted = {t.sessions.c.thread: thread, c.ns: ns, c.id: id}
    query = _select(t).where(*(column == value for column, value in wanted.items() if value is not None))
    if before is not None:
        query = query.where(c.id < before)
    if after is not None:
        same = or_(c.session < after.session, and_(c.session == after.session, c.ns < after.ns))
        query = query.where(or_(c.id < after.id, and_(c.id == after.id, same)))
    query = query.order_by(c.id.desc(), c.session.desc(), c.ns.desc()).limit(limit)
    return [_stored(row) for row in conn.execute(query)]


def _select(t: Tables) -> Select[Any]:
    return (
        select(t.checkpoints, t.sessions.c.thread, t.sessions.c.generation, t.items.c.data.label("shape"))
        .join(t.sessions, t.sessions.c.no == t.checkpoints.c.session)
        .join(t.items, t.items.c.id == t.checkpoints.c.form)
    )


def _stored(row: Row[Any]) -> StoredCheckpoint:
    fixed, names, seen, kept = unpack(bytes(row.shape))
    numbers: Iterator[Any] = iter(unpack(bytes(row.leaves)))
    fixed["ts"] = next(numbers)
    return StoredCheckpoint(
        session=row.session,
        generation=row.generation,
        thread=row.thread,
        ns=row.ns,
        id=row.id,
        parent=row.parent,
        fixed=fixed,
        versions={name: next(numbers) for name in names},
        seen={node: {name: next(numbers) for name in channels} for node, channels in seen},
        values={name: next(numbers) for name in kept},
        metadata=json.loads(row.metadata),
    )


@dataclass(frozen=True, slots=True)
class Contents:
    """What a checkpoint's leaves refer to: blobs by id, and the items of its logged lists by channel."""

    items: Mapping[int, Blob]
    lists: Mapping[str, Sequence[int]]


def contents(conn: Connection, t: Tables, memory: Memory, stored: StoredCheckpoint, others: Sequence[Leaf]) -> Contents:
    """What the checkpoint's values and `others` (its writes' leaves) refer to."""
    known = Known(memory, stored.session, stored.generation)
    logged = {channel: found for channel, found in stored.values.items() if is_runs(found)}
    lists = {channel: items.listed(conn, t, known, channel, found) for channel, found in logged.items()}
    known.keep()
    plain = [found for channel, found in stored.values.items() if channel not in logged]
    ids = [id for found in (*plain, *others) for id in references(found)]
    return Contents(items.fetch(conn, t, memory, chain(ids, *lists.values())), lists)
