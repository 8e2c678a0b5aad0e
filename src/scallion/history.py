"""What a thread keeps of a turn: pure functions over lists of messages."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from typing import TypeVar

from langchain_core.messages import AIMessage, BaseMessage, ToolMessage

TRANSIENT = "scallion_transient"
M = TypeVar("M", bound=BaseMessage)


def transient(message: M) -> M:
    """Mark a message that the model sees and the thread does not keep; the argument is not changed."""
    return message.model_copy(update={"additional_kwargs": {**message.additional_kwargs, TRANSIENT: True}})


def is_transient(message: BaseMessage) -> bool:
    """Whether the message is not to be kept."""
    return bool(message.additional_kwargs.get(TRANSIENT))


def with_ids(messages: Sequence[BaseMessage]) -> list[BaseMessage]:
    """The messages, each with an id: copies of those that had none."""
    return [one if one.id else one.model_copy(update={"id": uuid.uuid4().hex}) for one in messages]


def shared_length(first: Sequence[BaseMessage], second: Sequence[BaseMessage]) -> int:
    """How many messages in front the two have in common."""
    for position, (one, other) in enumerate(zip(first, second, strict=False)):
        if one is not other and (one.id is None or one != other):
            return position
    return min(len(first), len(second))


def kept_messages(
    *,
    base: Sequence[BaseMessage],
    request: Sequence[BaseMessage],
    returned: Sequence[BaseMessage],
    final: AIMessage,
    rejected: set[str | None],
    fed: set[str | None],
    pairs: Mapping[str | None, BaseMessage],
) -> list[BaseMessage]:
    """The thread after the turn: history, request, executed calls with their results, the final message.

    Rejected answers and the feedback that was `fed` back on them are dropped, as is what is transient. What the turn
    chain returned wins over what the loop made, message by message.
    """
    versions = {one.id: one for one in returned}
    known = {one.id for one in (*base, *request)}
    new = [one for one in returned if one.id not in known and one.id not in rejected and one.id not in fed]
    there = {one.id for one in new}
    missing = [one for one in pairs.values() if one.id not in there and one.id not in known]
    middle = [one for one in (*missing, *new) if one.id != final.id]
    head = [versions.get(one.id, one) for one in (*base, *request)]
    final_one = final if final.id else final.model_copy(update={"id": uuid.uuid4().hex})
    return [one for one in (*head, *middle, final_one) if not is_transient(one)]


def unanswered(messages: Sequence[BaseMessage]) -> list[str]:
    """The ids of tool calls, anywhere in the history, that no result answers."""
    answered = {one.tool_call_id for one in messages if isinstance(one, ToolMessage)}
    asked = [call["id"] for one in messages if isinstance(one, AIMessage) for call in one.tool_calls]
    return [one for one in asked if one and one not in answered]
