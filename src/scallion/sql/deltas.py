"""The conversation of a graph with delta channels: LangGraph stores what each step adds, so it is put together again.

What was put together is remembered for the head of a thread; a new checkpoint adds the writes of the one before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self, TypeVar

from sqlalchemy import Connection

from scallion.sql import checkpoints, encoding, items, summary, writes
from scallion.sql.checkpoints import StoredCheckpoint, Told
from scallion.sql.encoding import Leaf, is_runs, references
from scallion.sql.memory import Codec, Known
from scallion.sql.sessions import Claimed
from scallion.sql.tables import Tables

REMOVE_ALL = "__remove_all__"
"""The id of a removal that means every message before it."""
OVERWRITE = "__overwrite__"
"""The name of what overwrites a value, where it has lost its class."""
REPLACING = ("Overwrite", "_DeltaSnapshot")
"""The classes of what is the whole value, whatever was before."""

K = TypeVar("K")


@dataclass(frozen=True, slots=True)
class Line:
    """Of a message, what a session's row may show."""

    type: str | None
    content: str


Lines = Mapping[Any, Line]
"""A conversation: its lines by the ids of the messages, in order."""


@dataclass(frozen=True, slots=True)
class Delta:
    """One delta channel of the outermost graph of a session."""

    conn: Connection
    t: Tables
    codec: Codec
    session: int
    generation: int
    channel: str

    @classmethod
    def each(cls, conn: Connection, t: Tables, codec: Codec, head: Claimed, channels: Sequence[str]) -> Iterator[Self]:
        """Those of the session that may hold the conversation."""
        return (cls(conn, t, codec, head.no, head.generation, channel) for channel in channels)

    def after(self, parent: str | None, id: str) -> Lines:
        """The conversation at the new checkpoint `id`, whose parent this is."""
        lines = self._extended(self.at(parent), parent) if parent else {}
        self.codec.memory.lines.put([((self.session, self.channel), (id, lines))])
        return lines

    def at(self, id: str) -> Lines:
        """The conversation at a stored checkpoint."""
        ancestors: list[str] = []
        lines = self._remembered(id)
        while lines is None:
            row = checkpoints.row(self.conn, self.t, self.session, "", id)
            known = self._known(row)
            if known or row is None or row.parent is None:
                lines = self._added({}, [self._value(leaf) for leaf in known])
            else:
                id = row.parent
                ancestors.append(id)
                lines = self._remembered(id)
        for ancestor in reversed(ancestors):
            lines = self._extended(lines, ancestor)
        return lines

    def _known(self, row: StoredCheckpoint | None) -> list[Leaf]:
        """The value that a checkpoint has, or what it keeps of ancestors that are gone."""
        if row is None or self.channel not in {*row.values, *row.past}:
            return []
        if self.channel in row.values:
            return [row.values[self.channel]]
        written, *seed = row.past[self.channel]
        return [*seed, *(leaf for _, leaf in written)]

    def _remembered(self, id: str) -> Lines | None:
        found = self.codec.memory.lines.get((self.session, self.channel))
        return found[1] if found is not None and found[0] == id else None

    def _extended(self, lines: Lines, id: str) -> Lines:
        """With what the tasks of this checkpoint wrote."""
        pending = writes.read(self.conn, self.t, self.session, self.generation, "", id)
        return self._added(lines, [self._value(one.leaf) for one in pending if one.channel == self.channel])

    def _added(self, lines: Lines, written: Sequence[Any]) -> Lines:
        return added(lines, written, speaks_in(self.channel), self.kept)

    def kept(self, message: Any) -> Any:
        """What is kept of a message."""
        return line(message)

    def _value(self, leaf: Leaf) -> Any:
        is_list = is_runs(leaf)
        place = self.session, self.generation, self.channel
        ids = items.listed(self.conn, self.t, *place, leaf) if is_list else [*references(leaf)]
        known = self.codec.memory.session(self.session, self.generation)
        blobs = items.fetch(self.conn, self.t, known, self.session, ids)
        return [self.codec.load(blobs[id]) for id in ids] if is_list else encoding.value(self.codec, leaf, blobs)


def teller(
    codec: Codec, parent: str | None, id: str, values: Mapping[str, Any], metadata: Mapping[str, Any]
) -> Told | None:
    """What tells the row of a new checkpoint `id` of its conversation; None if no delta channel has it."""
    channels = summary.deltas(values, metadata)

    def tell(conn: Connection, t: Tables, known: Known) -> Mapping[str, Any]:
        each = Delta.each(conn, t, codec, known.claimed, channels)
        return told(one.after(parent, id) for one in each)

    return tell if channels else None


def told(conversations: Iterable[Lines]) -> dict[str, Any]:
    """The columns of a session's row that follow from the first conversation that is one."""
    return summary.told([*next(filter(None, conversations), {}).values()])


def added(
    lines: Mapping[Any, K],
    written: Iterable[Any],
    speaks: Callable[[Any], bool],
    kept: Callable[[Any], K],
) -> dict[Any, K]:
    """The conversation after these values, by the ids of messages: messages, lists of them, removals.

    `kept`: what is kept of a message.
    """
    found = dict(lines)
    for value in written:
        replaces, whole = _whole(value)
        if replaces:
            found.clear()
        for message in whole if isinstance(whole, list) else [whole]:
            _add(found, message, speaks, kept)
    return found


def _whole(value: Any) -> tuple[bool, Any]:
    """Whether the value overwrites the ones before, and what it holds; the forms are those that LangGraph knows."""
    if isinstance(value, Mapping):
        if set(value) == {OVERWRITE}:
            return True, value[OVERWRITE]
        return (True, value["value"]) if value.get("type") == OVERWRITE and "value" in value else (False, value)
    return (True, value.value) if type(value).__name__ in REPLACING else (False, value)


def line(message: Any) -> Line:
    """What a session's row may show of a message."""
    return Line(summary.role(message), summary.shown(message))


def speaks_in(channel: str) -> Callable[[Any], bool]:
    """What is a message there: a text alone only in the channel that is called so."""
    return summary.is_speech if channel == "messages" else summary.is_message


def id_of(message: Any) -> Any:
    """The id of a message of any form; None where it has none."""
    return message.get("id") if isinstance(message, Mapping) else getattr(message, "id", None)


def _add(found: dict[Any, K], message: Any, speaks: Callable[[Any], bool], kept: Callable[[Any], K]) -> None:
    id = id_of(message)
    if summary.role(message) != "remove":
        if speaks(message):
            found[object() if id is None else id] = kept(message)
    elif id == REMOVE_ALL:
        found.clear()
    else:
        found.pop(id, None)
