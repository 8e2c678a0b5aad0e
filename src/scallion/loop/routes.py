"""Where the loop goes next: pure functions of the state."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from langgraph.graph import END
from langgraph.types import Send

from scallion.loop.state import open_calls


class Routes:
    """Fans a batch out: one task per call, or one after the other where the batch holds a serial tool."""

    def __init__(self, serial: frozenset[str]) -> None:
        self._serial = serial

    def after_chat(self, state: Mapping[str, Any]) -> Any:
        """The calls that are open, each with its own task; the end where there are none."""
        calls = open_calls(state.get("messages") or [])
        if not calls:
            return END
        if not self._serial.isdisjoint(call["name"] for call in calls):
            calls = calls[:1]
        return [Send("tool", call) for call in calls]
