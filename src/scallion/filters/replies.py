"""Replies: what a hook returned, what a filter gives without the chain inside, and replies with another content."""

from __future__ import annotations

import inspect
import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, SystemMessage, ToolMessage

from scallion.values import ChatReply, ChatRequest, Completed, ToolFailure, ToolReply, ToolRequest, TurnRequest

Content = str | list[Any] | BaseMessage
ENDED = "ended_by_filter"
ENDS = "not run: the turn ends here"
"""What a call is answered with whose hook ended the turn."""


class BadReply(TypeError):
    """What was given to us is of no use: a reply, a verdict; the text says what it was, and quotes nothing of it."""


def reason(error: BaseException) -> str:
    """What an error that wraps this one may say: the text where it is ours, as others may quote what they failed on."""
    return str(error) if type(error) is BadReply else type(error).__name__


def taken(
    out: Any, expected: type[Any], message: type[Any], asynchronous: bool
) -> tuple[Any, Mapping[str, Any] | None]:
    """The reply and the update in what a hook returned."""
    update = None
    if type(out) is tuple and len(out) == 2:
        out, update = out
        if not isinstance(update, Mapping):
            raise BadReply(f"beside its reply it returned {type(update).__name__}, not a mapping")
    if inspect.iscoroutine(out):
        out.close()
        raise BadReply(
            "it returned a coroutine: " + ("await next(request)" if asynchronous else "make it an async def")
        )
    if not isinstance(out, expected):
        raise BadReply(f"it returned {type(out).__name__} instead of {expected.__name__}")
    if not isinstance(out.message, message):
        raise BadReply(f"the message of its reply is {type(out.message).__name__} instead of {message.__name__}")
    if isinstance(out, Completed) and (out.message.tool_calls or out.message.invalid_tool_calls):
        raise BadReply("the answer of a turn makes no tool calls: nothing would run them")
    return out, update


def instead(request: Any, content: Content) -> Any:
    """The reply with this content that the chain gives to `request`, although nothing inside ran."""
    match request:
        case TurnRequest():
            answer = spoken(content)
            return Completed(answer, [*request.messages, answer])
        case ChatRequest():
            return ChatReply(content if isinstance(content, AIMessage) else spoken(content), request.context)
        case ToolRequest():
            call = request.call
            return ToolReply(ToolMessage(body(content), tool_call_id=call["id"], name=call["name"]))
    raise TypeError(f"{type(request).__name__} is no request")


def with_answer(reply: Any, content: Content) -> Any:
    """The reply with another content; a model's message keeps its tool calls, unless a whole message is given."""
    match reply:
        case Completed():
            return reply.replace(message=without_calls(reply.message, content), parsed=None)
        case ChatReply(message=message):
            whole = content if isinstance(content, AIMessage) else message
            return reply.replace(message=whole.model_copy(update={"content": body(content), "id": message.id}))
    return reply.replace(message=reply.message.model_copy(update={"content": body(content)}))


def spoken(content: Content) -> AIMessage:
    """The content as a message of the model that calls no tools."""
    return without_calls(content if isinstance(content, AIMessage) else AIMessage(""), content)


def without_calls(message: AIMessage, content: Content) -> AIMessage:
    """The message with another content and without tool calls; id and usage stay."""
    none: dict[str, Any] = {"tool_calls": [], "invalid_tool_calls": [], "additional_kwargs": {}}
    return message.model_copy(update={**none, "content": body(content)})


def final(message: AIMessage) -> AIMessage:
    """The message with the mark that a filter ended the turn with it: a check that fails does not ask again."""
    return message.model_copy(update={"response_metadata": {**message.response_metadata, ENDED: True}})


def is_ended(message: BaseMessage) -> bool:
    """Whether a filter ended the turn with this message."""
    return bool(message.response_metadata.get(ENDED))


def ends(message: AIMessage) -> set[str]:
    """How the model call ended, in small letters, under the names that providers have for it."""
    names = ("finish_reason", "stop_reason", "stopReason", "done_reason", "status")
    return {str(message.response_metadata.get(name, "")).lower() for name in names}


def not_run(request: ToolRequest) -> ToolReply:
    """What a call gives whose hook ended the turn."""
    message = instead(request, ENDS).message.model_copy(update={"status": "error"})
    return ToolReply(message, error=ToolFailure("semantic"))


def body(content: Content) -> str | list[Any]:
    """The content of a message, or the content itself."""
    return content.content if isinstance(content, BaseMessage) else content


def normalised(message: AIMessage, history: Sequence[BaseMessage]) -> AIMessage:
    """The message as it is stored: an id of its own, and tool calls whose ids are there and differ.

    A model that repeats a message id would replace the earlier message, so such an id is made anew.
    """
    changes: dict[str, Any] = {}
    if message.id is None or any(known.id == message.id for known in reversed(history)):
        changes["id"] = uuid.uuid4().hex
    seen: set[str] = set()
    calls = [_with_own_id(dict(call), seen) for call in message.tool_calls]
    broken = [_with_own_id(dict(call), seen) for call in message.invalid_tool_calls]
    if calls != message.tool_calls:
        changes["tool_calls"] = calls
    if broken != message.invalid_tool_calls:
        changes["invalid_tool_calls"] = broken
    return message.model_copy(update=changes) if changes else message


def _with_own_id(call: dict[str, Any], seen: set[str]) -> dict[str, Any]:
    wanted = call.get("id") or uuid.uuid4().hex
    name, number = wanted, 1
    while name in seen:
        number += 1
        name = f"{wanted}_{number}"
    seen.add(name)
    return call if call.get("id") == name else {**call, "id": name}


def with_system(messages: Sequence[BaseMessage], given: Sequence[SystemMessage]) -> list[BaseMessage]:
    """The messages with one system message in front: the given ones, then what led the messages."""
    lead = 0
    while lead < len(messages) and isinstance(messages[lead], SystemMessage):
        lead += 1
    prompts = [*given, *messages[:lead]]
    if len(prompts) < 2:
        return [*prompts, *messages[lead:]]
    return [_merged(prompts), *messages[lead:]]


def _merged(prompts: Sequence[BaseMessage]) -> SystemMessage:
    if all(isinstance(prompt.content, str) for prompt in prompts):
        return SystemMessage("\n\n".join(str(prompt.content) for prompt in prompts))
    blocks: list[Any] = []
    for prompt in prompts:
        content = prompt.content
        blocks += [{"type": "text", "text": content}] if isinstance(content, str) else content
    return SystemMessage(blocks)
