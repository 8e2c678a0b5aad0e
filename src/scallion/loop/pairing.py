"""Calls and results in the form that a provider takes: right in front of a model call, whatever came of the history.

Filters edit it, and it comes from outside: as input, from another program, from a graph of one's own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, ToolMessage

from scallion.history import calls_of

LOST = "the conversation holds no result of this call; whether it took effect is not known"
ANSWER, RESULT = ("ai", "AIMessageChunk"), ("tool", "ToolMessageChunk")
Asked = tuple[int, str]
"""A call, by the place of its message and its id: ids come again."""


def paired(messages: list[BaseMessage]) -> list[BaseMessage]:
    """The messages, with one result of each call right behind the message that makes it, and no others.

    A result is of the last call with its id before it, or else of another one that has none. A call without any is
    answered that nothing is known of it, so that the model does not take it for one to make again.
    """
    if _is_paired(messages):
        return messages
    given = _given(messages)
    made: list[BaseMessage] = []
    for place, one in enumerate(messages):
        if not isinstance(one, ToolMessage):
            calls = _calls(one)
            made += [one, *(given.get((place, id)) or _lost(calls[id]) for id in calls)]
    return made


def _is_paired(messages: Sequence[Any]) -> bool:
    """Whether they are in that form already; by `type`, as asking for the class takes long."""
    waiting: list[str | None] = []
    for one in messages:
        kind = one.type
        if kind in RESULT:
            if one.tool_call_id not in waiting:
                return False
            waiting.remove(one.tool_call_id)
        elif waiting:
            return False
        elif kind in ANSWER and (one.tool_calls or one.invalid_tool_calls):
            waiting = [call["id"] for call in (*one.tool_calls, *one.invalid_tool_calls)]
    return not waiting


def _given(messages: Sequence[BaseMessage]) -> dict[Asked, ToolMessage]:
    """The result of each call that has one; the first of several."""
    last: dict[str, int] = {}
    calls: list[Asked] = []
    given: dict[Asked, ToolMessage] = {}
    strays: dict[str, list[ToolMessage]] = {}
    for place, one in enumerate(messages):
        if isinstance(one, ToolMessage):
            asked = (last.get(one.tool_call_id, -1), one.tool_call_id)
            if asked[0] < 0 or given.setdefault(asked, one) is not one:
                strays.setdefault(one.tool_call_id, []).append(one)
        else:
            calls += [(place, id) for id in _calls(one)]
            last |= dict.fromkeys(_calls(one), place)
    for asked in calls:
        if asked not in given and strays.get(asked[1]):
            given[asked] = strays[asked[1]].pop(0)
    return given


def _calls(message: BaseMessage) -> dict[str, dict[str, Any]]:
    """The calls of a message by their ids; one without an id cannot be answered."""
    calls = calls_of(message) if isinstance(message, AIMessage) else []
    return {one["id"]: one for one in calls if one["id"] is not None}


def _lost(call: Mapping[str, Any]) -> ToolMessage:
    return ToolMessage(LOST, tool_call_id=call["id"], name=call["name"] or None, status="error")
