"""Types that a state may hold, and what a value is down to its last part."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import InitVar, dataclass, field, is_dataclass
from enum import Enum, Flag, IntEnum, IntFlag, StrEnum
from functools import cached_property
from typing import Any, Generic, NamedTuple, TypeVar

import pydantic.v1
from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, RootModel, SecretStr, computed_field, field_validator

T = TypeVar("T")


class Colour(Enum):
    RED = 1
    CRIMSON = 1
    BLUE = (2, "b")


class Level(IntEnum):
    LOW = 1


class Word(StrEnum):
    YES = "yes"


class Rights(Flag):
    READ = 1
    WRITE = 2


class Bits(IntFlag):
    ONE = 1
    TWO = 2


class Model(BaseModel):
    n: Any = 1

    class Mood(Enum):
        CALM = "calm"

    class Part(BaseModel):
        n: int = 1


class Strict(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")
    inner: Model
    many: list[Model] = []


class Open(BaseModel):
    model_config = ConfigDict(extra="allow")
    n: int = 1


class Named(BaseModel):
    number: int = Field(alias="Number", default=0)
    hidden: str = Field(default="x", exclude=True)
    _count: Any = PrivateAttr(default=0)


class Doubled(BaseModel):
    n: int = 0

    @field_validator("n")
    @classmethod
    def double(cls, n: int) -> int:
        return 2 * n

    @computed_field
    @property
    def square(self) -> int:
        return self.n**2

    @cached_property
    def slow(self) -> object:
        return object()


class Box(BaseModel, Generic[T]):
    held: T


class Boxed(Box[int]):
    pass


class Numbers(RootModel[list[int]]):
    pass


class Guarded(BaseModel):
    secret: SecretStr


class Old(pydantic.v1.BaseModel):
    n: Any = 1
    _seen: int = pydantic.v1.PrivateAttr(default=0)

    class Config:
        extra = "allow"


@dataclass
class Plain:
    n: Any = 1


@dataclass(frozen=True)
class Frozen:
    n: Any = 1
    inner: Plain = field(default_factory=Plain)


@dataclass(slots=True)
class Slotted:
    n: Any = 1


@dataclass(kw_only=True)
class Late(Plain):
    late: Any = field(default=0, init=False)
    seed: InitVar[int] = 3

    def __post_init__(self, seed: int) -> None:
        self.late = seed
        self.other = [seed]


@dataclass
class Typed(Generic[T]):
    n: T


class Pair(NamedTuple):
    a: Any
    b: Any = 2


class Text(str):
    __slots__ = ()


class Tagged(str):
    tag: Any = None


class Number(int):
    pass


class Ratio(float):
    pass


class Raw(bytes):
    pass


class Many(list[Any]):
    pass


class Table(dict[Any, Any]):
    pass


class Bag(set[Any]):
    pass


class Row(tuple[Any, ...]):
    __slots__ = ()


class Unknown:
    """Of a class that says nothing of what it is made of."""


ALLOWED = (
    *(Colour, Level, Word, Rights, Bits, Model, Model.Mood, Model.Part, Strict, Open, Named, Doubled, Boxed, Numbers),
    *(Guarded, Old, Plain, Frozen, Slotted, Late, Typed, Pair, Text, Tagged, Number, Ratio, Raw, Many, Table, Bag, Row),
    SecretStr,
)


def told(value: Any) -> Any:
    """What a value is, with the type of each of its parts: 1 and True are equal, and NaN is not equal to itself."""
    kind = type(value)
    if isinstance(value, Enum):
        return kind, value._name_, value._value_
    if isinstance(value, BaseModel):
        return kind, _fields(value), told(value.__pydantic_extra__), told(value.__pydantic_private__)
    if isinstance(value, pydantic.v1.BaseModel):
        state = value.__getstate__()
        return kind, told(state["__dict__"]), state["__fields_set__"], told(state["__private_attribute_values__"])
    if is_dataclass(kind) or kind.__module__ == "langgraph.store.base":
        return kind, told(_attributes(value))
    held = getattr(value, "__dict__", None)
    return kind, _inside(value), told(held) if held else None


def _fields(value: BaseModel) -> Any:
    kind = type(value)
    fields = {name: part for name, part in vars(value).items() if name in kind.model_fields}
    return told(fields), None if kind.__module__.startswith("langchain_core") else value.model_fields_set


def _attributes(value: Any) -> dict[str, Any]:
    slots = (slot for base in type(value).__mro__ for slot in getattr(base, "__slots__", ()))
    held = {slot: getattr(value, slot) for slot in slots if hasattr(value, slot)} | getattr(value, "__dict__", {})
    return {name: part for name, part in sorted(held.items()) if name != "__orig_class__"}


def _inside(value: Any) -> Any:
    if isinstance(value, Mapping):
        order = [(told(key), told(part)) for key, part in value.items()]
        return order, repr(getattr(value, "default_factory", None))
    if isinstance(value, list | tuple | deque):
        return [told(part) for part in value], getattr(value, "maxlen", None)
    if isinstance(value, set | frozenset):
        return sorted(repr(told(part)) for part in value)
    if type(value).__module__ == "numpy" and hasattr(value, "tobytes"):
        flags = getattr(value, "flags", None)
        return value.dtype, value.shape, value.tobytes(), flags is not None and flags.writeable
    if type(value).__name__ in ("SecretStr", "SecretBytes"):
        return value.get_secret_value()
    return repr(value), getattr(value, "fold", None)
