"""Items and the logs of list channels: each piece is stored once, many are read at a time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from sqlalchemy import ColumnElement, Connection, and_, delete, func, or_, select

from scallion.sql import names
from scallion.sql.cipher import ITEM, Cipher
from scallion.sql.encoding import RUNS, Blob, Leaf, Many, runs
from scallion.sql.failures import Vanished
from scallion.sql.memory import Known, Remembered
from scallion.sql.messages import Series
from scallion.sql.prepared import prepared
from scallion.sql.tables import Tables

V = TypeVar("V")

BATCH = 500
"""How many values one IN (...) holds: below every database's limit of parameters."""
STREAMED = 20
"""How many rows are in memory at a time where all of a session are read."""
MOST_RUNS = 64
"""A list version of more ranges is written anew as one, so that reading and referring to it stay cheap."""


def store(conn: Connection, t: Tables, known: Known, blobs: Iterable[Blob]) -> int:
    """Have `known` know the items of these blobs; those that the session lacks are stored. Gives the bytes added."""
    wanted = known.missing(blobs)
    if wanted and len(t.cipher.ids) > 1:  # an equal item may lie there under the digest of another key
        known.learn_ids(_found(conn, t, known.session, list(wanted)))
        wanted = known.missing(wanted.values())
    if not wanted:
        return 0
    for blob in wanted.values():
        names.check("type of a value", blob.type)
    ids = {digest: known.item_count + n for n, digest in enumerate(wanted)}
    known.item_count += len(ids)
    added = prepared(conn, t).add_items.run_many(conn, _rows(t.cipher, known.session, ids, wanted))
    if added != len(ids):  # some were there, or the driver does not count
        ids = _found(conn, t, known.session, list(wanted))
    known.learn_ids(ids)
    known.learn_blobs({id: wanted[digest] for digest, id in ids.items()})
    return sum(len(wanted[digest].data) for digest, id in ids.items() if id >= known.claimed.item_count)


def _rows(cipher: Cipher, session: int, ids: Mapping[bytes, int], blobs: Mapping[bytes, Blob]) -> list[dict[str, Any]]:
    return [
        {
            "session": session,
            "id": id,
            "hash": cipher.digests(digest, session)[0],
            "type": blobs[digest].type,
            "data": cipher.seal(blobs[digest].data, ITEM, session, id),
        }
        for digest, id in ids.items()
    ]


def _found(conn: Connection, t: Tables, session: int, hashes: Sequence[bytes]) -> dict[bytes, int]:
    found: dict[bytes, int] = {}
    hash_of = {digest: hash for hash in hashes for digest in t.cipher.digests(hash, session)}
    for batch in batches(list(hash_of)):
        rows = conn.execute(prepared(conn, t).hashes, {"of": session, "hashes": batch})
        found.update((hash_of[bytes(digest)], id) for digest, id in rows)
    return found


def fetch(conn: Connection, t: Tables, remembered: Remembered, session: int, ids: Iterable[int]) -> dict[int, Blob]:
    """The blobs of these items. Raises Vanished where one is gone.

    They are not remembered here: a transaction that writes may see what is never committed.
    """
    wanted = set(ids)
    found = {id: blob for id in wanted if (blob := remembered.blobs.get(id)) is not None}
    for batch in batches(sorted(wanted - found.keys())):
        rows = conn.execute(prepared(conn, t).items, {"of": session, "ids": batch})
        found.update((id, Blob(type, t.cipher.open(bytes(data), ITEM, session, id))) for id, type, data in rows)
    if len(found) < len(wanted):
        raise Vanished
    return found


def every(conn: Connection, t: Tables, session: int) -> Iterator[tuple[int, Blob]]:
    """All items of a session, few of them at a time."""
    i = t.items.c
    query = select(i.id, i.type, i.data).where(i.session == session).execution_options(yield_per=STREAMED)
    for id, type, data in conn.execute(query):
        yield id, Blob(type, t.cipher.open(bytes(data), ITEM, session, id))


def logs(conn: Connection, t: Tables, session: int) -> Iterator[tuple[str, int, list[int]]]:
    """The logs of a session in stretches: channel, first position, items."""
    e = t.entries.c
    query = select(e.channel, e.pos, e.item).where(e.session == session).order_by(e.channel, e.pos)
    stretch: tuple[str, int, list[int]] | None = None
    for channel, pos, item in conn.execute(query.execution_options(yield_per=BATCH)):
        if stretch and len(stretch[2]) < BATCH and (channel, pos) == (stretch[0], stretch[1] + len(stretch[2])):
            stretch[2].append(item)
            continue
        if stretch:
            yield stretch
        stretch = channel, pos, [item]
    if stretch:
        yield stretch


def log(conn: Connection, t: Tables, session: int, channel: str, start: int, ids: Sequence[int]) -> None:
    """Have the channel's log hold these items from that position on."""
    names.check("name of a channel", channel)
    rows = [{"session": session, "channel": channel, "pos": start + n, "item": id} for n, id in enumerate(ids)]
    prepared(conn, t).add_entries.run_many(conn, rows)


def listed(conn: Connection, t: Tables, session: int, generation: int, channel: str, version: Leaf) -> Sequence[int]:
    """The items of a list version, in order. Raises Vanished in another generation, whose log is another."""
    e, s = t.entries.c, t.sessions.c
    query = select(e.pos, e.item).join(t.sessions, s.no == e.session).where(s.generation == generation)
    by_pos = {row[0]: row[1] for row in conn.execute(query.where(_within(t, session, channel, runs(version))))}
    try:
        return [by_pos[pos] for pos in _positions(version)]
    except KeyError:
        raise Vanished from None


def whole_log(conn: Connection, t: Tables, session: int, generation: int, channel: str) -> Mapping[int, int]:
    """The items of a channel's log by position. In another generation it is empty, as its log is another."""
    e, s = t.entries.c, t.sessions.c
    query = select(e.pos, e.item).join(t.sessions, s.no == e.session).where(s.generation == generation)
    rows = conn.execute(query.where(e.session == session, e.channel == channel))
    return {row[0]: row[1] for row in rows}


def version(conn: Connection, t: Tables, known: Known, channel: str, planned: Many, base: Leaf | None) -> Leaf:
    """The leaf of a list whose parts are stored, sharing what it can with the version `base` of the same channel."""
    if planned.after is not None and lies_at(planned.after, known, base):
        before = planned.after.ids
        ids = [*before, *known.items(planned.parts[len(before) :])]
    else:
        before = _known_list(conn, t, known, channel, base) if base else []
        ids = known.items(planned.parts)
    ranges = _ranges(conn, t, known, channel, ids, before, base)
    if len(ranges) > MOST_RUNS:
        ranges = _appended(conn, t, known, channel, ids)
    leaf = [RUNS, *(end for run in ranges for end in run)]
    known.learn_list(channel, leaf, ids)
    known.learn_series(channel, leaf, planned, ids)
    return leaf


def lies_at(series: Series, known: Known, base: Leaf | None) -> bool:
    """Whether this is the series of the version `base`."""
    return series.at == (known.session, known.claimed.generation, base)


def _known_list(conn: Connection, t: Tables, known: Known, channel: str, version: Leaf) -> Sequence[int]:
    found = known.list(channel, version)
    return found or listed(conn, t, known.session, known.claimed.generation, channel, version)


def _ranges(
    conn: Connection,
    t: Tables,
    known: Known,
    channel: str,
    ids: Sequence[int],
    before: Sequence[int],
    base: Leaf | None,
) -> list[tuple[int, int]]:
    """Where the items lie: at the places of `before` that still hold, the others appended."""
    if ids[: len(before)] == before:  # only appended, as nearly always
        return _joined([*(runs(base) if base else ()), *_appended(conn, t, known, channel, ids[len(before) :])])
    places = _shared(ids, _places(before, _positions(base) if base else ()))
    missing = [id for id, place in zip(ids, places, strict=True) if place is None]
    added = _appended(conn, t, known, channel, missing)
    fresh = iter([pos for first, last in added for pos in range(first, last + 1)])
    return _joined((pos, pos) for pos in (next(fresh) if place is None else place for place in places))


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


def _appended(conn: Connection, t: Tables, known: Known, channel: str, ids: Sequence[int]) -> list[tuple[int, int]]:
    """The range of the channel's log where these items are now."""
    if not ids:
        return []
    start = known.end(channel)
    if start is None:
        mine = and_(t.entries.c.session == known.session, t.entries.c.channel == channel)
        last = conn.execute(select(func.max(t.entries.c.pos)).where(mine)).scalar()
        start = 0 if last is None else last + 1
    log(conn, t, known.session, channel, start, ids)
    known.learn_end(channel, start + len(ids))
    return [(start, start + len(ids) - 1)]


def cut(conn: Connection, t: Tables, session: int, channel: str, positions: Iterable[int]) -> None:
    """Delete what the channel's log holds at these positions, which are in order."""
    ranges = _joined((pos, pos) for pos in positions)
    for start in range(0, len(ranges), MOST_RUNS):
        conn.execute(delete(t.entries).where(_within(t, session, channel, ranges[start : start + MOST_RUNS])))


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
