"""The strict serializer: what it stores comes back equal and of the same type, or is refused when it is stored.

The bytes are those of LangGraph's serializer, whose readers read them. What LangGraph stores as something else (tuples
as lists, models inside of messages as dicts, subclasses of dict and str as those, lone surrogates as question marks) or
not at all (big integers) is stored as extensions; see `extensions` for writing and `rebuilding` for reading.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import ormsgpack
from langgraph.checkpoint.serde._msgpack import SAFE_MSGPACK_METHODS, SAFE_MSGPACK_TYPES, STRICT_MSGPACK_ENABLED
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from scallion.errors import TypeBlocked
from scallion.sql.encoding import Refused
from scallion.sql.extensions import METHOD, SCALARS, Marked, extension, is_plain, marked, named
from scallion.sql.rebuilding import SPECIAL, found, made

OPTIONS = (
    ormsgpack.OPT_NON_STR_KEYS
    | ormsgpack.OPT_PASSTHROUGH_DATACLASS
    | ormsgpack.OPT_PASSTHROUGH_DATETIME
    | ormsgpack.OPT_PASSTHROUGH_ENUM
    | ormsgpack.OPT_PASSTHROUGH_UUID
    | ormsgpack.OPT_PASSTHROUGH_TUPLE
    | ormsgpack.OPT_PASSTHROUGH_BIG_INT
    | ormsgpack.OPT_PASSTHROUGH_SUBCLASS
)

HARMLESS = frozenset(
    [("builtins", name) for name in ("bytearray", "complex", "dict", "int", "range", "str", "tuple")]
    + [("collections", name) for name in ("Counter", "OrderedDict", "defaultdict")]
    + [("numpy", name) for name in (*SCALARS, "datetime64", "timedelta64")]
    + [("langchain_core.messages.base", "TextAccessor"), ("langchain_core.runnables.utils", "AddableDict")]
)
"""What is allowed on top of LangGraph's own list."""


def how_to_allow(module: str, name: str) -> str:
    """What has to be written so that the type is rebuilt."""
    by_hand = f"name it: SQLCheckpointer(url).with_allowlist([({module!r}, {_listed(name)!r})])"
    if STRICT_MSGPACK_ENABLED:  # so LangGraph has listed what it finds, and did not find this
        return by_hand
    return (
        f"{by_hand}; or, for the types in the state of a graph, have LangGraph list them: LANGGRAPH_STRICT_MSGPACK=true"
    )


def _listed(name: str) -> str:
    """The name on the list: of a type in the body of another one its own, as LangGraph has it."""
    return name.rpartition(".")[2]


class StrictSerializer(JsonPlusSerializer):
    """LangGraph's msgpack serializer with an allow-list; `with_allowlist` of the saver extends it.

    LangGraph hands over a value of a blocked type as a plain dict. Here it is refused when it is stored, and where one
    was stored all the same, reading it raises TypeBlocked, which names the type.
    """

    def __init__(self, allowed: Any = None) -> None:
        super().__init__(allowed_msgpack_modules=allowed, pickle_fallback=False)
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
        return "msgpack", _Writing(self).whole(obj)

    def loads_typed(self, data: tuple[str, bytes]) -> Any:
        """The value; raises TypeBlocked."""
        return _Reading(self).whole(data[1]) if data[0] == "msgpack" else super().loads_typed(data)

    def allows(self, module: str, name: str) -> bool:
        """Whether a type is rebuilt; one in the body of another is on the list under its own name, as LangGraph's."""
        key = module, name
        if key in SAFE_MSGPACK_TYPES or key in HARMLESS:
            return True
        listed = self._allowed_msgpack_modules
        return listed is True or (module, _listed(name)) in (listed or ())

    def blocked(self, error: TypeBlocked, name: str, arguments: Any) -> Any:
        """What a value becomes that cannot be rebuilt: here the error."""
        raise error

    def prove(self, kind: type[Any], module: str, name: str) -> None:
        """Raise TypeError unless what is stored under this name will be rebuilt as this type."""
        if kind in self._proven:
            return
        if not self.allows(module, name):
            raise TypeError(f"{module}.{name} is not on the allow-list: {how_to_allow(module, name)}")
        try:
            same = found(module, name) is kind
        except (ImportError, AttributeError):
            same = False
        if not same:
            raise TypeError(
                f"{module}.{name} does not lead to it: define it at the top of a module, under its own name"
            )
        self._proven.add(kind)


class Unread:
    """What stands for a value that cannot be rebuilt here: its type by name, and its fields as attributes."""

    def __init__(self, name: str, fields: Any = None) -> None:
        self._name = name
        if isinstance(fields, dict):
            vars(self).update((key, part) for key, part in fields.items() if isinstance(key, str))

    def __repr__(self) -> str:
        return f"<{self._name}>"


class ShowingSerializer(StrictSerializer):
    """For who only shows what is stored, and has none of a graph's classes: each blocked value is an `Unread`."""

    def loads_typed(self, data: tuple[str, bytes]) -> Any:
        """The value, as far as it can be read; raises nothing."""
        try:
            return super().loads_typed(data)
        except Exception:  # of another serializer, or damaged: the rest is shown all the same
            return Unread(data[0])

    def blocked(self, error: TypeBlocked, name: str, arguments: Any) -> Any:
        """The stand-in."""
        return Unread(name, arguments)


class _Writing:
    """One value on its way into bytes. `refused` keeps what ormsgpack would not tell."""

    def __init__(self, serializer: StrictSerializer) -> None:
        self._prove = serializer.prove
        self._refused: Refused | None = None

    def whole(self, value: Any) -> bytes:
        """The value as bytes; raises Refused."""
        try:
            return self._packed(value)
        except (TypeError, ValueError, RecursionError) as error:
            raise self._refused or Refused("", type(error).__name__) from None

    def _packed(self, value: Any) -> bytes:
        if not is_plain(value):
            value = marked(value)
        try:
            return ormsgpack.packb(value, default=self._extension, option=OPTIONS)
        except TypeError as error:
            if "surrogates" not in str(error):
                raise
            return ormsgpack.packb(marked(value), default=self._extension, option=OPTIONS)

    def _extension(self, value: Any) -> ormsgpack.Ext:
        if type(value) is Marked:
            value = value.value
        kind = type(value)
        try:
            code, parts = extension(value)
            if code not in SPECIAL and (parts[0], parts[1]) == named(kind):
                self._prove(kind, parts[0], parts[1])
            return ormsgpack.Ext(code, self._packed(parts))
        except Exception as error:
            reason = str(error) if isinstance(error, TypeError) else type(error).__name__
            self._refused = self._refused or Refused(kind.__name__, reason)
            raise


class _Reading:
    """One value on its way out of bytes. `failed` keeps what ormsgpack would not tell."""

    def __init__(self, serializer: StrictSerializer) -> None:
        self._serializer = serializer
        self._failed: Exception | None = None

    def whole(self, data: bytes) -> Any:
        """The value; raises TypeBlocked."""
        try:
            return self._unpacked(data)
        except ValueError:
            if self._failed is None:
                raise
            raise self._failed from None

    def _unpacked(self, data: bytes) -> Any:
        return ormsgpack.unpackb(data, ext_hook=self._extension, option=ormsgpack.OPT_NON_STR_KEYS)

    def _extension(self, code: int, data: bytes) -> Any:
        try:
            parts = self._unpacked(data)
            return SPECIAL[code](parts) if code in SPECIAL else self._made(code, *parts)
        except Exception as error:
            self._failed = self._failed or error
            raise

    def _made(self, code: int, module: str, name: str, arguments: Any, *rest: Any) -> Any:
        try:
            return self._rebuilt(code, module, name, arguments, *rest)
        except TypeBlocked as error:
            return self._serializer.blocked(error, f"{module}.{name}", arguments)

    def _rebuilt(self, code: int, module: str, name: str, arguments: Any, *rest: Any) -> Any:
        where = f"a stored value is of type {module}.{name}, which"
        is_allowed = self._serializer.allows(module, name)
        if (code == METHOD and (module, name, *rest) not in SAFE_MSGPACK_METHODS) or not is_allowed:
            raise TypeBlocked(f"{where} is not on the allow-list: {how_to_allow(module, name)}")
        try:
            kind = found(module, name)
        except (ImportError, AttributeError):
            raise TypeBlocked(f"{where} is not there: keep the name importable, an alias is enough") from None
        try:
            return made(code, kind, arguments, list(rest))
        except Exception as error:
            raise TypeBlocked(f"{where} does not take what was stored: {type(error).__name__}") from None
