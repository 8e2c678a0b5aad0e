"""The index of a search: brought up to date when somebody searches, so that a turn has no work with it.

A turn marks the row of its session, which it writes anyway, as `unindexed`. Who searches reads what those sessions hold
and writes their words, a batch at a time: nothing is locked while it reads, and of a session that was changed meanwhile
it writes nothing, as the version in its row tells. Such a session is read again in the end, and locked while it is. So
two who search at once, and one who is killed, harm nothing: the words of a session and its mark change in one
transaction.

A list of messages that has only grown is read from where it was read to. Of an encrypted database the names of threads
are indexed alone, which are not encrypted either.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Connection, delete, insert, select, update

from scallion.sql import checkpoints, encoding, items, keyring, spoken, summary, words
from scallion.sql.checkpoints import StoredCheckpoint
from scallion.sql.deltas import Delta
from scallion.sql.encoding import RUNS, Leaf, is_runs, references, runs
from scallion.sql.failures import Vanished
from scallion.sql.memory import Codec, Memory
from scallion.sql.plain import WHOLE, Plainly
from scallion.sql.prepared import prepared
from scallion.sql.tables import Tables

BATCH = 100
"""How many sessions are written in one transaction ..."""
MOST = 10_000
"""... unless they have more words than that."""
MESSAGES = "messages"
DAMAGED = (ValueError, LookupError, TypeError)
"""What comes of reading what is no checkpoint. A search finds such a thread by its name."""


@dataclass
class Fresh:
    """The words of a session at a version of it, and what they are of; `grown`: beside those that are there."""

    session: int
    version: int
    seen: Sequence[Any] = ()
    words: dict[str, int | None] = field(default_factory=dict)
    grown: bool = False

    def add(self, item: int | None, text: str) -> None:
        """The text was said in this item."""
        for word in words.of(text):
            self.words.setdefault(word, item)


@dataclass(frozen=True)
class Said:
    """Messages of a session, each with the item that it lies in, if any.

    `leaf`: the version of the logged list in `channel` that they are the end of, all of it unless it has `grown`.
    """

    messages: Iterable[tuple[int | None, Any]] = ()
    channel: str | None = None
    leaf: Leaf = None
    grown: bool = False


def read(conn: Connection, t: Tables, owner: str | None, after: int, *, locks: bool = False) -> list[Fresh]:
    """What is to be written of the next sessions after the number `after` that are not up to date, in order.

    `locks`: nobody else changes them in this transaction.
    """
    s = t.sessions.c
    columns = (s.no, s.thread, s.title, s.version, t.indexed.c.seen)
    query = select(*columns).outerjoin(t.indexed, t.indexed.c.session == s.no).where(s.unindexed == 1, s.no > after)
    if owner is not None:
        query = query.where(s.owner == owner)
    query = query.order_by(s.no).limit(BATCH)
    rows = conn.execute(query.with_for_update(of=t.sessions) if locks else query).all()
    is_encrypted = keyring.current(conn, t) is not None
    heads = {} if is_encrypted else _heads(conn, t, [row.no for row in rows])
    reading = _Reading(conn, t, is_encrypted)
    found: list[Fresh] = []
    for row in rows:
        found.append(reading.fresh(row, heads.get(row.no)))
        if sum(len(one.words) for one in found) > MOST:
            break
    return found


def _heads(conn: Connection, t: Tables, nos: Sequence[int]) -> dict[int, StoredCheckpoint]:
    """The newest checkpoints of these sessions; one that cannot be read is left out."""
    try:
        return {one.session: one for one in checkpoints.newest(conn, t, nos)} if nos else {}
    except DAMAGED:
        half = len(nos) // 2
        return _heads(conn, t, nos[:half]) | _heads(conn, t, nos[half:]) if half else {}


class _Conversation(Delta):
    """A delta channel of which the messages are kept as they are."""

    def kept(self, message: Any) -> Any:
        """All of it."""
        return message


class _Reading:
    """Reads sessions, without any class of what they hold."""

    def __init__(self, conn: Connection, t: Tables, is_encrypted: bool) -> None:
        self._conn = conn
        self._t = t
        self._is_encrypted = is_encrypted
        self._codec = Codec(Plainly(), Memory())

    def fresh(self, row: Any, head: StoredCheckpoint | None) -> Fresh:
        """The words of the session of that row. Those of one that changes just now are written another time."""
        found = Fresh(row.no, row.version)
        title = self._title(row)
        before = encoding.unpack(row.seen) if row.seen is not None else [None, None, None, None]
        generation = head and head.generation
        same = before[:2] == [title, generation]
        said = self._said(head, *(before[2:] if same else (None, None)))
        for item, message in said.messages:
            found.add(item, spoken.text(message))
        for name in () if said.grown else (row.thread, title or ""):
            found.add(None, name)
        found.seen = [title, generation, said.channel, said.leaf]
        found.grown = said.grown
        return found

    def _title(self, row: Any) -> str | None:
        if self._is_encrypted or row.title is None:
            return None
        return self._t.cipher.open_text(row.title, "sessions.title", row.no)

    def _said(self, head: StoredCheckpoint | None, channel: str | None, leaf: Leaf) -> Said:
        if head is None:
            return Said()
        try:
            return self._logged(head, MESSAGES, channel, leaf) or self._found(head, channel, leaf)
        except (*DAMAGED, Vanished):
            return Said()

    def _logged(self, head: StoredCheckpoint, name: str, channel: str | None, before: Leaf) -> Said | None:
        """Those of a channel that is a logged list; None if it is not."""
        leaf = head.values.get(name)
        if not is_runs(leaf):
            return None
        grown = behind(before, leaf) if channel == name and before else None
        ids = self._listed(head, name, runs(leaf) if grown is None else grown)
        blobs = items.fetch(self._conn, self._t, self._known(head), head.session, ids)
        return Said([(id, self._codec.load(blobs[id])) for id in ids], name, leaf, grown is not None)

    def _found(self, head: StoredCheckpoint, channel: str | None, before: Leaf) -> Said:
        """Those of any other channel that holds the conversation."""
        values = {name: self._value(head, name, leaf) for name, leaf in head.values.items()}
        for name in summary.deltas(values, head.metadata):
            delta = _Conversation(self._conn, self._t, self._codec, head.session, head.generation, name)
            if messages := delta.at(head.id):
                return Said((None, message) for message in messages.values())
        name = summary.channel(values) or ""
        leaf = head.values.get(name)
        item = leaf if isinstance(leaf, int) else None
        logged = self._logged(head, name, channel, before)
        return logged or Said((item, message) for message in values.get(name) or ())

    def _value(self, head: StoredCheckpoint, name: str, leaf: Leaf) -> Any:
        if is_runs(leaf):
            ids = self._listed(head, name, runs(leaf))
            blobs = items.fetch(self._conn, self._t, self._known(head), head.session, ids)
            return [self._codec.load(blobs[id]) for id in ids]
        blobs = items.fetch(self._conn, self._t, self._known(head), head.session, references(leaf))
        value = encoding.value(self._codec, leaf, blobs)
        return value[WHOLE] if isinstance(value, Mapping) and set(value) == {WHOLE} else value

    def _listed(self, head: StoredCheckpoint, name: str, ranges: Sequence[tuple[int, int]]) -> Sequence[int]:
        if not ranges:
            return []
        part = [RUNS, *(end for run in ranges for end in run)]
        return items.listed(self._conn, self._t, head.session, head.generation, name, part)

    def _known(self, head: StoredCheckpoint) -> Any:
        return self._codec.memory.session(head.session, head.generation)


def behind(before: Leaf, after: Leaf) -> list[tuple[int, int]] | None:
    """The ranges that a version of a logged list has behind another version; None if it does not begin with that."""
    *whole, (first, last) = runs(before)
    same, rest = runs(after)[: len(whole)], runs(after)[len(whole) :]
    if same != whole or not rest or rest[0][0] != first or rest[0][1] < last:
        return None
    return [*([(last + 1, rest[0][1])] if rest[0][1] > last else []), *rest[1:]]


def write(conn: Connection, t: Tables, batch: Sequence[Fresh]) -> int:
    """Write the words of these sessions; of how many: those that were changed or deleted meanwhile are left out."""
    s = t.sessions.c
    mark = update(t.sessions).where(s.unindexed == 1).values(unindexed=None)
    kept = [one for one in batch if conn.execute(mark.where(s.no == one.session, s.version == one.version)).rowcount]
    nos = [one.session for one in kept]
    conn.execute(delete(t.indexed).where(t.indexed.c.session.in_(nos)))
    conn.execute(delete(t.words).where(t.words.c.session.in_([one.session for one in kept if not one.grown])))
    if rows := list(_rows(kept)):
        prepared(conn, t).add_words.run_many(conn, rows)
    if kept:
        conn.execute(insert(t.indexed), [{"session": one.session, "seen": encoding.pack(one.seen)} for one in kept])
    return len(kept)


def _rows(batch: Sequence[Fresh]) -> Iterator[Mapping[str, Any]]:
    for one in batch:
        for word, item in sorted(one.words.items()):
            yield {"session": one.session, "word": word, "item": item}
