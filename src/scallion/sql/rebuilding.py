"""Values made anew from their extensions, exactly as they were: no validator, `__init__` or default changes them.

Where a class has other fields than it had when the value was stored, the class is called, so that its defaults and
its checks apply.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from importlib import import_module
from typing import Any

from langgraph.checkpoint.serde.types import _DeltaSnapshot
from pydantic import BaseModel

from scallion.sql.extensions import (
    ARRAY,
    BARE,
    DELTA,
    FACTORIES,
    MANY,
    METHOD,
    NAMED,
    ONE,
    PYDANTIC_1,
    PYDANTIC_2,
    built_on,
)
from scallion.sql.messages import new, set_extra, set_names, set_private, set_values


def found(module: str, name: str) -> Any:
    """The type of that name; raises ImportError or AttributeError."""
    here = sys.modules.get(module) or import_module(module)
    if "." not in name:
        return getattr(here, name)
    kind: Any = here
    for part in name.split("."):
        kind = getattr(kind, part)
    if (kind.__module__, kind.__qualname__) != (module, name):  # not by way of what the module imported
        raise AttributeError(name)
    return kind


def delta(parts: Any) -> Any:
    """LangGraph's snapshot of a delta channel."""
    return _DeltaSnapshot(parts)


def array(dtype: str, shape: list[int], order: str, data: bytes) -> Any:
    """An array that can be written to."""
    numpy = import_module("numpy")
    return numpy.ndarray(shape, numpy.dtype(dtype), bytearray(data), order=order)


def made(code: int, kind: Any, arguments: Any, rest: list[Any]) -> Any:
    """The value that an extension of this code stands for, `rest` being what follows the arguments."""
    return _MADE[code](kind, arguments, rest)


def _one(kind: Any, argument: Any, rest: list[Any]) -> Any:
    if kind.__module__ in _CALLED or issubclass(kind, Enum):
        return kind(argument)
    base: Any = built_on(kind)
    if base not in BARE:
        return kind(argument)
    value = _bare(kind, base, argument)
    _set(value, rest[0] if rest else {})
    return value


def _bare(kind: Any, base: Any, argument: Any) -> Any:
    make = base.__new__
    if base not in _FILLED:
        return make(kind, argument)
    value = make(kind)
    _FILLED[base](value, argument)
    return value


_CALLED = frozenset(("builtins", "collections", "numpy", "re"))
_FILLED: Mapping[type[Any], Callable[[Any, Any], Any]] = {list: list.extend, set: set.update, dict: dict.update}


def _set(value: Any, attributes: Mapping[str, Any]) -> None:
    for name, part in attributes.items():
        object.__setattr__(value, name, part)


def _many(kind: Any, arguments: list[Any], rest: list[Any]) -> Any:
    if kind is defaultdict:
        factory, held = arguments
        return defaultdict(FACTORIES[factory] if factory else None, held)
    if kind.__module__ == "langgraph.types" and len(arguments) == 3:
        return kind(*arguments[:2], timeout=arguments[2])
    return kind(*arguments)


def _named(kind: Any, arguments: dict[str, Any], rest: list[Any]) -> Any:
    if is_dataclass(kind):
        return _dataclass(kind, arguments, rest)
    if hasattr(kind, "_fields") and kind._fields == tuple(arguments):
        return tuple.__new__(kind, arguments.values())
    return kind(**arguments)


def _dataclass(kind: Any, arguments: dict[str, Any], rest: list[Any]) -> Any:
    if {field.name for field in fields(kind)} != arguments.keys():
        wanted = {field.name for field in fields(kind) if field.init}
        return kind(**{name: value for name, value in arguments.items() if name in wanted})
    value: Any = object.__new__(kind)
    _set(value, {**arguments, **(rest[0] if rest else {})})
    return value


def _method(kind: Any, argument: Any, rest: list[Any]) -> Any:
    return getattr(kind, rest[0])(argument)


def _pydantic_1(kind: Any, values: dict[str, Any], rest: list[Any]) -> Any:
    if not rest or kind.__fields__.keys() - values.keys():
        return kind(**values)
    names, private = rest[0]
    value = kind.__new__(kind)
    state = {"__dict__": values, "__fields_set__": set(names), "__private_attribute_values__": private}
    value.__setstate__(state)
    return value


def _pydantic_2(kind: type[BaseModel], arguments: dict[str, Any], rest: list[Any]) -> Any:
    known = kind.__pydantic_fields__
    has_extra = kind.model_config.get("extra") == "allow"
    if len(rest) < 2 or known.keys() - arguments.keys() or not (has_extra or len(known) == len(arguments)):
        return kind.model_validate(arguments, by_name=True)
    values = arguments
    extra: dict[str, Any] | None = {} if has_extra else None
    if len(known) < len(arguments):
        values = {name: arguments[name] for name in known}
        extra = {name: part for name, part in arguments.items() if name not in known}
    unset, private = rest[1] or ((), None)
    value = new(kind)
    set_values(value, values)
    set_extra(value, extra)
    set_names(value, arguments.keys() - unset)
    set_private(value, private)
    return value


_MADE: Mapping[int, Callable[[Any, Any, list[Any]], Any]] = {
    ONE: _one,
    MANY: _many,
    NAMED: _named,
    METHOD: _method,
    PYDANTIC_1: _pydantic_1,
    PYDANTIC_2: _pydantic_2,
}

SPECIAL: Mapping[int, Callable[[Any], Any]] = {DELTA: delta, ARRAY: lambda parts: array(*parts)}
"""The extensions that name no type."""
