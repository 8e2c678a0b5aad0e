"""The trail of a thread: every step that is stored of it, where each comes from, and what came between two of them.

A step is read without its messages, and of the messages that are asked for each is read once: so the history of a
thread costs what its rows and messages cost, and not the square of that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from typing import Any

from sqlalchemy import Connection, select

from scallion.sql import checkpoints, encoding, items, ledger, summary
from scallion.sql.checkpoints import StoredCheckpoint
from scallion.sql.deltas import id_of
from scallion.sql.encoding import DICT, Leaf, is_runs, references, runs
from scallion.sql.failures import Vanished
from scallion.sql.memory import Codec
from scallion.sql.tables import Tables
from scallion.values import Approval

MESSAGES, ACCOUNT, MARKER, INPUT, TASKS = "messages", "loop", "turn", "__start__", "__pregel_tasks"
"""The channels of an agent's graph that tell of its turns."""
COPY = "rewound_to"
"""The metadata of a copy that a rewind made: the checkpoint that it is one of."""
Span = tuple[str | None, str]
"""Two checkpoints: what came after the first, or from the beginning, up to the second."""


@dataclass(frozen=True, slots=True)
class Mark:
    """One step, as far as a history needs it."""

    id: str
    parent: str | None
    step: int
    source: str
    at: datetime
    user: str | None = None
    turn: str | None = None
    """The turn that was counted last."""
    count: Any = None
    """The version of that account: it is another one once a turn has been counted in it."""
    begins: bool = False
    """Whether a turn begins with it."""
    ended: bool = False
    """Whether no turn is under way after it."""
    copy_of: str | None = None


@dataclass(frozen=True, slots=True)
class Trail:
    """The steps of a thread, the oldest first, and which of them asked a person something."""

    thread: str
    head: str | None
    status: str
    marks: Sequence[Mark]
    asked: Sequence[tuple[str, Approval]] = ()
    spans: Sequence[Sequence[Any]] = ()
    """The messages that were asked for."""


Choose = Callable[[Trail], Sequence[Span]]
"""Says of which spans the messages are wanted."""


def read(
    conn: Connection, t: Tables, codec: Codec, thread: str, owner: str | None, now: Any, choose: Choose
) -> Trail | None:
    """The trail of the thread; None if there is none, or it is another owner's. Raises Vanished where it changes."""
    s = t.sessions.c
    query = select(s.no, s.generation, s.head, s.status).where(s.thread == thread)
    if owner is not None:
        query = query.where(s.owner == owner)
    row = conn.execute(query).one_or_none()
    if row is None:
        return None
    reading = _Reading(conn, t, codec, row.no, row.generation)
    trail = Trail(thread, row.head, row.status, reading.marks(), reading.asked(now))
    spans = reading.between(choose(trail))
    return Trail(thread, row.head, row.status, trail.marks, trail.asked, spans)


class _Reading:
    """One thread while it is read."""

    def __init__(self, conn: Connection, t: Tables, codec: Codec, session: int, generation: int) -> None:
        self._conn = conn
        self._t = t
        self._codec = codec
        self._session = session
        self._generation = generation
        rows = [row for _, row in checkpoints.every(conn, t, session, ns="")]
        if any(row.generation != generation for row in rows):
            raise Vanished
        self._rows = {row.id: row for row in sorted(rows, key=lambda row: row.id)}

    def marks(self) -> list[Mark]:
        parts = [_part(row.values.get(name), key) for row in self._rows.values() for name, key in PARTS]
        blobs = self._blobs(id for part in parts if part is not None for id in references(part))
        return [self._mark(row, blobs) for row in self._rows.values()]

    def _mark(self, row: StoredCheckpoint, blobs: Mapping[int, Any]) -> Mark:
        turn, is_open = (self._told(row.values.get(name), key, blobs) for name, key in PARTS)
        known = row.metadata
        return Mark(
            id=row.id,
            parent=row.parent,
            step=known.get("step", 0),
            source=known.get("source", ""),
            at=_moment(row.fixed.get("ts")),
            user=known.get("user"),
            turn=turn,
            count=row.versions.get(ACCOUNT),
            begins=INPUT in row.values and not is_open,
            ended=not is_open and not self._has_work(row),
            copy_of=known.get(COPY),
        )

    def _has_work(self, row: StoredCheckpoint) -> bool:
        sent = row.values.get(TASKS)
        is_sent = isinstance(sent, int) or is_runs(sent) or bool(sent and encoding.value(self._codec, sent, {}))
        return summary.has_work({**dict.fromkeys(row.values), TASKS: is_sent})

    def _told(self, leaf: Leaf, key: str, blobs: Mapping[int, Any]) -> Any:
        part = _part(leaf, key)
        if part is None:
            return None
        found = encoding.value(self._codec, part, blobs)
        return found if part is not leaf else found.get(key) if isinstance(found, Mapping) else None

    def asked(self, now: Any) -> list[tuple[str, Approval]]:
        query = ledger.rows(self._t, now).where(self._t.approvals.c.session == self._session)
        rows = self._conn.execute(query.order_by(self._t.approvals.c.no)).all()
        return [(row.root, one) for row, one in zip(rows, ledger.read(self._conn, self._t, rows), strict=True)]

    def between(self, spans: Sequence[Span]) -> list[list[Any]]:
        """The messages that each span added; those that it only changed are not among them."""
        pairs = [self._difference(*span) for span in spans]
        blobs = self._blobs(id for pair in pairs for side in pair for id in side if isinstance(id, int))
        made = {id: self._codec.load(blob) for id, blob in blobs.items()}
        found: list[list[Any]] = []
        for gone, new in pairs:
            known = {id_of(made.get(one, one) if isinstance(one, int) else one) for one in gone}
            listed = [made[one] if isinstance(one, int) else one for one in new]
            found.append([one for one in listed if id_of(one) is None or id_of(one) not in known])
        return found

    def _difference(self, first: str | None, last: str) -> tuple[Sequence[Any], Sequence[Any]]:
        """What the one list has and the other not: items by number, or messages where a list is not in the log."""
        before, after = self._leaf(first), self._leaf(last)
        if not (before is None or is_runs(before)) or not (after is None or is_runs(after)):
            return self._pieces(before), self._pieces(after)
        old, new = _without_common(runs(before) if before else [], runs(after) if after else [])
        gone, added = self._items(old), self._items(new)
        kept = set(added)
        there = set(gone)
        return [one for one in gone if one not in kept], [one for one in added if one not in there]

    def _leaf(self, id: str | None) -> Leaf:
        if id is None:
            return None
        if id not in self._rows:
            raise Vanished
        return self._rows[id].values.get(MESSAGES)

    def _pieces(self, leaf: Leaf) -> Sequence[Any]:
        if leaf is None:
            return []
        if is_runs(leaf):
            return self._items(runs(leaf))
        found = encoding.value(self._codec, leaf, self._blobs(references(leaf)))
        return found if isinstance(found, list) else []

    def _items(self, ranges: Sequence[tuple[int, int]]) -> list[int]:
        try:
            return [self._log[pos] for first, last in ranges for pos in range(first, last + 1)]
        except KeyError:
            raise Vanished from None

    @cached_property
    def _log(self) -> Mapping[int, int]:
        return items.whole_log(self._conn, self._t, self._session, self._generation, MESSAGES)

    def _blobs(self, ids: Iterable[int]) -> Mapping[int, Any]:
        known = self._codec.memory.session(self._session, self._generation)
        return items.fetch(self._conn, self._t, known, self._session, ids)


PARTS = ((ACCOUNT, "turn"), (MARKER, "open"))
"""Of which channels a mark needs what."""


def _part(leaf: Leaf, key: str) -> Leaf:
    """The leaf of what a dict has under the key; the whole leaf where the dict was not taken apart."""
    if not isinstance(leaf, list) or leaf[0] != DICT:
        return leaf
    return dict(zip(leaf[1::2], leaf[2::2], strict=True)).get(key)


def _without_common(
    before: list[tuple[int, int]], after: list[tuple[int, int]]
) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """The ranges without the positions that both begin with, which are nearly always all of the first list."""
    place = 0
    while place < min(len(before), len(after)) and before[place] == after[place]:
        place += 1
    old, new = before[place:], after[place:]
    if old and new and old[0][0] == new[0][0]:
        end = min(old[0][1], new[0][1])
        old, new = ([*_from(part[0], end + 1), *part[1:]] for part in (old, new))
    return old, new


def _from(span: tuple[int, int], first: int) -> list[tuple[int, int]]:
    return [(first, span[1])] if first <= span[1] else []


def _moment(ts: Any) -> datetime:
    try:
        return datetime.fromisoformat(ts).astimezone(UTC)
    except (TypeError, ValueError):
        return datetime.fromtimestamp(0, UTC)
