"""The strict serializer: what it stores comes back equal and of the same type, or is refused when it is stored.

The bytes are those of LangGraph's serializer, whose readers read them: an extension holds a module, a name and what
the type is called with. What LangGraph stores as something else (tuples as lists, models inside of messages as dicts,
lone surrogates as question marks) or not at all (big integers) is stored here as calls of the built-in types.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import fields, is_dataclass
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum
from ipaddress import IPv4Address, IPv4Interface, IPv4Network, IPv6Address, IPv6Interface, IPv6Network
from pathlib import Path
from threading import local
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

import ormsgpack
from langgraph.checkpoint.serde.event_hooks import SerdeEvent, register_serde_event_listener
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from scallion.errors import TypeBlocked
from scallion.sql.encoding import Refused

ONE, MANY, NAMED, METHOD, PYDANTIC_1, PYDANTIC_2, ARRAY, DELTA = range(8)
"""LangGraph's extensions: a type called with one value, with several, by name, by a class method; and special ones."""

OPTIONS = (
    ormsgpack.OPT_NON_STR_KEYS
    | ormsgpack.OPT_PASSTHROUGH_DATACLASS
    | ormsgpack.OPT_PASSTHROUGH_DATETIME
    | ormsgpack.OPT_PASSTHROUGH_ENUM
    | ormsgpack.OPT_PASSTHROUGH_UUID
    | ormsgpack.OPT_PASSTHROUGH_TUPLE
    | ormsgpack.OPT_PASSTHROUGH_BIG_INT
)

OURS = (("builtins", "int"), ("builtins", "tuple"), ("builtins", "str"))
"""What is allowed on top of LangGraph's own list: it cannot do harm."""

AS_TEXT = frozenset((Decimal, IPv4Address, IPv4Interface, IPv4Network, IPv6Address, IPv6Interface, IPv6Network))

_now = local()
"""What this thread met: the `blocked` type of a value that is read, the `refused` one of a value that is stored."""


class _Surrogates:
    """A text that UTF-8 does not have."""

    def __init__(self, text: str) -> None:
        self.text = text


class StrictSerializer(JsonPlusSerializer):
    """LangGraph's msgpack serializer with an allow-list; `with_allowlist` of the saver extends it.

    LangGraph hands over a value of a blocked type as a plain dict. Here it is refused when it is stored, and where one
    was stored all the same, reading it raises TypeBlocked, which names the type.
    """

    def __init__(self, allowed: Any = None) -> None:
        super().__init__(
            allowed_msgpack_modules=allowed if allowed is True else (*OURS, *(allowed or ())), pickle_fallback=False
        )
        self._proven: set[type[Any]] = set()

    def with_msgpack_allowlist(self, extra_allowlist: Iterable[tuple[str, ...] | type]) -> JsonPlusSerializer:
        """A serializer that takes these types, too."""
        wider = super().with_msgpack_allowlist(extra_allowlist)
        if wider is not self and isinstance(wider, StrictSerializer):
            wider._proven = set()  # what one list allows is nothing to the other
        return wider

    def dumps_typed(self, obj: Any) -> tuple[str, bytes]:
        """The bytes and their kind; raises Refused, which names the type that does not come back as it is."""
        if obj is None or type(obj) in (bytes, bytearray):
            return super().dumps_typed(obj)
        if isinstance(obj, BaseException):  # how LangGraph keeps the error of a task
            obj = repr(obj)
        _now.refused = None
        try:
            return "msgpack", self._packed(obj)
        except (TypeError, ValueError) as error:
            raise Refused(_now.refused or "", str(error)) from None
        finally:
            _now.refused = None

    def loads_typed(self, data: tuple[str, bytes]) -> Any:
        """The value; raises TypeBlocked."""
        if data[0] != "msgpack":
            return super().loads_typed(data)
        _now.blocked = None
        try:
            value = super().loads_typed(data)
            if _now.blocked is None:
                return value
            raise TypeBlocked(
                f"a stored value is of type {_now.blocked}, which is not on the allow-list: set "
                "LANGGRAPH_STRICT_MSGPACK=true so that LangGraph lists the types of its graphs, or pass "
                "serde=JsonPlusSerializer(allowed_msgpack_modules=[...])"
            )
        finally:
            _now.blocked = None

    def _packed(self, value: Any) -> bytes:
        try:
            return ormsgpack.packb(value, default=self._extension, option=OPTIONS)
        except TypeError as error:
            if "surrogates" not in str(error):
                raise
            return ormsgpack.packb(_marked(value), default=self._extension, option=OPTIONS)

    def _extension(self, value: Any) -> ormsgpack.Ext:
        """The value as an extension; what goes wrong here ormsgpack tells without the type, hence `refused`."""
        kind = type(value)
        try:
            made = self._made(kind, value)
            if kind not in self._proven and kind is not _Surrogates:
                self._prove(kind, value, made)
            return made
        except Exception:
            _now.refused = _now.refused or kind.__name__
            raise

    def _made(self, kind: type[Any], value: Any) -> ormsgpack.Ext:
        code, module, name, arguments, *method = _call(kind, value)
        return ormsgpack.Ext(
            code, self._packed(arguments if code in (DELTA, ARRAY) else [module, name, arguments, *method])
        )

    def _prove(self, kind: type[Any], value: Any, made: ormsgpack.Ext) -> None:
        """Raise unless the value comes back as it is. Types that always do are tried once."""
        before, _now.blocked = getattr(_now, "blocked", None), None
        try:
            back = ormsgpack.unpackb(
                ormsgpack.packb(made), ext_hook=self._unpack_ext_hook, option=ormsgpack.OPT_NON_STR_KEYS
            )
            blocked = _now.blocked
        finally:
            _now.blocked = before
        if blocked is not None or type(back) is not kind:
            raise TypeError(f"{kind.__name__} does not come back")
        if kind.__module__.startswith(KNOWN) or kind.__module__ in STANDARD:
            self._proven.add(kind)
        elif not _equal(back, value) and self._made(kind, back) != made:
            raise TypeError(f"{kind.__name__} comes back changed")


KNOWN = ("langchain_core.", "langgraph.")
STANDARD = frozenset("builtins collections datetime decimal ipaddress pathlib pathlib._local re uuid zoneinfo".split())
"""The modules whose types are made of what they are called with."""


def _call(kind: type[Any], value: Any) -> tuple[Any, ...]:
    """What makes the value anew: extension, module, name, arguments, and a method's name."""
    module, name = kind.__module__, kind.__name__
    if (how := _PLAIN.get(kind)) is not None:
        code, arguments = how(value)
        return code, module, name, arguments
    if kind is _Surrogates:
        return MANY, "builtins", "str", [value.text.encode("utf-8", "surrogatepass"), "utf-8", "surrogatepass"]
    if kind is datetime:
        return _moment(value)
    if isinstance(value, re.Pattern):
        return MANY, "re", "compile", [value.pattern, value.flags]
    if isinstance(value, Enum):
        return ONE, module, name, value.value
    if kind.__name__ == "_DeltaSnapshot" and module.startswith("langgraph."):
        return DELTA, module, name, value.value
    return _object(kind, value)


def _moment(value: datetime) -> tuple[Any, ...]:
    if (value.tzinfo is None or value.tzinfo is UTC) and not value.fold:
        return METHOD, "datetime", "datetime", value.isoformat(), "fromisoformat"
    parts = ("year", "month", "day", "hour", "minute", "second", "microsecond", "tzinfo", "fold")
    return NAMED, "datetime", "datetime", {part: getattr(value, part) for part in parts}


def _object(kind: type[Any], value: Any) -> tuple[Any, ...]:
    module, name = kind.__module__, kind.__name__
    if hasattr(value, "model_dump"):
        if module.startswith(KNOWN):  # field by field: what a field holds keeps its type
            return PYDANTIC_2, module, name, {**vars(value), **(value.__pydantic_extra__ or {})}, "model_validate_json"
        return PYDANTIC_2, module, name, value.model_dump(), "model_validate_json"
    if hasattr(value, "get_secret_value"):
        return ONE, module, name, value.get_secret_value()
    if hasattr(value, "_asdict"):
        return NAMED, module, name, value._asdict()
    if is_dataclass(value):
        return NAMED, module, name, {field.name: getattr(value, field.name) for field in fields(value)}
    if hasattr(value, "node") and hasattr(value, "arg"):
        timeout = getattr(value, "timeout", None)
        return MANY, module, name, [value.node, value.arg] + ([] if timeout is None else [timeout])
    if module == "langgraph.store.base":
        return NAMED, module, name, {slot: getattr(value, slot) for slot in value.__slots__}
    if module == "numpy" and name == "ndarray" and not value.dtype.hasobject:
        order = "F" if value.flags.f_contiguous and not value.flags.c_contiguous else "C"
        return ARRAY, module, name, [value.dtype.str, list(value.shape), order, value.tobytes(order="A")]
    if hasattr(value, "dict"):
        return PYDANTIC_1, module, name, value.dict()
    raise TypeError(f"{name} cannot be stored")


def _bounded(value: deque[Any]) -> tuple[int, Any]:
    return (ONE, list(value)) if value.maxlen is None else (MANY, [list(value), value.maxlen])


def _time(value: time) -> tuple[int, Any]:
    parts = ("hour", "minute", "second", "microsecond", "tzinfo", "fold")
    return NAMED, {part: getattr(value, part) for part in parts}


def _zone(value: timezone) -> tuple[int, Any]:
    arguments: tuple[Any, ...] = value.__getinitargs__()  # type: ignore[attr-defined]
    return MANY, list(arguments)


_PLAIN: dict[type[Any], Callable[[Any], tuple[int, Any]]] = {
    tuple: lambda value: (ONE, list(value)),
    int: lambda value: (ONE, str(value)),
    set: lambda value: (ONE, list(value)),
    frozenset: lambda value: (ONE, list(value)),
    deque: _bounded,
    UUID: lambda value: (ONE, value.hex),
    timedelta: lambda value: (MANY, [value.days, value.seconds, value.microseconds]),
    date: lambda value: (MANY, [value.year, value.month, value.day]),
    time: _time,
    timezone: _zone,
    ZoneInfo: lambda value: (ONE, value.key),
    **dict.fromkeys(AS_TEXT, lambda value: (ONE, str(value))),
    type(Path()): lambda value: (MANY, list(value.parts)),
}


def _marked(value: Any) -> Any:
    """The value with texts that UTF-8 does not have marked; keys of dicts are left alone, and so refused."""
    kind = type(value)
    if kind is str and not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            return _Surrogates(value)
    if kind is dict:
        return {key: _marked(part) for key, part in value.items()}
    return [_marked(part) for part in value] if kind is list else value


def _equal(one: Any, other: Any) -> bool:
    try:
        return bool(one == other)
    except Exception:  # an array has no single answer
        return False


def _blocked(event: SerdeEvent) -> None:
    if event["kind"] in ("msgpack_blocked", "msgpack_method_blocked"):
        _now.blocked = f"{event['module']}.{event['name']}"


register_serde_event_listener(_blocked)
