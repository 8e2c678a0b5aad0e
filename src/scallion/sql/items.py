"""Items and the logs of list channels: each piece is stored once, many are read at a time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

from sqlalchemy import ColumnElement, Connection, and_, func, insert, or_, select

from scallion.sql.encoding import RUNS, Blob, Leaf, runs
from scallion.sql.tables import Tables

V = TypeVar("V")

BATCH = 500
"""How many values one IN (...) holds: below every database's limit of parameters."""
MOST_RUNS = 64
"""A list version of more ranges is written anew as one, so that reading and referring to it stay cheap."""


def store(conn: Connection, t: Tables, session: int, blobs: Iterable[Blob]) -> dict[bytes, int]:
    """The item ids of the blobs by hash; those that the session does not have yet are stored."""
    wanted = {blob.hash: blob for blob in blobs}
    known = _known(conn, t, session, wanted)
    missing = [wanted[digest] for digest in wanted if digest not in known]
    if missing:
        known.update(_inserted(conn, t, session, missing))
    return known


def _known(conn: Connection, t: Tables, session: int, hashes: Iterable[bytes]) -> dict[bytes, int]:
    columns = select(t.items.c.hash, t.items.c.id).where(t.items.c.session == session)
    found: dict[bytes, int] = {}
    for batch in batches(list(hashes)):
        found.update((bytes(digest), id) for digest, id in conn.execute(columns.where(t.items.c.hash.in_(batch))))
    return found


def _inserted(conn: Connection, t: Tables, session: int, blobs: Sequence[Blob]) -> dict[bytes, int]:
    rows = [{"session": session, "hash": blob.hash, "type": blob.type, "data": blob.data} for blob in blobs]
    added = sum(len(blob.data) for blob in blobs)
    conn.execute(
        t.sessions.update().where(t.sessions.c.no == session).values(bytes=t.sessions.c.bytes + added),
    )
    if not conn.dialect.insert_executemany_returning:
        conn.execute(insert(t.items), rows)
        return _known(conn, t, session, [blob.hash for blob in blobs])
    stored = conn.execute(insert(t.items).returning(t.items.c.hash, t.items.c.id), rows)
    return {bytes(digest): id for digest, id in stored}


def fetch(conn: Connection, t: Tables, ids: Iterable[int]) -> dict[int, Blob]:
    """The blobs of these items."""
    found: dict[int, Blob] = {}
    for batch in batches(sorted(set(ids))):
        rows = conn.execute(select(t.items.c.id, t.items.c.type, t.items.c.data).where(t.items.c.id.in_(batch)))
        found.update((id, Blob(type, bytes(data))) for id, type, data in rows)
    return found


def logged(
    conn: Connection, t: Tables, session: int, channel: str, ranges: Sequence[tuple[int, int]]
) -> dict[int, Blob]:
    """The blobs in these ranges of a channel's log, by position."""
    query = (
        select(t.entries.c.pos, t.items.c.type, t.items.c.data)
        .join(t.items, t.items.c.id == t.entries.c.item)
        .where(_within(t, session, channel, ranges))
    )
    return {pos: Blob(type, bytes(data)) for pos, type, data in conn.execute(query)}


def version(conn: Connection, t: Tables, session: int, channel: str, ids: Sequence[int], base: Leaf | None) -> Leaf:
    """The leaf of a list of items, sharing what it can with the version `base` of the same channel."""
    places = _shared(ids, _placed(conn, t, session, channel, runs(base)) if base else {})
    ranges = _ranges(_completed(conn, t, session, channel, ids, places))
    if len(ranges) > MOST_RUNS:
        ranges = _ranges(_completed(conn, t, session, channel, ids, [None] * len(ids)))
    return [RUNS, *(end for run in ranges for end in run)]


def _placed(
    conn: Connection, t: Tables, session: int, channel: str, ranges: Sequence[tuple[int, int]]
) -> dict[int, list[int]]:
    """The positions of each item in these ranges, in the order of the list."""
    query = select(t.entries.c.pos, t.entries.c.item).where(_within(t, session, channel, ranges))
    by_pos = {row.pos: row.item for row in conn.execute(query)}
    places: dict[int, list[int]] = {}
    for first, last in ranges:
        for pos in range(first, last + 1):
            places.setdefault(by_pos[pos], []).append(pos)
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
        previous = previous + 1 if len(options) > 1 and previous + 1 in options else options[0]
        chosen.append(previous)
    return chosen


def _completed(
    conn: Connection, t: Tables, session: int, channel: str, ids: Sequence[int], places: Sequence[int | None]
) -> list[int]:
    """The positions, those that were None appended to the log."""
    missing = [id for id, place in zip(ids, places, strict=True) if place is None]
    if not missing:
        return [place for place in places if place is not None]
    log = and_(t.entries.c.session == session, t.entries.c.channel == channel)
    last = conn.execute(select(func.max(t.entries.c.pos)).where(log)).scalar()
    start = 0 if last is None else last + 1
    rows = [{"session": session, "channel": channel, "pos": start + n, "item": id} for n, id in enumerate(missing)]
    conn.execute(insert(t.entries), rows)
    fresh = iter(range(start, start + len(missing)))
    return [next(fresh) if place is None else place for place in places]


def _ranges(positions: Sequence[int]) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    for pos in positions:
        if found and found[-1][1] + 1 == pos:
            found[-1] = (found[-1][0], pos)
        else:
            found.append((pos, pos))
    return found


def _within(t: Tables, session: int, channel: str, ranges: Sequence[tuple[int, int]]) -> ColumnElement[bool]:
    spans = or_(*(t.entries.c.pos.between(first, last) for first, last in ranges))
    return and_(t.entries.c.session == session, t.entries.c.channel == channel, spans)


def batches(values: Sequence[V]) -> Iterator[Sequence[V]]:
    """The values in portions that one statement can hold."""
    for start in range(0, len(values), BATCH):
        yield values[start : start + BATCH]
