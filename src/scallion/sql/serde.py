"""The strict serializer: only allow-listed types are rebuilt, and a blocked one is an error."""

from __future__ import annotations

from threading import local
from typing import Any

from langgraph.checkpoint.serde.event_hooks import SerdeEvent, register_serde_event_listener
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from scallion.errors import TypeBlocked

_reading = local()


class StrictSerializer(JsonPlusSerializer):
    """LangGraph's msgpack serializer with an allow-list; `with_allowlist` of the saver extends it.

    LangGraph hands over a value of a blocked type as a plain dict. Here it raises TypeBlocked, which names the type.
    """

    def __init__(self, allowed: Any = None) -> None:
        super().__init__(allowed_msgpack_modules=allowed, pickle_fallback=False)

    def loads_typed(self, data: tuple[str, bytes]) -> Any:
        """The value; raises TypeBlocked."""
        if data[0] != "msgpack":
            return super().loads_typed(data)
        _reading.blocked = None
        try:
            value = super().loads_typed(data)
            if _reading.blocked is None:
                return value
            raise TypeBlocked(
                f"a stored value is of type {_reading.blocked}, which is not on the allow-list: set "
                "LANGGRAPH_STRICT_MSGPACK=true so that LangGraph lists the types of its graphs, or pass "
                "serde=JsonPlusSerializer(allowed_msgpack_modules=[...])"
            )
        finally:
            _reading.blocked = None


def _blocked(event: SerdeEvent) -> None:
    if event["kind"] in ("msgpack_blocked", "msgpack_method_blocked"):
        _reading.blocked = f"{event['module']}.{event['name']}"


register_serde_event_listener(_blocked)
