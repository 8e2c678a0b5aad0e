"""Values as shared pieces: what is written again is stored once.

A value becomes a plan: a `Blob` (serialised bytes with their hash), or a list or small dict of plans. Stored blobs
become items; the plan then becomes a *leaf*, which is what rows hold:

    7                       the item 7
    ["msgpack", b"..."]     a small value, in place
    [0, a, b, c, d]         the ranges a..b and c..d of the channel's log
    [1, leaf, ...]          a list
    [2, key, leaf, ...]     a dict
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Protocol

import ormsgpack

from scallion.errors import NotSerializable
from scallion.sql.phrases import SHORTENED, lengthened, shortened

if TYPE_CHECKING:
    from scallion.sql.messages import Series

RUNS, LIST, DICT = 0, 1, 2
SMALL = 48
"""Values of at most that many bytes stay in place: an item of their own would cost more."""
SHORT = 256
"""Lists and dicts of small values are not taken apart if these have at most that many bytes together."""
WIDE = 16
"""Dicts of more keys are not taken apart: their references would be stored again with each version."""

Leaf = Any


class Serde(Protocol):
    """LangGraph's serializer."""

    def dumps_typed(self, obj: Any) -> tuple[str, bytes]: ...
    def loads_typed(self, data: tuple[str, bytes]) -> Any: ...


class Refused(TypeError):
    """The serializer does not take a value; `type` names the part of it that is to blame, if it is known."""

    def __init__(self, type: str, reason: str) -> None:
        self.type = type
        super().__init__(reason)


class Dumps(Protocol):
    """Serialises values; `Codec` does."""

    def dump(self, value: Any) -> Blob: ...
    def dump_list(self, value: Sequence[Any], before: Sequence[Series]) -> Many: ...


class Loads(Protocol):
    """Rebuilds values; `Codec` does."""

    def load(self, blob: Blob) -> Any: ...


@dataclass(frozen=True)
class Blob:
    """A serialised value."""

    type: str
    data: bytes

    @classmethod
    def of(cls, type: str, data: bytes) -> Blob:
        """What a serializer gave, as it is stored."""
        return cls(*shortened(type, data))

    @property
    def typed(self) -> tuple[str, bytes]:
        """For a serializer to rebuild."""
        return lengthened(self.type, self.data)

    @cached_property
    def hash(self) -> bytes:
        """The 16 bytes that stand for type and data."""
        return blake2b(self.data, digest_size=16, person=self.type.encode()[:16]).digest()

    @property
    def is_small(self) -> bool:
        """Whether it stays in place. A message never does, however short: it is in many versions of a list."""
        return len(self.data) <= SMALL and self.type != SHORTENED


@dataclass(frozen=True, slots=True)
class Many:
    """A list that was taken apart; a list of messages as a series, and the series whose messages it begins with."""

    parts: Sequence[Blob]
    series: Series | None = None
    after: Series | None = None


@dataclass(frozen=True, slots=True)
class Keyed:
    """A dict that was taken apart."""

    parts: Mapping[str, Plan]


Plan = Blob | Many | Keyed


def plan(codec: Dumps, channel: str, value: Any, before: Sequence[Series] = ()) -> Plan:
    """How `value` will be stored; `before` are the channel's lists that are known. Raises NotSerializable."""
    if not _is_text(channel):
        raise NotSerializable(channel, "str", "the name of a channel must not hold half of a surrogate pair")
    try:
        if type(value) is dict and 0 < len(value) <= WIDE and all(map(_is_text, value)):
            return _apart(codec, value, Keyed({key: _listed(codec, part, ()) for key, part in value.items()}))
        return _listed(codec, value, before)
    except (TypeError, ValueError, RecursionError) as error:  # the encoder's error is a TypeError
        reason = str(error) if isinstance(error, Refused) else type(error).__name__
        raise NotSerializable(channel, _blamed(codec, value, error), reason) from None


def _is_text(key: Any) -> bool:
    """Whether it can stand in a leaf as it is; lone surrogates cannot."""
    return type(key) is str and (key.isascii() or key.encode("utf-8", "replace").decode() == key)


def _blamed(codec: Dumps, value: Any, error: Exception) -> str:
    if isinstance(error, Refused):
        return error.type or type(value).__name__
    try:
        return _culprit(codec, value)
    except RecursionError:  # it contains itself
        return type(value).__name__


def _listed(codec: Dumps, value: Any, before: Sequence[Series]) -> Plan:
    if type(value) is list and value:
        return _apart(codec, value, codec.dump_list(value, before))
    return codec.dump(value)


def _apart(codec: Dumps, value: Any, taken: Many | Keyed) -> Plan:
    size = 0
    for blob in blobs(taken):
        if not blob.is_small or (size := size + len(blob.data)) > SHORT:
            return taken
    return codec.dump(value)


def _culprit(codec: Dumps, value: Any) -> str:
    """The type of the innermost part that the serializer refuses."""
    parts = value.values() if isinstance(value, Mapping) else value if isinstance(value, list | tuple | set) else ()
    for part in parts:
        try:
            codec.dump(part)
        except (TypeError, ValueError):
            return _culprit(codec, part)
    return type(value).__name__


def blobs(planned: Plan) -> Iterator[Blob]:
    """Every blob of the plan."""
    if isinstance(planned, Blob):
        yield planned
    elif isinstance(planned, Many):
        yield from planned.parts
    else:
        for part in planned.parts.values():
            yield from blobs(part)


def leaf(planned: Plan, item: Callable[[bytes], int]) -> Leaf:
    """The leaf of a plan; `item` gives the id under which a large blob is stored, by its hash."""
    if isinstance(planned, Blob):
        return [planned.type, planned.data] if planned.is_small else item(planned.hash)
    if isinstance(planned, Many):
        return [LIST, *(leaf(part, item) for part in planned.parts)]
    return [DICT, *(half for key, part in planned.parts.items() for half in (key, leaf(part, item)))]


def references(stored: Leaf) -> Iterator[int]:
    """The ids of the items that a leaf needs, those of its ranges excepted."""
    if isinstance(stored, int):
        yield stored
    elif stored[0] == LIST:
        for part in stored[1:]:
            yield from references(part)
    elif stored[0] == DICT:
        for part in stored[2::2]:
            yield from references(part)


def value(codec: Loads, stored: Leaf, items: Mapping[int, Blob]) -> Any:
    """The value that a leaf stands for, except the ranges of a log."""
    if isinstance(stored, int):
        return codec.load(items[stored])
    head = stored[0]
    if head == LIST:
        return [value(codec, part, items) for part in stored[1:]]
    if head == DICT:
        return {key: value(codec, part, items) for key, part in zip(stored[1::2], stored[2::2], strict=True)}
    return codec.load(Blob(head, stored[1]))


def runs(stored: Leaf) -> list[tuple[int, int]]:
    """The ranges of a list version, first and last position included."""
    return list(zip(stored[1::2], stored[2::2], strict=True))


def is_runs(stored: Leaf) -> bool:
    """Whether the leaf is a version of a logged list."""
    return isinstance(stored, list) and stored[0] == RUNS


def pack(data: Any) -> bytes:
    """Leaves and numbers as bytes."""
    return ormsgpack.packb(data, option=ormsgpack.OPT_NON_STR_KEYS)


def unpack(data: bytes) -> Any:
    """The reverse of `pack`."""
    return ormsgpack.unpackb(data, option=ormsgpack.OPT_NON_STR_KEYS)
