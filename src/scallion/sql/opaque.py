"""Serialised values of LangGraph's savers, taken apart without rebuilding a single object.

What msgpack or JSON itself knows is opened; what stands for an object of a class stays the bytes that it is. So a value
is divided into the same pieces as by our own serializer, its classes are not imported, and no allow-list is asked.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import ormsgpack

from scallion.errors import StorageError
from scallion.sql import encoding
from scallion.sql.encoding import Blob, Many, Plan
from scallion.sql.messages import Series


class _Object:
    """An object of some class, in bytes."""

    __slots__ = ("data", "tag")

    def __init__(self, tag: int, data: bytes) -> None:
        self.tag = tag
        self.data = data


def _unpacked(data: bytes) -> Any:
    return ormsgpack.unpackb(data, ext_hook=_Object, option=ormsgpack.OPT_NON_STR_KEYS)


def _packed(value: Any) -> bytes:
    return ormsgpack.packb(value, default=_extension, option=ormsgpack.OPT_NON_STR_KEYS)


def _extension(value: _Object) -> ormsgpack.Ext:
    return ormsgpack.Ext(value.tag, value.data)


def _written(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass")


@dataclass(frozen=True, slots=True)
class Opaque:
    """One way of serialising, as far as it needs no classes."""

    type: str
    open: Callable[[bytes], Any]
    close: Callable[[Any], bytes]

    def dump(self, value: Any) -> Blob:
        """The piece as LangGraph's serializer has it."""
        if value is None:
            return Blob("null", b"")
        return Blob("bytes", value) if type(value) is bytes else Blob.of(self.type, self.close(value))

    def dump_list(self, value: Sequence[Any], before: Sequence[Series]) -> Many:
        """The list in pieces."""
        return Many([self.dump(part) for part in value])


MSGPACK = Opaque("msgpack", _unpacked, _packed)
JSON = Opaque("json", json.loads, _written)
KINDS = {"msgpack": MSGPACK, "json": JSON}
WHOLE = ("null", "bytes", "bytearray")
"""What is not divided."""


@dataclass(frozen=True, slots=True)
class Value:
    """A value that was opened by one of the kinds; a `Blob` is one that is not divided."""

    kind: Opaque
    content: Any

    def plan(self, channel: str) -> Plan:
        """How it will be stored."""
        return self.content if isinstance(self.content, Blob) else encoding.plan(self.kind, channel, self.content)

    def typed(self) -> tuple[str, bytes]:
        """For a serializer to rebuild."""
        blob = self.content if isinstance(self.content, Blob) else self.kind.dump(self.content)
        return blob.typed


def plain(content: Any) -> Value:
    """A value that was not serialised."""
    return Value(MSGPACK, content)


def joined(values: Sequence[Value]) -> Value:
    """Values of one kind as a list."""
    return Value(values[0].kind, [one.content for one in values])


def value(what: str, type: str | None, data: bytes | str | None) -> Value:
    """The value that was serialised like this. Raises StorageError for what was pickled or encrypted, naming `what`."""
    held = data.encode() if isinstance(data, str) else bytes(data or b"")  # SQLite keeps a text in any column
    if type in WHOLE or type is None:
        return Value(MSGPACK, Blob(type or "null", held))
    if type not in KINDS:
        raise StorageError(f"{what} is serialised as {type!r}, which cannot be moved: only msgpack and JSON can")
    try:
        return Value(KINDS[type], KINDS[type].open(held))
    except ValueError:
        raise StorageError(f"{what} is damaged: it is no {type}") from None
