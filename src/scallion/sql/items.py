"""Items and the logs of list channels: each piece is stored once, many are read at a time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from sqlalchemy import ColumnElement, Connection, and_, func, insert, or_, select
from sqlalchemy.dialects import postgresql, sqlite

from scallion.sql.encoding import RUNS, Blob, Leaf, runs
from scallion.sql.memory import Known, Memory
from scallion.sql.tables import Tables

V = TypeVar("V")

BATCH = 500
"""How many values one IN (...) holds: below every database's limit of parameters."""
MOST_RUNS = 64
"""A list version of more ranges is written anew as one, so that reading and referring to it stay cheap."""


def store(conn: Connection, t: Tables, known: Known, blobs: Iterable[Blob]) -> int:
    """Have `known` know the items of these blobs; those that the session lacks are stored. Gives the bytes added."""
    wanted = known.missing(blobs)
    if not wanted:
        return 0
    added = _inserted(conn, t, known.session, list(wanted.values()))
    known.learn_ids(added)
    if len(added) < len(wanted):
        known.learn_ids(_found(conn, t, known.session, [digest for digest in wanted if digest not in added]))
    return sum(len(wanted[digest].data) for digest in added)


def _inserted(conn: Connection, t: Tables, session: int, blobs: Sequence[Blob]) -> dict[bytes, int]:
    """The ids of those blobs that were not there."""
    dialect = {"postgresql": postgresql, "sqlite": sqlite}.get(conn.dialect.name)
    if dialect is None:
        there = _found(conn, t, session, [blob.hash for blob in blobs])
        blobs = [blob for blob in blobs if blob.hash not in there]
        if blobs:
            conn.execute(insert(t.items), _rows(session, blobs))
        return _found(conn, t, session, [blob.hash for blob in blobs])
    statement = dialect.insert(t.items).on_conflict_do_nothing().returning(t.items.c.hash, t.items.c.id)
    return {bytes(digest): id for digest, id in conn.execute(statement, _rows(session, blobs))}


def _rows(session: int, blobs: Sequence[Blob]) -> list[dict[str, Any]]:
    return [{"session": session, "hash": blob.hash, "type": blob.type, "data": blob.data} for blob in blobs]


def _found(conn: Connection, t: Tables, session: int, hashes: Sequence[bytes]) -> dict[bytes, int]:
    columns = select(t.items.c.hash, t.items.c.id).where(t.items.c.session == session)
    found: dict[bytes, int] = {}
    for batch in batches(hashes):
        found.update((bytes(digest), id) for digest, id in conn.execute(columns.where(t.items.c.hash.in_(batch))))
    return found


def fetch(conn: Connection, t: Tables, memory: Memory, ids: Iterable[int]) -> dict[int, Blob]:
    """The blobs of these items."""
    found: dict[int, Blob] = {}
    missing = []
    for id in set(ids):
        if (blob := memory.blobs.get(id)) is None:
            missing.append(id)
        else:
            found[id] = blob
    columns = select(t.items.c.id, t.items.c.type, t.items.c.data)
    for batch in batches(sorted(missing)):
        rows = conn.execute(columns.where(t.items.c.id.in_(batch)))
        fresh = {id: Blob(type, bytes(data)) for id, type, data in rows}
        memory.blobs.put(fresh.items())
        found.update(fresh)
    return found


def listed(conn: Connection, t: Tables, known: Known, channel: str, version: Leaf) -> Sequence[int]:
    """The items of a list version, in order."""
    if (found := known.list(channel, version)) is not None:
        return found
    query = select(t.entries.c.pos, t.entries.c.item).where(_within(t, known.session, channel, runs(version)))
    by_pos = {row.pos: row.item for row in conn.execute(query)}
    ids = [by_pos[pos] for pos in _positions(version)]
    known.learn_list(channel, version, ids)
    return ids


def version(conn: Connection, t: Tables, known: Known, channel: str, ids: Sequence[int], base: Leaf | None) -> Leaf:
    """The leaf of a list of items, sharing what it can with the version `base` of the same channel."""
    before = listed(conn, t, known, channel, base) if base else []
    if ids[: len(before)] == before:  # only appended, as nearly always
        new = _appended(conn, t, known.session, channel, ids[len(before) :])
        ranges = _joined([*(runs(base) if base else ()), *new])
    else:
        places = _shared(ids, _places(before, _positions(base) if base else ()))
        missing = [id for id, place in zip(ids, places, strict=True) if place is None]
        fresh = iter(
            [
                pos
                for first, last in _appended(conn, t, known.session, channel, missing)
                for pos in range(first, last + 1)
            ]
        )
        ranges = _joined((pos, pos) for pos in (next(fresh) if place is None else place for place in places))
    if len(ranges) > MOST_RUNS:
        ranges = _appended(conn, t, known.session, channel, ids)
    leaf = [RUNS, *(end for run in ranges for end in run)]
    known.learn_list(channel, leaf, ids)
    return leaf


def _positions(version: Leaf) -> list[int]:
    return [pos for first, last in runs(version) for pos in range(first, last + 1)]


def _places(ids: Sequence[int], positions: Sequence[int]) -> dict[int, list[int]]:
    """The positions of each item, in the order of the list."""
    places: dict[int, list[int]] = {}
    for id, pos in zip(ids, positions, strict=True):
        places.setdefault(id, []).append(pos)
    return places


def _shared(ids: Sequence[int], places: Mapping[int, list[int]]) -> list[int | None]:
    """For each item a position that holds it, best the one after its predecessor's; None for new ones."""
    chosen: list[int | None] = []
    previous = -1
    for id in ids:
        options = places.get(id)
        if options is None:
            chosen.append(None)
            continue
        previous = previous + 1 if previous + 1 in options else options[0]
        chosen.append(previous)
    return chosen


def _appended(conn: Connection, t: Tables, session: int, channel: str, ids: Sequence[int]) -> list[tuple[int, int]]:
    """The range of the channel's log where these items are now."""
    if not ids:
        return []
    log = and_(t.entries.c.session == session, t.entries.c.channel == channel)
    last = conn.execute(select(func.max(t.entries.c.pos)).where(log)).scalar()
    start = 0 if last is None else last + 1
    rows = [{"session": session, "channel": channel, "pos": start + n, "item": id} for n, id in enumerate(ids)]
    conn.execute(insert(t.entries), rows)
    return [(start, start + len(ids) - 1)]


def _joined(ranges: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """The same positions in as few ranges as possible."""
    found: list[tuple[int, int]] = []
    for first, last in ranges:
        if found and found[-1][1] + 1 == first:
            found[-1] = (found[-1][0], last)
        else:
            found.append((first, last))
    return found


def _within(t: Tables, session: int, channel: str, ranges: Sequence[tuple[int, int]]) -> ColumnElement[bool]:
    spans = or_(*(t.entries.c.pos.between(first, last) for first, last in ranges))
    return and_(t.entries.c.session == session, t.entries.c.channel == channel, spans)


def batches(values: Sequence[V]) -> Iterator[Sequence[V]]:
    """The values in portions that one statement can hold."""
    for start in range(0, len(values), BATCH):
        yield values[start : start + BATCH]
