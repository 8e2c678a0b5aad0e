"""Checkpoints: what they share is kept once.

A checkpoint is a *form* (names of channels and nodes, an item that many checkpoints share) and its *leaves* (versions
and references to values, as numbers). Values of channels that did not change keep the references of the parent.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from datetime import datetime
from itertools import chain, filterfalse
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, Row, and_, or_, select, update

from scallion.errors import ConfigurationError, StorageError
from scallion.sql import asking, inbound, items, names, sessions, writes
from scallion.sql.cipher import ITEM
from scallion.sql.clock import from_micros, to_micros
from scallion.sql.encoding import Blob, Leaf, Many, Plan, blobs, is_runs, leaf, pack, references, unpack
from scallion.sql.memory import Known, Listed, Memory, Parent, Remembered
from scallion.sql.prepared import prepared
from scallion.sql.summary import COUNTERS
from scallion.sql.tables import Tables

if TYPE_CHECKING:
    from scallion.sql.leases import Lease

Versions = Mapping[str, Any]
Told = Callable[[Connection, Tables, Known], Mapping[str, Any]]
LEAVES, METADATA = "checkpoints.leaves", "checkpoints.metadata"
FORM = "form"
"""The type of the items that hold forms."""
SHARED = ("source", "parents", "owner", "user", "agent", "lc_agent_name", "ls_integration")
"""Metadata that few values are seen of in one thread: what they are is part of the form."""


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
    answered: str | None = None
    taken: int | None = None
    """The message that waited, and is in it."""
    session: Mapping[str, Any] = field(default_factory=dict)
    told: Told | None = None
    """What the thread's row says beside `session`, where older checkpoints have to be read for it."""
    owner: str | None = None
    """Whose thread it must be; None: anybody's."""


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
    past: Mapping[str, Any] = field(default_factory=dict)
    """Of delta channels whose ancestors are gone: [[task, leaf] of each write], and the leaf before them, if any."""

    @property
    def leaves(self) -> Iterator[tuple[str, Leaf]]:
        """All leaves, each with its channel."""
        yield from self.values.items()
        for channel, (written, *seed) in self.past.items():
            yield from ((channel, found) for found in (*(found for _, found in written), *seed))


def put(conn: Connection, t: Tables, memory: Memory, new: NewCheckpoint, now: Any, lease: Lease | None = None) -> Known:
    """Store the checkpoint, move the session on, and settle the approvals that it leaves behind."""
    known = Known(memory, sessions.claim(conn, t, new.thread, now, new.owner, lease), new.thread, new.ns)
    parent = _parent(conn, t, known, new)
    kept = _kept(new, parent)
    plans = dict(new.plans) | {name: new.plan_again(name) for name in new.present - new.changed - kept.keys()}
    form = _form(new, [*plans, *kept])
    before = {name: leaf for name, leaf in parent.values.items() if is_runs(leaf)} if parent else {}
    added = items.store(conn, t, known, [form, *_large(plans, known, before)])
    values = _values(conn, t, known, plans, before) | kept
    _insert(conn, t, known, new, form, _leaves(new, list(values.values())))
    changes = _head(conn, t, known, new)
    counted = {"version": known.claimed.version + 1, "bytes": known.claimed.bytes + added}
    sessions.advance(conn, t, known, changes | counted, now if new.session else None)
    if known.claimed.open_count:
        known.lose_row()
        asking.move_on(conn, t, known.session, new)
    if new.taken is not None:
        inbound.take(conn, t, known.session, new.taken)
    known.wrote(new.id, dict(new.versions), values)
    if lease is not None and not new.ns:
        lease.steps += 1
    return known


def _head(conn: Connection, t: Tables, known: Known, new: NewCheckpoint) -> dict[str, Any]:
    """What the thread's row says from now on: nothing new if there is a newer checkpoint, or if it is a subgraph's."""
    if not new.session or new.id < (known.claimed.head or ""):
        return {}
    changes = {**new.session, **(new.told(conn, t, known) if new.told else {}), "head": new.id}
    if known.claimed.progress == "failed" and writes.has_failed(conn, t, known, new.ns, new.id):
        changes["progress"] = "failed"  # its task was faster than itself
    return changes


def restore(conn: Connection, t: Tables, known: Known, stored: StoredCheckpoint) -> int:
    """Store a checkpoint of another database, whose values lie here already; the bytes added."""
    form = _form(stored, list(stored.values))
    added = items.store(conn, t, known, [form])
    _insert(conn, t, known, stored, form, _leaves(stored, list(stored.values.values())))
    return added


def _parent(conn: Connection, t: Tables, known: Known, new: NewCheckpoint) -> Parent | StoredCheckpoint | None:
    if new.parent is None:
        return None
    found = known.parent(new.parent) or row(conn, t, known.session, new.ns, new.parent)
    if found is None and any(name not in new.present for name in new.metadata.get(COUNTERS) or ()):
        raise gone(new.thread, new.parent)  # a delta channel's value would be lost, and the thread unreadable
    return found


def gone(thread: str, id: str) -> StorageError:
    """The error for a checkpoint that the values of delta channels depend on."""
    what = f"the checkpoint {id!r} of thread {thread!r} is gone"
    return StorageError(f"{what}, as by a prune meanwhile: read the newest, and go on from it")


def _kept(new: NewCheckpoint, parent: Parent | StoredCheckpoint | None) -> dict[str, Leaf]:
    """The parent's references of the channels that are the same version as there."""
    if parent is None:
        return {}
    same = (
        name for name in new.versions if name not in new.changed and new.versions[name] == parent.versions.get(name)
    )
    return {name: parent.values[name] for name in same if name in parent.values}


def _large(plans: Mapping[str, Plan], known: Known, before: Mapping[str, Leaf]) -> Iterator[Blob]:
    """The blobs that need items: large ones, and all that a log refers to and did not yet."""
    for name, planned in plans.items():
        if isinstance(planned, Many):
            after = planned.after
            there = len(after.ids) if after and items.lies_at(after, known, before.get(name)) else 0
            yield from planned.parts[there:]
        else:
            yield from (blob for blob in blobs(planned) if not blob.is_small)


def _values(
    conn: Connection, t: Tables, known: Known, plans: Mapping[str, Plan], before: Mapping[str, Leaf]
) -> dict[str, Leaf]:
    return {
        name: items.version(conn, t, known, name, planned, before.get(name))
        if isinstance(planned, Many)
        else leaf(planned, known.item)
        for name, planned in plans.items()
    }


def _form(new: NewCheckpoint | StoredCheckpoint, names: Sequence[str]) -> Blob:
    seen = [[node, list(versions)] for node, versions in new.seen.items()]
    fixed = {key: value for key, value in new.fixed.items() if key != "ts"}
    return Blob(FORM, pack([fixed, list(new.versions), seen, list(names), _shared(new.metadata)]))


def _shared(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """What the form has of the metadata: plain texts, and that there are no parents."""
    return {name: value for name in SHARED if name in metadata and _is_plain(value := metadata[name])}


def _is_plain(value: Any) -> bool:
    return not value if isinstance(value, dict) else isinstance(value, str) and value.isascii()


def _leaves(new: NewCheckpoint | StoredCheckpoint, values: Sequence[Leaf]) -> bytes:
    seen = [version for versions in new.seen.values() for version in versions.values()]
    past = [new.past] if isinstance(new, StoredCheckpoint) and new.past else []
    return pack([_time(new.fixed.get("ts")), *new.versions.values(), *seen, *values, *past])


def _insert(
    conn: Connection, t: Tables, known: Known, new: NewCheckpoint | StoredCheckpoint, form: Blob, leaves: bytes
) -> None:
    place = known.session, new.ns, new.id
    run = run if isinstance(run := new.metadata.get("run_id"), str) else None
    _check(new, run)
    shared = _shared(new.metadata)
    own = {name: value for name, value in new.metadata.items() if name not in shared}
    values = {
        "parent": new.parent,
        "form": known.item(form.hash),
        "leaves": t.cipher.seal(leaves, LEAVES, *place),
        "metadata": t.cipher.seal_text(json.dumps(own), METADATA, *place),
        "run": run,
    }
    key = {"session": known.session, "ns": new.ns, "id": new.id}
    prepared(conn, t).put_checkpoint.run(conn, key | values)


def _check(new: NewCheckpoint | StoredCheckpoint, run: str | None) -> None:
    names.check("checkpoint namespace", new.ns)
    names.check("checkpoint id", new.id)
    names.check("checkpoint id", new.parent)
    names.check("run_id", run)


def _time(text: Any) -> Any:
    """The time of a checkpoint in a third of the bytes: as a number, if that gives the same text again."""
    if not isinstance(text, str):
        return None if text is None else [text]
    try:
        micros = to_micros(datetime.fromisoformat(text))
        return micros if from_micros(micros).isoformat() == text else text
    except (ValueError, OverflowError, ConfigurationError):
        return text


def _time_again(stored: Any) -> Any:
    """The reverse of `_time`."""
    if isinstance(stored, int):
        return from_micros(stored).isoformat()
    return stored[0] if isinstance(stored, list) else stored


def row(conn: Connection, t: Tables, session: int, ns: str, id: str) -> StoredCheckpoint | None:
    """The checkpoint of that id."""
    found = prepared(conn, t).row.rows(conn, of=session, within=ns, at=id)
    return _stored(t, found[0]) if found else None


def ancestry(conn: Connection, t: Tables, session: int, ns: str, id: str, most: int) -> list[StoredCheckpoint]:
    """The checkpoint of that id and its ancestors, nearest first, at most so many."""
    return [_stored(t, row) for row in prepared(conn, t).chain.rows(conn, of=session, within=ns, at=id, most=most)]


def children(conn: Connection, t: Tables, session: int, parents: Set[tuple[str, str]]) -> list[StoredCheckpoint]:
    """Those of a session whose parent is among these, by namespace and id, and that are not themselves."""
    c = t.checkpoints.c
    pairs = conn.execute(select(c.ns, c.id, c.parent).where(c.session == session, c.parent.is_not(None)))
    those = [(ns, id) for ns, id, parent in pairs if (ns, parent) in parents and (ns, id) not in parents]
    return [found for ns, id in those if (found := row(conn, t, session, ns, id)) is not None]


def rewrite(conn: Connection, t: Tables, stored: StoredCheckpoint) -> None:
    """Store the leaves of a checkpoint anew."""
    place = stored.session, stored.ns, stored.id
    c = t.checkpoints.c
    leaves = t.cipher.seal(_leaves(stored, list(stored.values.values())), LEAVES, *place)
    this = and_(c.session == stored.session, c.ns == stored.ns, c.id == stored.id)
    conn.execute(update(t.checkpoints).where(this).values(leaves=leaves))


def every(conn: Connection, t: Tables, session: int, ns: str | None = None) -> Iterator[tuple[int, StoredCheckpoint]]:
    """All checkpoints of a session, or of one namespace of it, each with the item of its form."""
    query = prepared(conn, t).stored.where(t.checkpoints.c.session == session)
    if ns is not None:
        query = query.where(t.checkpoints.c.ns == ns)
    for found in conn.execute(query.execution_options(yield_per=items.STREAMED)):
        yield found.form, _stored(t, found)


def find(
    conn: Connection, t: Tables, thread: str, ns: str, id: str | None, owner: str | None = None
) -> StoredCheckpoint | None:
    """The checkpoint of that id, or the newest of the namespace; with an `owner`, only in a thread of theirs."""
    here = prepared(conn, t)
    place = {"for_thread": thread, "within": ns} | ({"at": id} if id else {})
    if owner is None:
        found = (here.one if id else here.newest).rows(conn, **place)
    else:
        found = (here.owned_one if id else here.owned_newest).rows(conn, **place, for_owner=owner)
    return _stored(t, found[0]) if found else None


def newest(conn: Connection, t: Tables, nos: Sequence[int]) -> list[StoredCheckpoint]:
    """The newest checkpoints of the outermost graphs of these sessions."""
    c, s = t.checkpoints.c, t.sessions.c
    query = prepared(conn, t).stored.where(c.session.in_(nos), c.ns == "", c.id == s.head)
    return [_stored(t, row) for row in conn.execute(query)]


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
    owner: str | None = None,
) -> list[StoredCheckpoint]:
    """Checkpoints, newest first, that come after `after` in this order."""
    c = t.checkpoints.c
    wanted = {t.sessions.c.thread: thread, c.ns: ns, c.id: id, t.sessions.c.owner: owner}
    query = prepared(conn, t).stored.where(*(column == value for column, value in wanted.items() if value is not None))
    if before is not None:
        query = query.where(c.id < before)
    if after is not None:
        same = or_(c.session < after.session, and_(c.session == after.session, c.ns < after.ns))
        query = query.where(or_(c.id < after.id, and_(c.id == after.id, same)))
    query = query.order_by(c.id.desc(), c.session.desc(), c.ns.desc()).limit(limit)
    return [_stored(t, row) for row in conn.execute(query)]


def _stored(t: Tables, row: Row[Any]) -> StoredCheckpoint:
    session, ns, id, parent, form, leaves, metadata, thread, generation, shape = tuple(row)
    numbers: Iterator[Any] = iter(unpack(t.cipher.open(bytes(leaves), LEAVES, session, ns, id)))
    fixed, names, seen, kept, *shared = unpack(t.cipher.open(bytes(shape), ITEM, session, form))
    fixed["ts"] = _time_again(next(numbers))
    return StoredCheckpoint(
        session=session,
        generation=generation,
        thread=thread,
        ns=ns,
        id=id,
        parent=parent,
        fixed=fixed,
        versions={name: next(numbers) for name in names},
        seen={node: {name: next(numbers) for name in channels} for node, channels in seen},
        values={name: next(numbers) for name in kept},
        metadata=dict(*shared) | json.loads(t.cipher.open_text(metadata, METADATA, session, ns, id)),
        past=next(numbers, {}),
    )


@dataclass(frozen=True, slots=True)
class Contents:
    """What a checkpoint's leaves refer to: blobs by id, and its logged lists by channel."""

    items: Mapping[int, Blob]
    lists: Mapping[str, Listed]


def contents(conn: Connection, t: Tables, memory: Memory, stored: StoredCheckpoint, others: Sequence[Leaf]) -> Contents:
    """What the checkpoint's values and `others` (its writes' leaves) refer to. Raises Vanished if it is gone.

    For a transaction that reads: what it sees is remembered.
    """
    remembered = memory.session(stored.session, stored.generation)
    lists = {
        channel: _listed(conn, t, remembered, stored, channel)
        for channel, found in stored.values.items()
        if is_runs(found)
    }
    plain = [found for channel, found in stored.values.items() if channel not in lists]
    ids = [id for found in (*plain, *others) for id in references(found)]
    listed = chain.from_iterable(one.ids for one in lists.values())
    new = filterfalse(remembered.recipes.__contains__, listed)
    found = items.fetch(conn, t, remembered, stored.session, chain(ids, new))
    remembered.learn_blobs({id: blob for id, blob in found.items() if remembered.blobs.get(id) is None})
    return Contents(found, lists)


def _listed(conn: Connection, t: Tables, remembered: Remembered, stored: StoredCheckpoint, channel: str) -> Listed:
    leaf = stored.values[channel]
    key = channel, tuple(leaf)
    ids = remembered.lists.get(key)
    if ids is None:
        ids = items.listed(conn, t, stored.session, stored.generation, channel, leaf)
        remembered.lists.put([(key, ids)])
    return Listed(ids, (stored.session, stored.generation, leaf), remembered)
