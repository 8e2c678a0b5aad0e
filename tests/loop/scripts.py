"""Short words for scripted turns, and what every history must be like."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.tools import BaseTool, StructuredTool

from scallion.testing import asks as asks
from scallion.testing import call as call
from scallion.testing import malformed as broken

__all__ = ["WAIT", "Log", "asks", "assert_valid", "broken", "call", "history", "results", "told"]

WAIT = 20
"""Seconds after which a test gives up on something that should happen at once."""


class Log(list[str]):
    """What took effect, in order; tools of it write here."""

    def tool(self, name: str, **marks: Any) -> BaseTool:
        """A tool that notes its text and gives it back."""

        def run(text: str = "") -> str:
            self.append(f"{name} {text}".strip())
            return f"{name} did {text}".strip()

        return StructuredTool.from_function(run, name=name, description=f"Do {name}.", **marks)


def assert_valid(messages: Sequence[BaseMessage]) -> None:
    """A provider accepts this: ids differ, each call is answered exactly once, directly behind its message."""
    ids = [one.id for one in messages]
    assert None not in ids
    assert len(set(ids)) == len(ids), "two messages have one id"
    waiting: list[str] = []
    for one in messages:
        if isinstance(one, ToolMessage):
            assert one.tool_call_id in waiting, f"a result that no call waits for: {one.tool_call_id}"
            waiting.remove(one.tool_call_id)
            continue
        assert not waiting, f"{one.type} before the results of {waiting}"
        assert not isinstance(one, SystemMessage), "a system prompt in the thread"
        if isinstance(one, AIMessage):
            asked = [str(each["id"]) for each in (*one.tool_calls, *one.invalid_tool_calls)]
            assert len(set(asked)) == len(asked), "two calls of a message have one id"
            waiting = asked
    assert not waiting, f"calls without a result: {waiting}"


def results(messages: Sequence[BaseMessage]) -> dict[str, str]:
    """The text of each tool result by the id of its call, in order."""
    return {one.tool_call_id: str(one.text) for one in messages if isinstance(one, ToolMessage)}


def told(messages: Sequence[BaseMessage]) -> list[str]:
    """The history in short: who said what."""
    short = {HumanMessage: "user", AIMessage: "model", ToolMessage: "tool", SystemMessage: "system"}
    lines = []
    for one in messages:
        calls = [each["name"] for each in one.tool_calls] if isinstance(one, AIMessage) else []
        lines.append(f"{short[type(one)]}: {', '.join(calls) or one.text}")
    return lines


def history(agent: Any, thread: str) -> list[BaseMessage]:
    """What the thread keeps."""
    values = agent.graph.get_state({"configurable": {"thread_id": thread}}).values
    return list(values.get("messages") or [])


def waited(event: threading.Event) -> None:
    """Wait for what another thread does; fails instead of hanging."""
    assert event.wait(WAIT), "nothing happened"
