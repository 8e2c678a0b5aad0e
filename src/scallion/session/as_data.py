"""Values of any class as what JSON can hold, so that a difference of any states can be sent and stored."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable, Mapping
from datetime import date, datetime, time
from enum import Enum
from json import dumps
from math import isfinite
from typing import Any

from langchain_core.messages import BaseMessage

from scallion.approvals.naming import whole
from scallion.inspect.conversation import message_data

DEEPEST = 100
"""So deep values are told; what lies deeper is told by its class, as a value that contains itself would."""


def as_data(value: Any, depth: int = DEEPEST) -> Any:
    """The value as JSON's: numbers that JSON has not and objects as texts, bytes in base64, sets as lists in order.

    Half a surrogate pair is a question mark. A mapping of which two keys have the same text is a list of pairs.
    """
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, Enum):
        return as_data(value.value, depth)
    if isinstance(value, str):
        return whole(str.__str__(value))
    if isinstance(value, int | float):
        return _number(value)
    if isinstance(value, bytes | bytearray | memoryview):
        return b64encode(bytes(value)).decode()
    if depth <= 0:
        return _class(value)
    return _of_parts(value, depth - 1)


def _number(value: int | float) -> Any:
    if isinstance(value, float):
        return float(value) if isfinite(value) else str(float(value))
    try:
        int.__repr__(value)
    except ValueError:  # of more digits than Python writes
        return hex(value)
    return int(value)


def _of_parts(value: Any, depth: int) -> Any:
    if isinstance(value, BaseMessage):
        value = message_data(value)
    try:
        if isinstance(value, Mapping):
            return _mapping([(key, value[key]) for key in value], depth)
        if isinstance(value, list | tuple):
            return _list(value, depth)
        if isinstance(value, set | frozenset):
            return sorted(_list(value, depth), key=dumps)
        return as_data(value.isoformat() if isinstance(value, datetime | date | time) else str(value), depth)
    except Exception:  # of a class of somebody else
        return _class(value)


def _class(value: Any) -> str:
    return f"({type(value).__name__})"


def _list(values: Iterable[Any], depth: int) -> list[Any]:
    return [as_data(one, depth) for one in values]


def _mapping(pairs: list[tuple[Any, Any]], depth: int) -> Any:
    told = [(as_data(key, depth), as_data(one, depth)) for key, one in pairs]
    named = {key if isinstance(key, str) else dumps(key): one for key, one in told}
    return named if len(named) == len(told) else [list(pair) for pair in told]
