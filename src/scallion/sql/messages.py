"""Messages, which most of a thread consists of: unchanged ones are recognised and loaded ones made, not serialised.

A message that was stored is unchanged as long as its fields equal what they were, down to the types of numbers, and
those of them that can change in place (dicts and lists) hold what they held.
"""

from __future__ import annotations

import marshal
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import chain, repeat
from operator import attrgetter, is_
from typing import Any

from pydantic import BaseModel

from scallion.sql.encoding import Blob, Leaf

MODULES = "langchain_core.messages."
"""The modules whose objects are made of plain data only, so that their fields stand for them."""

CONTAINERS = frozenset((dict, list))

_data = attrgetter("data")
new = object.__new__
# The slots of every pydantic object, set without pydantic's checks and without a look at the class.
_slots = vars(BaseModel)
set_values, set_extra = _slots["__dict__"].__set__, _slots["__pydantic_extra__"].__set__
set_names, set_private = _slots["__pydantic_fields_set__"].__set__, _slots["__pydantic_private__"].__set__


class NotPlain(Exception):
    """A message holds something that may change unseen."""


class _Exact:
    """A number that equals only its like: 1, True and 1.0 are equal in Python, and not in what is stored."""

    __slots__ = ("number",)
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, number: Any) -> None:
        self.number = number

    def __eq__(self, other: object) -> bool:
        return other is self.number or (type(other) is type(self.number) and repr(other) == repr(self.number))


def _apart(value: Any) -> Any:
    """The value with containers of its own, which equals it as long as it does not change. Raises NotPlain."""
    kind = type(value)
    if value is None or kind is str or kind is bytes:
        return value
    if kind is dict:
        return {_text(key): _apart(part) for key, part in value.items()}
    if kind is list:
        return [_apart(part) for part in value]
    if kind in (int, bool, float):
        return _Exact(value)
    raise NotPlain


def _text(key: Any) -> str:
    if type(key) is str:
        return key
    raise NotPlain


def is_message(value: Any) -> bool:
    """Whether it is a message of langchain-core, of which everything is in its fields."""
    kind = type(value)
    return kind.__module__.startswith(MODULES) and isinstance(value, BaseModel) and not value.__pydantic_private__


@dataclass(slots=True)
class Seals:
    """What messages held when they were sealed."""

    fields: list[dict[str, Any]] = field(default_factory=list)
    values: list[Any] = field(default_factory=list)
    """What the values of all fields equal, one message after the other: most are the very same objects."""
    empty: list[Any] = field(default_factory=list)
    """Those of them that are empty dicts and lists."""
    extras: list[Any] = field(default_factory=list)
    """What pydantic keeps beside the fields, unless it is empty ..."""
    copies: list[Any] = field(default_factory=list)
    """... and what that held."""

    def hold(self) -> bool:
        """Whether nothing has changed since. This runs for the whole history at every put, hence on lists in C."""
        now = list(chain.from_iterable(map(dict.values, self.fields)))
        try:
            return now == self.values and not any(self.empty) and self.extras == self.copies
        except Exception:  # something came in that does not compare, as an array
            return False

    def add(self, message: Any) -> None:
        """Seal one more message. Raises NotPlain."""
        if not is_message(message):
            raise NotPlain
        fields = message.__dict__
        self.values += map(self._sealed, fields.values())
        self.fields.append(fields)
        self.add_extras([message.__pydantic_extra__])

    def _sealed(self, value: Any) -> Any:
        if type(value) in CONTAINERS and not value:
            self.empty.append(value)
            return value
        return _apart(value)

    def add_extras(self, extras: Sequence[dict[str, Any] | None]) -> None:
        """Seal what messages have beside their fields. Raises NotPlain."""
        full = [extra for extra in extras if extra]
        self.copies += map(_apart, full)
        self.extras += full
        self.empty += [extra for extra in extras if extra is not None and not extra]


@dataclass(frozen=True, slots=True)
class Recipe:
    """A stored message: how to make it anew, sharing nothing that can change with any other."""

    kind: type[Any]
    sealed: dict[str, Any]
    """What its fields equal, with None in the place of empty dicts and lists."""
    dicts: Sequence[str]
    lists: Sequence[str]
    full: bytes | None
    """The fields that are not the very objects of `sealed`."""
    extra: bytes | None
    names: frozenset[str]
    blob: Blob


def recipe(message: Any, blob: Blob) -> Recipe | None:
    """The recipe of a message that was just loaded from its blob; None if it is not plain data."""
    if not is_message(message):
        return None
    values, extra = message.__dict__, message.__pydantic_extra__
    empty = {name: type(value) for name, value in values.items() if type(value) in CONTAINERS and not value}
    try:
        sealed = {name: None if name in empty else _apart(value) for name, value in values.items()}
        _apart(extra)
    except NotPlain:
        return None
    full = {name: value for name, value in values.items() if name not in empty and sealed[name] is not value}
    return Recipe(
        kind=type(message),
        sealed=sealed,
        dicts=[name for name, kind in empty.items() if kind is dict],
        lists=[name for name, kind in empty.items() if kind is list],
        full=marshal.dumps(full, 2) if full else None,
        extra=marshal.dumps(extra, 2) if extra or extra is None else None,
        names=frozenset(message.__pydantic_fields_set__),
        blob=blob,
    )


def make(recipes: Sequence[Recipe]) -> tuple[list[Any], Seals]:
    """New messages, sealed. This runs for every message of a history at every load: where it can, it loops in C."""
    messages = [new(one.kind) for one in recipes]
    fields = [one.sealed.copy() for one in recipes]
    extras = [{} if one.extra is None else marshal.loads(one.extra) for one in recipes]
    seals = Seals(fields, empty=_emptied(recipes, fields))
    seals.add_extras(extras)
    seals.values += chain.from_iterable(map(dict.values, fields))
    for one, values in zip(recipes, fields, strict=True):
        if one.full is not None:
            values.update(marshal.loads(one.full))
    _each(set_values, messages, fields)
    _each(set_extra, messages, extras)
    _each(set_names, messages, [set(one.names) for one in recipes])
    _each(set_private, messages, repeat(None))
    return messages, seals


def _emptied(recipes: Sequence[Recipe], fields: Sequence[dict[str, Any]]) -> list[Any]:
    """The new empty dicts and lists that were put into the fields."""
    parts: list[Any] = []
    add = parts.append
    for one, values in zip(recipes, fields, strict=True):
        part: Any
        for name in one.dicts:
            values[name] = part = {}
            add(part)
        for name in one.lists:
            values[name] = part = []
            add(part)
    return parts


def _each(set: Callable[[Any, Any], None], messages: Iterable[Any], values: Iterable[Any]) -> None:
    """Set a slot of each message."""
    deque(map(set, messages, values), maxlen=0)


@dataclass(frozen=True, slots=True)
class Series:
    """A list of messages as it was when it was last stored or loaded.

    `messages` are the objects that the graph has, `at` says where the list lies: session, generation and leaf.
    """

    messages: Sequence[Any]
    seals: tuple[Seals, ...]
    blobs: Sequence[Blob]
    ids: Sequence[int] = ()
    at: tuple[int, int, Leaf] | None = None
    weight: int = 0
    """About how many bytes it takes."""

    def begins(self, value: Sequence[Any]) -> bool:
        """Whether the list starts with the very same messages, and each still holds what it held."""
        return len(value) >= len(self.messages) and all(map(is_, self.messages, value)) and self.holds()

    def holds(self) -> bool:
        """Whether no message has changed since."""
        return all(one.hold() for one in self.seals)


def weight(blobs: Iterable[Blob]) -> int:
    """About how many bytes a series of these takes, which has each message beside its blob."""
    return 2 * sum(map(len, map(_data, blobs)))


MOST_SEALS = 64
"""A series of more parts is sealed anew as a whole."""


def series(messages: Sequence[Any], blobs: Sequence[Blob], before: Series | None = None) -> Series | None:
    """The messages, sealed, of which `before` has the first; None if one may change unseen."""
    known = before if before and len(before.seals) < MOST_SEALS else None
    fresh = Seals()
    start = len(known.messages) if known else 0
    try:
        for message in messages[start:]:
            fresh.add(message)
    except NotPlain:
        return None
    seals = (*(known.seals if known else ()), fresh)
    return Series(list(messages), seals, blobs, weight=(known.weight if known else 0) + weight(blobs[start:]))
