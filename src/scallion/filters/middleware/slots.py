"""The extra state of a middleware: its `state_schema`, as the private state of the filter, which is JSON data.

LangChain keeps any object in its channels. Here a value that is no JSON data is kept by what pydantic makes of the type
that the schema declares, and a type of which it makes nothing is refused where the filter is built.
"""

from __future__ import annotations

import json
import types
import typing
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal, TypedDict, get_args, get_origin, get_type_hints

import typing_extensions
from langgraph.channels import EphemeralValue, UntrackedValue
from langgraph.channels.base import BaseChannel
from pydantic import TypeAdapter

from scallion.errors import ConfigurationError
from scallion.filters.replies import BadReply

RUN = "@run"
"""The key of what lasts for one turn: `{"turn": id, "values": {...}}`."""
OWN = frozenset({"messages", "jump_to", "structured_response"})
"""The keys of every agent's state; they are none of the middleware's own."""
_PLAIN = (str, int, float, bool, type(None), dict, list, Any)
_UNIONS = (typing.Union, types.UnionType)
_MARKS = tuple(
    getattr(module, name)
    for module in (typing, typing_extensions)
    for name in ("Required", "NotRequired", "ReadOnly")
    if hasattr(module, name)
)


class Slot:
    """One key of the state: how its value is kept, combined and for how long."""

    def __init__(self, key: str, hint: Any) -> None:
        kind, extras = _bare(hint)
        channels = [one for one in extras if _is_channel(one)]
        self.key = key
        self.reducer: Callable[[Any, Any], Any] | None = None
        self.lasts = True
        for channel in channels:
            name = channel.__name__ if isinstance(channel, type) else type(channel).__name__
            if name != UntrackedValue.__name__:
                raise ConfigurationError(f"its state {key!r} is a {name}, a channel of LangGraph that nothing here has")
            self.lasts = False
        functions = [one for one in extras if callable(one) and one not in channels]
        self.reducer = functions[-1] if functions else None
        self._adapter = None if _is_plain(kind) else _adapter(key, kind)
        if self.reducer is not None and self._adapter is not None:
            raise ConfigurationError(f"its state {key!r} has a reducer over what is no JSON data")

    def dump(self, value: Any) -> Any:
        """JSON data for the value; raises BadReply where there is none."""
        if self._adapter is not None:
            return self._adapter.dump_python(value, mode="json")
        if not _is_json(value):
            raise BadReply(f"its state {self.key!r} was given a {type(value).__name__}, which is no JSON data")
        return value

    def load(self, value: Any) -> Any:
        """The value again."""
        return value if self._adapter is None else self._adapter.validate_python(value)


class Slots:
    """The keys of one middleware's state."""

    def __init__(self, schema: type) -> None:
        hints = get_type_hints(schema, include_extras=True)
        self._slots = {key: Slot(key, hint) for key, hint in hints.items() if key not in OWN}
        reducers = {key: Annotated[Any, one.reducer] for key, one in self._slots.items() if one.reducer is not None}
        self.schema = _typed_dict("MiddlewareState", reducers)
        """The reducers, as a filter declares them."""

    def __contains__(self, key: object) -> bool:
        return key in self._slots

    def __bool__(self) -> bool:
        return bool(self._slots)

    def read(self, state: Mapping[str, Any], turn: str | None) -> dict[str, Any]:
        """The values as a middleware sees them in this turn."""
        run = state.get(RUN) or {}
        lasting = {key: value for key, value in state.items() if key != RUN}
        kept = {**lasting, **(run["values"] if run.get("turn") == turn and run else {})}
        return {key: self._slots[key].load(value) if key in self._slots else value for key, value in kept.items()}

    def written(self, values: Mapping[str, Any], state: Mapping[str, Any], turn: str | None) -> dict[str, Any]:
        """The update of the filter's state that these values of a middleware make."""
        update: dict[str, Any] = {}
        run = state.get(RUN) or {}
        passing = dict(run["values"]) if run.get("turn") == turn and run else {}
        for key, value in values.items():
            slot = self._slots.get(key) or Slot(key, Any)
            (update if slot.lasts else passing)[key] = slot.dump(value)
        return {**update, RUN: {"turn": turn, "values": passing}} if passing else update


def _typed_dict(name: str, keys: Mapping[str, Any]) -> type:
    make: Any = TypedDict
    made: type = make(name, dict(keys))
    return made


def _bare(hint: Any) -> tuple[Any, list[Any]]:
    """The type of a hint without what stands around it, and what it is annotated with."""
    extras: list[Any] = []
    while get_origin(hint) in (Annotated, *_MARKS):
        if get_origin(hint) is Annotated:
            extras += hint.__metadata__
        hint = get_args(hint)[0]
    return hint, extras


def _is_channel(extra: Any) -> bool:
    kind = extra if isinstance(extra, type) else type(extra)
    return issubclass(kind, BaseChannel) or kind is EphemeralValue


def _is_plain(kind: Any) -> bool:
    """Whether the values of the type are JSON data."""
    kind, _ = _bare(kind)
    origin, args = get_origin(kind), get_args(kind)
    if origin is Literal:
        return True
    if origin in (dict, list, *_UNIONS):
        return all(map(_is_plain, args))
    if typing_extensions.is_typeddict(kind):
        return all(map(_is_plain, get_type_hints(kind, include_extras=True).values()))
    return kind in _PLAIN


def _is_json(value: Any) -> bool:
    try:
        return bool(json.loads(json.dumps(value, allow_nan=False)) == value)
    except (TypeError, ValueError):
        return False


def _adapter(key: str, kind: Any) -> TypeAdapter[Any]:
    try:
        return TypeAdapter(kind)
    except Exception as error:
        name = getattr(kind, "__name__", repr(kind))
        raise ConfigurationError(
            f"its state {key!r} is a {name}, which is no JSON data and which pydantic cannot keep either"
        ) from error
