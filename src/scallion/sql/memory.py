"""What a process remembers of a database: never needed, only faster.

Stored pieces never change, so what is remembered of them stays true; which of them exist depends on the generation of
their session, and where its logs end on its version, both of which a transaction sees in the row that it locks.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import filterfalse
from math import inf
from threading import Lock
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from scallion.sql.encoding import Blob, Leaf, Many, Serde
from scallion.sql.garbage import collector_at_rest
from scallion.sql.messages import Recipe, Series, is_message, make, recipe, series, weight

if TYPE_CHECKING:
    from scallion.sql.sessions import Claimed

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

MOST = 64_000_000
"""How many bytes are remembered of all sessions together."""
BLOBS = 8_000_000
"""How many of them are blobs of one session ..."""
LARGE = 100_000
"""... of which none is larger: it takes longer to send it to the graph's model than to read it again."""
SERIES = 16_000_000
"""How many bytes of messages are known to be those of a graph, beside the last list."""
ENTRY = 160
"""What it takes to remember anything at all."""
GROWN = 32_000
"""A session that has grown by so much has all of them measured."""

_changing = Lock()
"""Held while a shelf changes; never for long."""


def _forked() -> None:
    global _changing
    _changing = Lock()  # a thread that the child does not have may hold the old one


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)


class Shelf(Generic[K, V]):
    """A mapping that forgets its oldest entries when there are too many or they weigh too much, the last one never."""

    def __init__(self, size: int, most: float = inf, weigh: Callable[[V], int] = lambda value: 0) -> None:
        self._size = size
        self._most = most
        self._weigh = weigh
        self._held: dict[K, V] = {}
        self.weight = 0
        self.get = self._held.get

    def __len__(self) -> int:
        return len(self._held)

    def put(self, entries: Iterable[tuple[K, V]]) -> None:
        """Add entries, which are the newest then."""
        held = self._held
        with _changing:
            for key, value in entries:
                if key in held:
                    self._forget(key)
                held[key] = value
                self.weight += self._weigh(value)
            if len(held) > self._size or self.weight > self._most:
                self._shrink()

    def _forget(self, key: K) -> None:
        self.weight -= self._weigh(self._held.pop(key))

    def _shrink(self) -> None:
        size, most = self._size - self._size // 8, self._most * 7 / 8
        for old in list(self._held)[:-1]:
            if len(self._held) <= size and self.weight <= most:
                break
            self._forget(old)

    def drop_oldest(self) -> V | None:
        """Forget the oldest entry and give it."""
        with _changing:
            return self._held.pop(next(iter(self._held)), None) if self._held else None

    def values(self) -> list[V]:
        """What it holds, the oldest first."""
        with _changing:
            return list(self._held.values())


@dataclass(frozen=True, slots=True)
class Parent:
    """What a checkpoint needs to know of the one before."""

    versions: Mapping[str, Any]
    values: Mapping[str, Leaf]


@dataclass(frozen=True, slots=True)
class Present:
    """What holds as long as the session has this version: the checkpoint written last, and where the logs end."""

    version: int
    key: tuple[str, str] | None = None
    parent: Parent | None = None
    ends: Mapping[str, int] = field(default_factory=dict)


class Remembered:
    """What is remembered of one session in one generation."""

    def __init__(self, generation: int) -> None:
        self.generation = generation
        self.present = Present(-1)
        self.ids: dict[bytes, int] = {}
        self.lists: Shelf[tuple[str, tuple[int, ...]], Sequence[int]] = Shelf(16, weigh=lambda ids: 8 * len(ids))
        self.blobs: Shelf[int, Blob] = Shelf(4096, BLOBS, lambda blob: ENTRY + len(blob.data))
        self.recipes: dict[int, Recipe] = {}
        self._recipes_weight = 0
        self.measured = 0

    @property
    def weight(self) -> int:
        """About how many bytes of memory that is."""
        return ENTRY * len(self.ids) + self.lists.weight + self.blobs.weight + self._recipes_weight

    def learn_blobs(self, found: Mapping[int, Blob]) -> None:
        """These are in these items."""
        self.blobs.put((id, blob) for id, blob in found.items() if len(blob.data) <= LARGE)

    def learn_recipes(self, found: Mapping[int, Recipe]) -> None:
        """These messages are in these items. A recipe has the message beside its blob."""
        with _changing:
            self.recipes.update(found)
            self._recipes_weight += sum(4 * ENTRY + 2 * len(one.blob.data) for one in found.values())


class Memory:
    """What one saver and its copies remember."""

    def __init__(self) -> None:
        self._sessions: Shelf[int, Remembered] = Shelf(512)
        self.rows: Shelf[str, Claimed | None] = Shelf(512)
        """What the rows of sessions held when this process wrote to them last, by thread."""
        self.written: Shelf[tuple[str, str, str], Series] = Shelf(64, SERIES, lambda one: one.weight)
        self.read: Shelf[tuple[str, str, str], Series] = Shelf(64, SERIES, lambda one: one.weight)
        self.lines: Shelf[tuple[int, str], tuple[str, Mapping[Any, Any]]] = Shelf(64, SERIES, _weight_of_lines)
        """By session and delta channel: a checkpoint, and the conversation there."""

    def series(self, thread: str, ns: str, channel: str) -> list[Series]:
        """The lists of a channel that a graph may go on from: who looks at a thread must not disturb who runs it."""
        key = thread, ns, channel
        return [one for one in (self.written.get(key), self.read.get(key)) if one is not None]

    def session(self, no: int, generation: int) -> Remembered:
        """What is remembered of the session; nothing yet, if that was of another generation."""
        found = self._sessions.get(no)
        if found is None or found.generation != generation:
            found = Remembered(generation)
            self._measure(no, found)
        else:
            self.grew(no, found)
        return found

    def grew(self, no: int, one: Remembered) -> None:
        """What is remembered of the session may be much more than before."""
        if one.weight - one.measured > GROWN:
            self._measure(no, one)

    def _measure(self, no: int, newest: Remembered) -> None:
        self._sessions.put([(no, newest)])
        total = 0
        for one in self._sessions.values():
            one.measured = one.weight
            total += one.measured
        while total > MOST and (gone := self._sessions.drop_oldest()) is not None:
            total -= gone.measured


def _weight_of_lines(of: tuple[str, Mapping[Any, Any]]) -> int:
    return sum(ENTRY + len(line.content) for line in of[1].values())


class Known:
    """The memory of a session that a transaction claimed; what it learns is remembered by `keep`, after the commit."""

    def __init__(self, memory: Memory, claimed: Claimed, thread: str, ns: str = "") -> None:
        self.session = claimed.no
        self.claimed = claimed
        self.item_count = claimed.item_count
        self._thread = thread
        self._ns = ns
        self._memory = memory
        self._remembered = memory.session(claimed.no, claimed.generation)
        present = self._remembered.present
        self._present = present if present.version == claimed.version else Present(claimed.version)
        self._ids: dict[bytes, int] = {}
        self._blobs: dict[int, Blob] = {}
        self._lists: dict[tuple[str, tuple[int, ...]], Sequence[int]] = {}
        self._series: dict[tuple[str, str, str], Series] = {}
        self._ends: dict[str, int] = dict(self._present.ends)
        self._written: tuple[tuple[str, str], Parent] | None = None
        self._row: Claimed | None = claimed

    def missing(self, blobs: Iterable[Blob]) -> dict[bytes, Blob]:
        """Those of which no item is known, by hash."""
        before, fresh = self._remembered.ids, self._ids
        return {blob.hash: blob for blob in blobs if blob.hash not in before and blob.hash not in fresh}

    def items(self, blobs: Iterable[Blob]) -> list[int]:
        """The items of blobs that were stored in this transaction or are known."""
        return [self.item(blob.hash) for blob in blobs]

    def item(self, digest: bytes) -> int:
        """The item with this hash, as `items`."""
        found = self._ids.get(digest)
        return self._remembered.ids[digest] if found is None else found

    def list(self, channel: str, stored: Leaf) -> Sequence[int] | None:
        """The items of a list version."""
        key = channel, tuple(stored)
        return self._lists.get(key) or self._remembered.lists.get(key)

    def parent(self, id: str) -> Parent | None:
        """The checkpoint of that id, if nobody wrote one after it."""
        return self._present.parent if self._present.key == (self._ns, id) else None

    def end(self, channel: str) -> int | None:
        """The first free position in the log of the channel."""
        return self._ends.get(channel)

    def learn_end(self, channel: str, end: int) -> None:
        """The log of the channel ends here."""
        self._ends[channel] = end

    def learn_ids(self, found: Mapping[bytes, int]) -> None:
        """These items exist."""
        self._ids.update(found)

    def learn_blobs(self, found: Mapping[int, Blob]) -> None:
        """These are in these items."""
        self._blobs.update(found)

    def learn_list(self, channel: str, stored: Leaf, ids: Sequence[int]) -> None:
        """This list version has these items."""
        self._lists[channel, tuple(stored)] = ids

    def learn_series(self, channel: str, stored: Leaf, planned: Many, ids: Sequence[int]) -> None:
        """The graph has these messages, and they lie here."""
        if planned.series is not None:
            at = (self.session, self.claimed.generation, stored)
            self._series[self._thread, self._ns, channel] = replace(planned.series, ids=ids, at=at)

    def wrote(self, id: str, versions: Mapping[str, Any], values: Mapping[str, Leaf]) -> None:
        """This transaction wrote this checkpoint, and the session's version counts it."""
        self._written = (self._ns, id), Parent(versions, values)

    def changed(self, values: Mapping[str, Any]) -> None:
        """This transaction changed columns of the session's row."""
        if self._row is not None:
            self._row = self._row._replace(**{name: values[name] for name in self._row._fields if name in values})

    def lose_row(self) -> None:
        """Others change the session's row in this transaction."""
        self._row = None

    def keep(self) -> None:
        """Remember: the transaction is committed."""
        self._memory.rows.put([(self._thread, self._row)])
        remembered = self._remembered
        if self._ids:
            remembered.ids.update(self._ids)
            remembered.learn_blobs(self._blobs)
        if self._lists:
            remembered.lists.put(self._lists.items())
        if self._series:
            self._memory.written.put(self._series.items())
        if self._written is not None:
            key, parent = self._written
            remembered.present = Present(self.claimed.version + 1, key, parent, self._ends)


@dataclass(frozen=True, slots=True)
class Codec:
    """The serializer, which does not do again for a message what it did before."""

    serde: Serde
    memory: Memory

    def dump(self, value: Any) -> Blob:
        """The serialised value."""
        return Blob.of(*self.serde.dumps_typed(value))

    def dump_list(self, value: Sequence[Any], before: Sequence[Series]) -> Many:
        """The list taken apart; what it begins with, or holds, of the messages `before` is not serialised again."""
        for one in before:
            if one.begins(value):
                blobs = [*one.blobs, *map(self.dump, value[len(one.messages) :])]
                return Many(blobs, series(value, blobs, one), one)
        old = {
            id(message): blob
            for one in before
            if one.holds()
            for message, blob in zip(one.messages, one.blobs, strict=True)
        }
        blobs = [old.get(id(part)) or self.dump(part) for part in value]
        return Many(blobs, series(value, blobs) if is_message(value[0]) else None)

    def load(self, blob: Blob) -> Any:
        """The value, always a new object."""
        return self.serde.loads_typed(blob.typed)

    def load_list(self, key: tuple[str, str, str], listed: Listed, blobs: Mapping[int, Blob]) -> list[Any]:
        """The items of a list, always new objects; a list of messages is remembered as the series `key`."""
        recipes = listed.remembered.recipes
        with collector_at_rest():
            new = set(filterfalse(recipes.__contains__, listed.ids))
            made_now = ((id, recipe(self.load(blobs[id]), blobs[id])) for id in new)
            listed.remembered.learn_recipes({id: one for id, one in made_now if one is not None})
            self.memory.grew(listed.at[0], listed.remembered)
            known = list(filter(None, map(recipes.get, listed.ids)))
            values, seals = make(known)
        if len(known) < len(listed.ids):
            made = iter(values)
            return [next(made) if id in recipes else self.load(blobs[id]) for id in listed.ids]
        pieces = [one.blob for one in known]
        self.memory.read.put([(key, Series(list(values), (seals,), pieces, listed.ids, listed.at, weight(pieces)))])
        return values


@dataclass(frozen=True, slots=True)
class Listed:
    """The items of a stored list, where it lies, and what is remembered of its session."""

    ids: Sequence[int]
    at: tuple[int, int, Leaf]
    remembered: Remembered
