"""Where the loop goes next: pure functions of the state."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from langchain_core.messages import ToolMessage
from langchain_core.runnables import RunnableConfig
from langgraph.graph import END
from langgraph.types import Send

from scallion.history import open_calls

OUTSIDE = "__scallion_outside"
"""In the config of what is written from outside of the nodes: it begins nothing."""


class Routes:
    """Fans a batch out: one task per call, or one after the other where the batch holds a serial tool."""

    def __init__(self, serial: frozenset[str]) -> None:
        self._serial = serial

    def after_chat(self, state: Mapping[str, Any], config: RunnableConfig) -> Any:
        """The calls that are open, each with its own task; the end where there are none.

        Where filters have answered all calls themselves, the model reads the results next; not where they were answered
        to end a turn.
        """
        messages = state.get("messages") or []
        calls = open_calls(messages)
        if not calls:
            ends = config["configurable"].get(OUTSIDE) or not messages
            return "chat" if not ends and isinstance(messages[-1], ToolMessage) else END
        if not self._serial.isdisjoint(call["name"] for call in calls):
            calls = calls[:1]
        return [Send("tool", call) for call in calls]
