"""What a thread keeps of a turn: pure functions over lists of messages."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from langchain_core.messages import AIMessage, BaseMessage, RemoveMessage
from langgraph.graph.message import REMOVE_ALL_MESSAGES

TRANSIENT = "scallion_transient"
M = TypeVar("M", bound=BaseMessage)


def transient(message: M) -> M:
    """Mark a message that the model sees and the thread does not keep; the argument is not changed."""
    return message.model_copy(update={"additional_kwargs": {**message.additional_kwargs, TRANSIENT: True}})


def is_transient(message: BaseMessage) -> bool:
    """Whether the message is not to be kept."""
    return bool(message.additional_kwargs.get(TRANSIENT))


def with_ids(messages: Sequence[BaseMessage], taken: Sequence[BaseMessage] = ()) -> list[BaseMessage]:
    """The messages, each with an id of its own: copies of those that had none, or one that is `taken` already."""
    known = {one.id for one in taken}
    made: list[BaseMessage] = []
    for one in messages:
        keeps = one.id and (one.id not in known or one.type == "remove")
        fresh = one if keeps else one.model_copy(update={"id": uuid.uuid4().hex})
        known.add(fresh.id)
        made.append(fresh)
    return made


def shared_length(first: Sequence[BaseMessage], second: Sequence[BaseMessage]) -> int:
    """How many messages in front the two have in common."""
    for position, (one, other) in enumerate(zip(first, second, strict=False)):
        if one is not other and (one.id is None or one != other):
            return position
    return min(len(first), len(second))


def with_final(messages: Sequence[BaseMessage], final: AIMessage) -> list[BaseMessage]:
    """The sequence with `final` as its end, in the place of an answer that a filter changed or replaced."""
    if messages and messages[-1] is final:
        return list(messages)
    last = messages[-1] if messages else None
    answered = isinstance(last, AIMessage) and not last.tool_calls
    return [*(messages[:-1] if answered else messages), final]


def kept_messages(
    base: Sequence[BaseMessage],
    request: Sequence[BaseMessage],
    returned: Sequence[BaseMessage],
    final: AIMessage,
    *,
    rejected: set[str | None],
    fed: set[str | None],
    pairs: Mapping[str | None, BaseMessage],
) -> list[BaseMessage]:
    """The thread after the turn: history, request, executed calls with their results, the final message.

    `final` has an id. Rejected answers and the feedback that was `fed` back on them are dropped, as is what is
    transient. What the turn chain returned wins over what the loop made, message by message.
    """
    versions = {one.id: one for one in returned}
    known = {one.id for one in (*base, *request)}
    new = [one for one in returned if one.id not in known and one.id not in rejected and one.id not in fed]
    there = {one.id for one in new}
    missing = [one for one in pairs.values() if one.id not in there and one.id not in known]
    middle = [one for one in (*missing, *new) if one.id != final.id]
    head = [versions.get(one.id, one) for one in (*base, *request)]
    return [one for one in (*head, *middle, final) if not is_transient(one)]


def changes(before: Sequence[BaseMessage], after: Sequence[BaseMessage]) -> list[BaseMessage] | None:
    """The writes to the `messages` channel that make `after` of `before`; None where nothing changed."""
    if len(before) == len(after) and shared_length(before, after) == len(after):
        return None
    wanted = {one.id for one in after}
    stays = [one.id for one in before if one.id in wanted]
    if stays != [one.id for one in after][: len(stays)]:
        return [RemoveMessage(REMOVE_ALL_MESSAGES), *after]
    known = {one.id: one for one in before}
    gone: list[BaseMessage] = [RemoveMessage(one.id) for one in before if one.id not in wanted and one.id]
    return gone + [one for one in after if known.get(one.id) is not one]


def left_of(messages: Sequence[BaseMessage], marker: Mapping[str, Any] | None) -> list[BaseMessage]:
    """What a turn that came to no end leaves in its thread: its request, and executed calls with their results.

    `marker` is the open marker of a turn with filters around it: answers that were not returned, and the feedback on
    rejected ones, are dropped.
    """
    if marker is None:
        return [one for one in messages if not is_transient(one)]
    kept = [*messages[: marker["base_length"]], *marker["kept"]]
    known = {one.id for one in kept}
    ran = [one for one in messages if one.id not in known and (one.type == "tool" or getattr(one, "tool_calls", None))]
    return [one for one in (*kept, *ran) if not is_transient(one)]
