"""Which of many threads are sound, with a few statements for all of them: nobody has to look closer at those."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, and_, select, tuple_

from scallion.errors import TypeBlocked
from scallion.sql import checkpoints, encoding, items
from scallion.sql.checkpoints import StoredCheckpoint
from scallion.sql.cipher import ITEM
from scallion.sql.doctor.conversation import is_read, mended
from scallion.sql.doctor.standing import Standing
from scallion.sql.encoding import Blob, Leaf, is_runs, references, runs
from scallion.sql.memory import Codec
from scallion.sql.tables import Tables

LONG = 500
"""A conversation of more messages is looked at alone, so that a page of threads takes little memory."""
MESSAGES, MARKER = "messages", "turn"
"""The channels that are looked at: the conversation, and the marker of an Agent's turn."""

Place = tuple[int, int]
"""Session and item, or session and position."""


def sound(conn: Connection, t: Tables, codec: Codec, rows: Sequence[Standing]) -> set[int]:
    """The numbers of those at rest in whose conversations nothing is wrong; others may be sound as well."""
    resting = [row.no for row in rows if row.is_resting and row.message_count <= LONG]
    heads = _heads(conn, t, resting)
    lists = _lists(conn, t, heads)
    blobs = _blobs(conn, t, [(no, id) for no, head in heads.items() for id in _needed(head, lists.get(no, ()))])
    return {no for no, head in heads.items() if _is_sound(codec, head, lists.get(no, ()), blobs)}


def _heads(conn: Connection, t: Tables, nos: Sequence[int]) -> dict[int, StoredCheckpoint]:
    """Their newest checkpoints, as far as no task has written to them and they have messages."""
    s, w = t.sessions.c, t.writes.c
    written = select(w.session).join(t.sessions, and_(s.no == w.session, s.head == w.checkpoint))
    busy = set(conn.execute(written.where(w.session.in_(nos), w.ns == "")).scalars())
    found = checkpoints.newest(conn, t, [no for no in nos if no not in busy])
    return {head.session: head for head in found if MESSAGES in head.values}


def _lists(conn: Connection, t: Tables, heads: Mapping[int, StoredCheckpoint]) -> dict[int, list[int]]:
    """The items of the conversations that lie in logs; what is not there any more is left out, and missed later."""
    wanted = {no: runs(head.values[MESSAGES]) for no, head in heads.items() if is_runs(head.values[MESSAGES])}
    e = t.entries.c
    query = select(e.session, e.pos, e.item).where(e.session.in_(list(wanted)), e.channel == MESSAGES)
    by_place = {(no, pos): item for no, pos, item in conn.execute(query)}
    return {
        no: [by_place.get((no, pos), -1) for first, last in ranges for pos in range(first, last + 1)]
        for no, ranges in wanted.items()
    }


def _needed(head: StoredCheckpoint, listed: Sequence[int]) -> Iterator[int]:
    yield from listed
    for leaf in _leaves(head):
        yield from references(leaf)


def _leaves(head: StoredCheckpoint) -> list[Leaf]:
    return [leaf for name in (MESSAGES, MARKER) if (leaf := head.values.get(name)) is not None and not is_runs(leaf)]


def _blobs(conn: Connection, t: Tables, places: Sequence[Place]) -> dict[Place, Blob]:
    i = t.items.c
    found: dict[Place, Blob] = {}
    for batch in items.batches(places):
        query = select(i.session, i.id, i.type, i.data).where(tuple_(i.session, i.id).in_(batch))
        for no, id, type, data in conn.execute(query):
            found[no, id] = Blob(type, t.cipher.open(bytes(data), ITEM, no, id))
    return found


def _is_sound(codec: Codec, head: StoredCheckpoint, listed: Sequence[int], blobs: Mapping[Place, Blob]) -> bool:
    own = _Own(head.session, blobs)
    leaf, marker = head.values[MESSAGES], head.values.get(MARKER)
    try:
        opened = encoding.value(codec, marker, own) if marker is not None else None
        messages: Any = [codec.load(own[id]) for id in listed] if is_runs(leaf) else encoding.value(codec, leaf, own)
    except (KeyError, TypeBlocked):  # changed meanwhile, or of a class that is not allowed: whoever looks closer tells
        return False
    is_open = isinstance(opened, Mapping) and bool(opened.get("open"))
    return not is_open and isinstance(messages, list) and is_read(messages) and not mended(messages).flaws


class _Own(Mapping[int, Blob]):
    """The items of one session."""

    def __init__(self, no: int, blobs: Mapping[Place, Blob]) -> None:
        self._no, self._blobs = no, blobs

    def __getitem__(self, id: int) -> Blob:
        return self._blobs[self._no, id]

    def __iter__(self) -> Iterator[int]:
        return (id for no, id in self._blobs if no == self._no)

    def __len__(self) -> int:
        return sum(1 for _ in self)
