"""What a thread keeps of a turn, and which calls of its last batch are open: pure functions over lists of messages."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from langchain_core.messages import AIMessage, BaseMessage, RemoveMessage, ToolCall, ToolMessage
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
    transient. What the turn chain returned wins over what the loop made, message by message; what it left out of
    `pairs` stands where it stood among them.
    """
    versions = {one.id: one for one in returned}
    known = {one.id for one in (*base, *request)}
    new = [one for one in returned if one.id not in known and one.id not in rejected and one.id not in fed]
    there = {one.id for one in new}
    ran = [one for one in pairs.values() if one.id not in known]
    middle = [one for one in edited(ran, [one for one in ran if one.id in there], new) if one.id != final.id]
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


def edited(
    stored: Sequence[BaseMessage], shown: Sequence[BaseMessage], now: Sequence[BaseMessage]
) -> list[BaseMessage]:
    """What becomes of `stored` where somebody who was shown `shown` of it made that `now`; all have ids.

    What was shown and is not stored stays out of it; what is stored and was not shown stays in its place.
    """
    had, known = {one.id: one for one in shown}, {one.id: one for one in stored}
    made: list[BaseMessage] = []
    for one in now:
        if one.id in known:
            before = had.get(one.id)
            made.append(known[one.id] if one is before or one == before else one)
        elif one.id not in had:
            made.append(one)
    places = {one.id: place for place, one in enumerate(made)}
    after = -1  # the place in `made` that what was not shown comes behind
    hidden: dict[int, list[BaseMessage]] = {}
    for one in stored:
        if one.id in had:
            after = places.get(one.id, after)
        elif one.id not in places:
            hidden.setdefault(after, []).append(one)
    if not hidden:
        return made
    parts = [hidden.get(-1, []), *([one, *hidden.get(place, ())] for place, one in enumerate(made))]
    return [one for part in parts for one in part]


def parted(messages: Sequence[BaseMessage]) -> tuple[Sequence[BaseMessage], Sequence[BaseMessage]]:
    """The history before the turn that is under way, and its request, where no marker tells them."""
    end = _back(messages, len(messages), said_by_agent=True)
    start = _back(messages, end, said_by_agent=False)
    return messages[:start], messages[start:end]


def _back(messages: Sequence[BaseMessage], end: int, *, said_by_agent: bool) -> int:
    while end and (messages[end - 1].type in ("ai", "tool")) == said_by_agent:
        end -= 1
    return end


def last_batch(messages: list[BaseMessage]) -> tuple[AIMessage | None, list[ToolMessage]]:
    """The last message of the model and the tool results behind it; None where something else came after it."""
    results: list[ToolMessage] = []
    for message in reversed(messages):
        if isinstance(message, ToolMessage):
            results.append(message)
        elif isinstance(message, AIMessage):
            return message, results[::-1]
        else:
            return None, []
    return None, []


def calls_of(message: AIMessage) -> list[dict[str, Any]]:
    """All tool calls of a message in order; a malformed one has `invalid` and no arguments."""
    calls: list[dict[str, Any]] = [dict(call) for call in message.tool_calls]
    for broken in message.invalid_tool_calls:
        call = ToolCall(name=broken.get("name") or "", args={}, id=broken.get("id"), type="tool_call")
        calls.append({**call, "invalid": True})
    return calls


def open_calls(messages: list[BaseMessage]) -> list[dict[str, Any]]:
    """The calls of the last batch that have no result yet."""
    message, results = last_batch(messages)
    if message is None:
        return []
    answered = {result.tool_call_id for result in results}
    return [call for call in calls_of(message) if call["id"] not in answered]


def position(state: Mapping[str, Any], call_id: Any, tool: str | None = None) -> int:
    """How many open calls of the last batch come before this one, of all tools or of the one of that name."""
    waiting = [one["id"] for one in open_calls(state["messages"]) if tool is None or one["name"] == tool]
    return waiting.index(call_id) if call_id in waiting else 0
