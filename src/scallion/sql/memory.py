"""What a process remembers of a database: never needed, only faster.

Stored pieces never change, so what is remembered of them stays true; only which of them exist depends on the generation
of their session. Nothing here is handed out to be changed: messages are rebuilt anew each time.
"""

from __future__ import annotations

import marshal
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from threading import Lock
from typing import Any, Generic, TypeVar

from scallion.sql.encoding import Blob, Leaf, Serde

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

MESSAGES = "langchain_core.messages."
"""The modules whose objects are made of plain data only, so that a print of their fields stands for them."""


class Shelf(Generic[K, V]):
    """A mapping that forgets its oldest entries when it is full."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._held: dict[K, V] = {}
        self._lock = Lock()
        self.get = self._held.get

    def put(self, entries: Iterable[tuple[K, V]]) -> None:
        """Add entries."""
        with self._lock:
            self._held.update(entries)
            for old in list(self._held)[: self._size // 8] if len(self._held) > self._size else ():
                del self._held[old]


@dataclass(frozen=True, slots=True)
class Recipe:
    """A message as its class and the print of its fields."""

    kind: type[Any]
    print: bytes
    fields: frozenset[str]

    def make(self) -> Any:
        """A new message that shares nothing with any other."""
        values, extra = marshal.loads(self.print)
        message: Any = object.__new__(self.kind)
        put = object.__setattr__
        put(message, "__dict__", values)
        put(message, "__pydantic_fields_set__", set(self.fields))
        put(message, "__pydantic_extra__", extra)
        put(message, "__pydantic_private__", None)
        return message


class Memory:
    """What one saver and its copies remember."""

    def __init__(self) -> None:
        self.ids: Shelf[tuple[int, int], dict[bytes, int]] = Shelf(512)
        self.lists: Shelf[tuple[int, int, str, tuple[int, ...]], Sequence[int]] = Shelf(512)
        self.blobs: Shelf[int, Blob] = Shelf(50_000)
        self.prints: Shelf[tuple[type, bytes], Blob] = Shelf(50_000)
        self.recipes: Shelf[bytes, Recipe] = Shelf(50_000)


@dataclass
class Known:
    """The memory of one session in one transaction; what it learns is remembered by `keep`, after the commit."""

    memory: Memory
    session: int
    generation: int
    ids: dict[bytes, int] = field(default_factory=dict)
    lists: dict[tuple[str, tuple[int, ...]], Sequence[int]] = field(default_factory=dict)

    def missing(self, blobs: Iterable[Blob]) -> dict[bytes, Blob]:
        """Those of which no item is known, by hash."""
        before, fresh = self._before, self.ids
        return {blob.hash: blob for blob in blobs if blob.hash not in before and blob.hash not in fresh}

    def items(self, blobs: Iterable[Blob]) -> list[int]:
        """The items of blobs that were stored in this transaction or are known."""
        both = {**self._before, **self.ids} if self.ids else self._before
        return [both[blob.hash] for blob in blobs]

    def item(self, digest: bytes) -> int:
        """The item with this hash, as `items`."""
        found = self.ids.get(digest)
        return self._before[digest] if found is None else found

    def list(self, channel: str, stored: Leaf) -> Sequence[int] | None:
        """The items of a list version."""
        key = channel, tuple(stored)
        return self.lists.get(key) or self.memory.lists.get((self.session, self.generation, *key))

    @cached_property
    def _before(self) -> dict[bytes, int]:
        return self.memory.ids.get((self.session, self.generation)) or {}

    def learn_ids(self, found: Mapping[bytes, int]) -> None:
        """These items exist."""
        self.ids.update(found)

    def learn_list(self, channel: str, stored: Leaf, ids: Sequence[int]) -> None:
        """This list version has these items."""
        self.lists[channel, tuple(stored)] = ids

    def keep(self) -> None:
        """Remember: the transaction is committed."""
        here = self.session, self.generation
        if self.ids:
            before = self.memory.ids.get(here)
            if before is None:
                self.memory.ids.put([(here, self.ids)])
            else:
                before.update(self.ids)
        self.memory.lists.put(((*here, *key), ids) for key, ids in self.lists.items())


@dataclass(frozen=True, slots=True)
class Codec:
    """The serializer, which does not do again for a message what it did before."""

    serde: Serde
    memory: Memory

    def dump(self, value: Any) -> Blob:
        """The serialised value. A message that was serialised before is recognised by the print of its fields."""
        kind = type(value)
        if not kind.__module__.startswith(MESSAGES) or (printed := _print(value)) is None:
            return Blob(*self.serde.dumps_typed(value))
        if (known := self.memory.prints.get((kind, printed))) is not None:
            return known
        blob = Blob(*self.serde.dumps_typed(value))
        self.memory.prints.put([((kind, printed), blob)])
        return blob

    def load(self, blob: Blob) -> Any:
        """The value, always a new object."""
        if (known := self.memory.recipes.get(blob.hash)) is not None:
            return known.make()
        value = self.serde.loads_typed((blob.type, blob.data))
        kind = type(value)
        if kind.__module__.startswith(MESSAGES) and (printed := _print(value)) is not None:
            recipe = Recipe(kind, printed, frozenset(value.__pydantic_fields_set__))
            self.memory.recipes.put([(blob.hash, recipe)])
            self.memory.prints.put([((kind, printed), blob)])
        return value


def _print(message: Any) -> bytes | None:
    """All fields as bytes, exact to the type of each; None if one is no plain data."""
    if not hasattr(type(message), "model_fields") or message.__pydantic_private__:
        return None  # a text of a message's module is no message
    try:
        return marshal.dumps((message.__dict__, message.__pydantic_extra__), 2)
    except (ValueError, AttributeError):
        return None
