"""Delta channels: their values are not in each checkpoint, but follow from what the ancestors' tasks wrote.

A checkpoint whose ancestors are deleted takes with it, as its past, what they have of its delta channels.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from sqlalchemy import Connection

from scallion.sql import checkpoints, writes
from scallion.sql.checkpoints import StoredCheckpoint
from scallion.sql.encoding import Leaf
from scallion.sql.summary import COUNTERS
from scallion.sql.tables import Tables
from scallion.sql.writes import StoredWrite

FIRST, MOST = 64, 512
"""How many ancestors are read at once: each time twice as many, below MySQL's limit of recursion."""


@dataclass(frozen=True, slots=True)
class History:
    """What leads to channels' values: by channel a value that is stored whole, and the writes that follow it."""

    seeds: dict[str, Leaf] = field(default_factory=dict)
    writes: dict[str, list[tuple[str, Leaf]]] = field(default_factory=dict)


def history(
    conn: Connection, t: Tables, of: StoredCheckpoint, channels: Sequence[str], *, whole: bool = True
) -> History:
    """What the ancestors of the checkpoint have of these channels, each back to its nearest value; writes in order.

    `whole`: raises StorageError where an ancestor that has more of it is gone.
    """
    found = History(writes={name: [] for name in channels})
    wanted = set(channels)
    _take_past(found, wanted, of)
    oldest = of
    for ancestor, written in _ancestors(conn, t, of) if wanted else ():
        for write in reversed(written):
            if write.channel in wanted:
                found.writes[write.channel].append((write.task, write.leaf))
        seeds = {name: ancestor.values[name] for name in wanted if name in ancestor.values}
        found.seeds.update(seeds)
        wanted -= seeds.keys()
        _take_past(found, wanted, ancestor)
        oldest = ancestor
        if not wanted:
            break
    if whole and wanted and oldest.parent is not None:
        raise checkpoints.gone(of.thread, oldest.parent)
    for those in found.writes.values():
        those.reverse()
    return found


def _take_past(found: History, wanted: set[str], stored: StoredCheckpoint) -> None:
    """What a checkpoint knows of ancestors that are gone; nothing lies before it."""
    for name in wanted & stored.past.keys():
        written, *seed = stored.past[name]
        found.writes[name] += [(task, leaf) for task, leaf in reversed(written)]
        found.seeds.update(dict.fromkeys([name], seed[0]) if seed else {})
    wanted -= stored.past.keys()


def _ancestors(
    conn: Connection, t: Tables, of: StoredCheckpoint
) -> Iterator[tuple[StoredCheckpoint, list[StoredWrite]]]:
    """The ancestors of a checkpoint, nearest first, each with its writes. Raises Vanished in another generation."""
    portion, next_id = FIRST, of.parent
    while next_id is not None:
        rows = checkpoints.ancestry(conn, t, of.session, of.ns, next_id, portion)
        ids = [row.id for row in rows] or [next_id]  # asked for also where none is left: it tells whether that is so
        written = writes.of_many(conn, t, of.session, of.generation, of.ns, ids)
        yield from ((row, written[row.id]) for row in rows)
        next_id = rows[-1].parent if len(rows) == portion else None
        portion = min(2 * portion, MOST)


def keep_past(conn: Connection, t: Tables, session: int, doomed: Iterable[tuple[str, str]]) -> None:
    """Before these checkpoints are deleted: have their children that stay take the past of their channels over."""
    gone = set(doomed)
    for child in checkpoints.children(conn, t, session, gone):
        names = [name for name in child.metadata.get(COUNTERS) or () if name not in child.values]
        if names:
            past = history(conn, t, child, names, whole=False)
            checkpoints.rewrite(conn, t, replace(child, past=_packed(past)))


def _packed(past: History) -> dict[str, list[Any]]:
    return {
        name: [[list(write) for write in written], *([past.seeds[name]] if name in past.seeds else [])]
        for name, written in past.writes.items()
        if written or name in past.seeds
    }
