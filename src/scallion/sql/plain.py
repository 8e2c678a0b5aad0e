"""Serialised values as plain data, for who has none of their classes: an object is what it was made with.

So a message is the dict of its fields, whoever's class it is, and nothing is imported.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import ormsgpack

DELTA = 7
"""The extension that stands for what a delta channel holds; see `extensions`."""
WHOLE = "__overwrite__"
"""The key of what is a whole value, whatever was written before."""


def loads(type: str, data: bytes) -> Any:
    """The value; None for what is serialised in a way of somebody else's."""
    if type == "json":
        return _opened(json.loads(data))
    return _unpacked(data) if type == "msgpack" else None


def _unpacked(data: bytes) -> Any:
    return ormsgpack.unpackb(data, ext_hook=_extension, option=ormsgpack.OPT_NON_STR_KEYS)


def _extension(code: int, data: bytes) -> Any:
    parts = _unpacked(data)
    if code == DELTA:
        return {WHOLE: parts}
    if not isinstance(parts, list) or len(parts) < 3:
        return parts
    _, name, arguments = parts[:3]
    if name == "Overwrite" and isinstance(arguments, Mapping):
        return {WHOLE: arguments.get("value")}
    if name == "tuple" and isinstance(arguments, list):
        return tuple(arguments)
    if name == "str" and isinstance(arguments, list) and isinstance(arguments[0], bytes):  # with half a surrogate pair
        return arguments[0].decode("utf-8", "replace")
    return arguments


def _opened(value: Any) -> Any:
    """JSON data in which LangChain's objects are the dicts of their fields."""
    if isinstance(value, list):
        return [_opened(part) for part in value]
    if not isinstance(value, dict):
        return value
    if value.get("lc") and "kwargs" in value:
        return _opened(value["kwargs"])
    return {key: _opened(part) for key, part in value.items()}


class Plainly:
    """In the place of a serializer, for who reads only."""

    def dumps_typed(self, obj: Any) -> tuple[str, bytes]:
        """Refuses everything."""
        raise TypeError("what was read as plain data is not stored")

    def loads_typed(self, data: tuple[str, bytes]) -> Any:
        """As `loads`; None too for what is damaged."""
        try:
            return loads(*data)
        except (ValueError, LookupError, TypeError):
            return None
