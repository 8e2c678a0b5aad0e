"""What a value that msgpack does not know is made of: the extension that stands for it.

An extension is [module, name, arguments, ...], as LangGraph's serializer writes it and its readers read it. Where a
call with these arguments would not give the same value, what is missing comes behind them.
"""

from __future__ import annotations

import re
import sys
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum
from functools import cached_property, lru_cache
from ipaddress import IPv4Address, IPv4Interface, IPv4Network, IPv6Address, IPv6Interface, IPv6Network
from pathlib import Path
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

from langgraph.checkpoint.serde.types import _DeltaSnapshot
from pydantic import BaseModel
from pydantic_core import PydanticUndefined as Undefined

ONE, MANY, NAMED, METHOD, PYDANTIC_1, PYDANTIC_2, ARRAY, DELTA = range(8)
"""A type called with one value, with several, by name, by a class method; and special ones."""

Extension = tuple[int, Any]

KNOWN = ("langchain_core.", "langgraph.")
"""The packages of whose models only the fields count, not which of them were set."""

AS_TEXT = frozenset((Decimal, IPv4Address, IPv4Interface, IPv4Network, IPv6Address, IPv6Interface, IPv6Network))
ATOMS = frozenset((str, int, float, bool, type(None), bytes))
LONG = 8
"""Longer lists are looked at as a whole first, which takes longer to begin with."""
KEYS = frozenset((float, bool, type(None), bytes))
FACTORIES: Mapping[str, type[Any]] = {kind.__name__: kind for kind in (list, dict, set, tuple, int, float, str, bool)}
"""What a defaultdict may make."""

NUMBERS = "bool bool_ int8 int16 int32 int64 uint8 uint16 uint32 uint64 intc uintc longlong ulonglong float16 float32"
SCALARS = frozenset((NUMBERS + " float64 complex64 complex128 str_ bytes_").split())
"""The scalars of numpy whose Python value is all that they hold."""


class Marked:
    """Stands around a value that msgpack would take, and give back as something else."""

    def __init__(self, value: Any) -> None:
        self.value = value


def is_plain(value: Any) -> bool:
    """Whether msgpack gives these dicts and lists back as they are; for other parts it asks."""
    kind = type(value)
    if kind is dict:
        for key, part in value.items():
            if type(key) is not str and not _is_key(key):
                return False
            if type(part) not in ATOMS and not is_plain(part):
                return False
        return True
    if kind is list:
        return (len(value) > LONG and ATOMS.issuperset(map(type, value))) or all(map(_is_plain_part, value))
    return kind is not bytearray and kind is not memoryview


def _is_plain_part(part: Any) -> bool:
    return type(part) in ATOMS or is_plain(part)


def marked(value: Any) -> Any:
    """The value with such parts marked that msgpack would change."""
    kind = type(value)
    if kind is str:
        return value if is_text(value) else Marked(value)
    if kind is list:
        return [marked(part) for part in value]
    if kind is dict and all(map(_is_key, value)):
        return {key: marked(part) for key, part in value.items()}
    return Marked(value) if kind in (dict, bytearray, memoryview) else value


def is_text(value: str) -> bool:
    """Whether UTF-8 has all characters of it: lone surrogates it has not."""
    try:
        return value.isascii() or bool(value.encode())
    except UnicodeEncodeError:
        return False


def _is_key(key: Any) -> bool:
    kind = type(key)
    return kind in KEYS or (kind is str and is_text(key)) or (kind is int and -(2**63) <= key < 2**64)


def extension(value: Any) -> Extension:
    """The extension that stands for a value. Raises TypeError if there is none."""
    return _how(type(value))(value)  # type: ignore[arg-type]  # every type can be hashed


@lru_cache(512)
def _how(kind: type[Any]) -> Callable[[Any], Extension]:
    if (how := _BUILT_IN.get(kind)) is not None:
        return how
    if issubclass(kind, Enum):
        return _member
    if issubclass(kind, BaseModel):
        return _known_model if kind.__module__.startswith(KNOWN) else _model
    return _dataclass if is_dataclass(kind) else _other


def _member(value: Enum) -> Extension:
    kind = type(value)
    if kind(value._value_) is not value:
        raise TypeError("its value does not lead to it")
    return ONE, [*named(kind), value._value_]


def named(kind: type[Any]) -> tuple[str, str]:
    """Where a type is found; the name of one in the body of another has dots."""
    return kind.__module__, kind.__qualname__


def _other(value: Any) -> Extension:
    kind = type(value)
    module, name = kind.__module__, kind.__name__
    if isinstance(value, tuple) and hasattr(kind, "_fields") and not attributes(value):
        return NAMED, [*named(kind), dict(zip(kind._fields, tuple.__iter__(value), strict=True))]
    if module == "langgraph.types" and name == "Send":
        timeout = getattr(value, "timeout", None)
        return MANY, [module, name, [value.node, value.arg] + ([] if timeout is None else [timeout])]
    if module == "langgraph.store.base":
        return NAMED, [module, name, {slot: getattr(value, slot) for slot in kind.__slots__}]
    if module == "numpy":
        return _numpy(name, value)
    if name in ("SecretStr", "SecretBytes") and module in ("pydantic.types", "pydantic.v1.types"):
        return ONE, [module, name, value.get_secret_value()]
    if hasattr(kind, "__fields__") and hasattr(value, "__fields_set__"):
        state = value.__getstate__()
        rest = [sorted(state["__fields_set__"]), state["__private_attribute_values__"]]
        return PYDANTIC_1, [*named(kind), state["__dict__"], rest]
    if (bare := BARE.get(built_on(kind))) is not None:
        return ONE, [*named(kind), bare(value), *filter(None, [attributes(value)])]
    raise TypeError("nothing is known of what it is made of")


def _known_model(value: BaseModel) -> Extension:
    return _fields(value, None)


def _model(value: BaseModel) -> Extension:
    unset = [name for name in type(value).__pydantic_fields__ if name not in value.__pydantic_fields_set__]
    private = value.__pydantic_private__
    return _fields(value, [unset, private and {name: part for name, part in private.items() if part is not Undefined}])


def _fields(value: BaseModel, rest: Any) -> Extension:
    kind, values, extra = type(value), vars(value), value.__pydantic_extra__
    if values.keys() != kind.__pydantic_fields__.keys():  # what a cached property holds is not part of the value
        values = {name: values[name] for name in kind.__pydantic_fields__}
    return PYDANTIC_2, [*named(kind), {**values, **extra} if extra else values, "model_validate_json", rest]


def _dataclass(value: Any) -> Extension:
    kind = type(value)
    if built_on(kind) is not object:
        raise TypeError("a dataclass that is a built-in type, too, cannot be stored")
    values = {field.name: getattr(value, field.name) for field in fields(kind)}
    others = {name: part for name, part in attributes(value).items() if name not in values}
    return NAMED, [*named(kind), values, *filter(None, [others])]


def attributes(value: Any) -> dict[str, Any]:
    """What an object holds in its own dict and in the slots of its classes, except what can be had again."""
    kind = type(value)
    slots = (name for base in kind.__mro__ for name in _slots(base))
    held = {name: getattr(value, name) for name in slots if hasattr(value, name)} | getattr(value, "__dict__", {})
    return {name: part for name, part in held.items() if name != "__orig_class__" and not _is_cached(kind, name)}


def _is_cached(kind: type[Any], name: str) -> bool:
    return isinstance(getattr(kind, name, None), cached_property)


def _slots(kind: type[Any]) -> tuple[str, ...]:
    slots = vars(kind).get("__slots__", ())
    names = (slots,) if isinstance(slots, str) else tuple(slots)
    return tuple(name for name in names if name not in ("__dict__", "__weakref__"))


HEAP_TYPE = 1 << 9
"""The flag of types that were not compiled into Python."""


def built_on(kind: type[Any]) -> type[Any]:
    """The built-in type that a class is made of; `object` for most."""
    return next(base for base in kind.__mro__ if not base.__flags__ & HEAP_TYPE)


BARE: Mapping[type[Any], Callable[[Any], Any]] = {
    str: lambda value: str.__str__(value),
    int: lambda value: int.__int__(value),
    float: lambda value: float.__float__(value),
    bytes: lambda value: bytes.__getitem__(value, slice(None)),
    tuple: lambda value: list(tuple.__iter__(value)),
    list: lambda value: list(list.__iter__(value)),
    set: lambda value: list(set.__iter__(value)),
    frozenset: lambda value: list(frozenset.__iter__(value)),
    dict: lambda value: dict(dict.items(value)),
}
"""What objects of a class that inherits from a built-in type hold as such."""


def _numpy(name: str, value: Any) -> Extension:
    numpy = sys.modules["numpy"]
    if name in SCALARS:
        return ONE, ["numpy", name, value.item()]
    if name in ("datetime64", "timedelta64"):
        return MANY, [
            "numpy",
            name,
            [int(value.view("i8")), numpy.dtype(value.dtype).str.partition("[")[2].rstrip("]")],
        ]
    if name != "ndarray" or value.dtype.hasobject or numpy.dtype(value.dtype.str) != value.dtype:
        raise TypeError("of numpy only plain arrays and scalars can be stored")
    order = "F" if value.flags.f_contiguous and not value.flags.c_contiguous else "C"
    return ARRAY, [value.dtype.str, list(value.shape), order, value.tobytes(order="A")]


def _text(value: str) -> Extension:
    return MANY, ["builtins", "str", [value.encode("utf-8", "surrogatepass"), "utf-8", "surrogatepass"]]


def _moment(value: datetime) -> Extension:
    if (value.tzinfo is None or value.tzinfo is UTC) and not value.fold:
        return METHOD, ["datetime", "datetime", value.isoformat(), "fromisoformat"]
    parts = ("year", "month", "day", "hour", "minute", "second", "microsecond", "tzinfo", "fold")
    return NAMED, ["datetime", "datetime", {part: getattr(value, part) for part in parts}]


def _time(value: time) -> Extension:
    parts = ("hour", "minute", "second", "microsecond", "tzinfo", "fold")
    return NAMED, ["datetime", "time", {part: getattr(value, part) for part in parts}]


def _zone(value: ZoneInfo) -> Extension:
    if value.key is None:
        raise TypeError("a time zone without a name cannot be found again")
    return ONE, ["zoneinfo", "ZoneInfo", value.key]


def _bounded(value: deque[Any]) -> Extension:
    if value.maxlen is None:
        return ONE, ["collections", "deque", list(value)]
    return MANY, ["collections", "deque", [list(value), value.maxlen]]


def _default(value: defaultdict[Any, Any]) -> Extension:
    factory = value.default_factory
    if factory is not None and factory not in FACTORIES.values():
        raise TypeError("of functions that make defaults only built-in types can be stored")
    return MANY, ["collections", "defaultdict", [getattr(factory, "__name__", None), dict(value)]]


def _one(how: Callable[[Any], Any]) -> Callable[[Any], Extension]:
    return lambda value: (ONE, [type(value).__module__, type(value).__name__, how(value)])


def _many(how: Callable[[Any], list[Any]]) -> Callable[[Any], Extension]:
    return lambda value: (MANY, [type(value).__module__, type(value).__name__, how(value)])


def _pairs(value: Mapping[Any, Any]) -> list[list[Any]]:
    return [[key, part] for key, part in value.items()]


_BUILT_IN: Mapping[type[Any], Callable[[Any], Extension]] = {
    _DeltaSnapshot: lambda value: (DELTA, value.value),
    str: _text,
    int: _one(str),
    bytearray: _one(bytes),
    complex: _many(lambda value: [value.real, value.imag]),
    range: _many(lambda value: [value.start, value.stop, value.step]),
    tuple: _one(list),
    set: _one(list),
    frozenset: _one(list),
    dict: _one(_pairs),
    OrderedDict: _one(_pairs),
    Counter: _one(dict),
    defaultdict: _default,
    deque: _bounded,
    UUID: _one(lambda value: value.hex),
    datetime: _moment,
    date: _many(lambda value: [value.year, value.month, value.day]),
    time: _time,
    timedelta: _many(lambda value: [value.days, value.seconds, value.microseconds]),
    timezone: _many(lambda value: list(value.__getinitargs__())),
    ZoneInfo: _zone,
    re.Pattern: lambda value: (MANY, ["re", "compile", [value.pattern, value.flags]]),
    type(Path()): _many(lambda value: list(value.parts)),
    **dict.fromkeys(AS_TEXT, _one(str)),
}
