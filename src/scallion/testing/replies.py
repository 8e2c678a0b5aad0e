"""What one call of a played model gives: a text, a message, chunks, structured output, an error, a stream that ends."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any
from uuid import uuid4

from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    BaseMessage,
    InvalidToolCall,
    ToolCall,
    message_chunk_to_message,
)
from langchain_core.outputs import ChatGeneration, ChatResult
from pydantic import BaseModel

from scallion.errors import ConfigurationError
from scallion.testing.pieces import ChunkSize, cut, words


def call(name: str, /, id: str | None = "c1", **args: Any) -> ToolCall:
    """A tool call of a model, with the arguments by keyword.

    `id` is that of the call; where the tool has an argument of that name: `{**call("find"), "args": {"id": 7}}`.
    """
    return {"name": name, "args": args, "id": id, "type": "tool_call"}


def malformed(name: str, id: str | None = "c1", args: str = '{"text": ') -> InvalidToolCall:
    """A tool call whose arguments are no JSON."""
    return {"name": name, "args": args, "id": id, "type": "invalid_tool_call", "error": None}


def asks(*calls: Mapping[str, Any], text: str = "", id: str | None = None) -> AIMessage:
    """The message of a model that calls tools: `asks(call("refund", order=1042))`; malformed calls too."""
    if not all(isinstance(one, Mapping) and isinstance(one.get("name"), str) for one in calls):
        raise ConfigurationError('asks takes calls of tools: asks(call("refund", order=1042))')
    good = [dict(one) for one in calls if one.get("type") != "invalid_tool_call"]
    bad = [dict(one) for one in calls if one.get("type") == "invalid_tool_call"]
    return AIMessage(text, tool_calls=good, invalid_tool_calls=bad, id=id)


class Chunks:
    """A reply that a stream delivers in exactly these pieces, texts or chunks; without streaming it is their sum."""

    def __init__(self, *pieces: str | AIMessageChunk) -> None:
        if not pieces or not all(isinstance(one, str | AIMessageChunk) for one in pieces):
            raise ConfigurationError("Chunks takes one piece or more, each a text or an AIMessageChunk")
        self.pieces = [AIMessageChunk(content=one) if isinstance(one, str) else one for one in pieces]

    def __repr__(self) -> str:
        return f"Chunks({', '.join(repr(one.content) for one in self.pieces)})"


@dataclass(frozen=True)
class BreaksOff:
    """A reply whose stream ends in `error` after `chunks` chunks; without streaming `error` is raised at once."""

    reply: str | AIMessage | Chunks
    error: Exception
    chunks: int = 1

    def __post_init__(self) -> None:
        if not isinstance(self.error, Exception):
            raise ConfigurationError(f"BreaksOff ends in an exception, not in {type(self.error).__name__}")
        if type(self.chunks) is not int or self.chunks < 0:
            raise ConfigurationError(f"BreaksOff ends after 0 chunks or more, not after {self.chunks!r}")


Reply = str | AIMessage | BaseModel | Chunks | Exception | BreaksOff
"""What one call of the model gives: a text, a message, an instance of a pydantic model (structured output), chunks, or
an exception that it raises."""

Script = Sequence[Reply | Callable[[list[BaseMessage]], Reply]] | Callable[[list[BaseMessage]], Reply]
"""Replies in order, or one function of the messages that makes every reply."""


@dataclass(frozen=True)
class Answer:
    """One reply, ready to be given whole or in pieces."""

    message: AIMessage
    pieces: Sequence[AIMessageChunk] | None = None
    breaks: BreaksOff | None = None

    def whole(self) -> ChatResult:
        """The message; raises the error of a reply that breaks off."""
        if self.breaks is not None:
            raise self.breaks.error
        return ChatResult(generations=[ChatGeneration(message=self.message)])

    def chunks(self, size: ChunkSize) -> Iterator[AIMessageChunk]:
        """The pieces of a stream; raises the error of a reply that breaks off, where it does."""
        pieces = cut(self.message, size) if self.pieces is None else iter(self.pieces)
        yield from islice(pieces, self.breaks.chunks if self.breaks else None)
        if self.breaks is not None:
            raise self.breaks.error


def answer(reply: Any, messages: Sequence[BaseMessage], tools: Sequence[Any] = ()) -> Answer:
    """The reply as an answer to these messages, which offered these tools; an exception of the script is raised."""
    if isinstance(reply, Exception):
        raise reply
    if isinstance(reply, BreaksOff):
        inner = answer(reply.reply, messages)
        return Answer(inner.message, inner.pieces, reply)
    if isinstance(reply, Chunks):
        message = _told(message_chunk_to_message(reply.pieces[0] + reply.pieces[1:]), messages)
        return Answer(message, _pieces(reply, message))
    if isinstance(reply, BaseModel) and not isinstance(reply, BaseMessage):
        reply = _structured(reply, offered(tools))
    return Answer(_told(reply, messages))


def offered(tools: Sequence[Any]) -> list[str]:
    """The names of the tools in a request, which has them in the form of OpenAI."""
    return [one["function"]["name"] for one in tools if isinstance(one, dict) and "function" in one]


def _structured(value: BaseModel, tools: Sequence[str]) -> str | AIMessage:
    """As `with_structured_output` reads it: a call of the tool of that name, or JSON where no such tool was offered."""
    name = type(value).__name__
    return asks(call(name, **json.loads(value.model_dump_json()))) if name in tools else value.model_dump_json()


def _pieces(reply: Chunks, message: AIMessage) -> list[AIMessageChunk]:
    pieces = [one.model_copy(update={"id": message.id, "chunk_position": None}) for one in reply.pieces]
    usage = None if any(one.usage_metadata for one in pieces) else message.usage_metadata
    empty: Any = "" if isinstance(message.content, str) else []
    return [*pieces, AIMessageChunk(content=empty, id=message.id, usage_metadata=usage, chunk_position="last")]


def _told(reply: Any, messages: Sequence[BaseMessage]) -> AIMessage:
    """A copy with an id and a count of words as usage: a script may give the same message twice."""
    if not isinstance(reply, str | AIMessage):
        raise ConfigurationError(
            f"a scripted reply is a text, an AIMessage, a pydantic model, Chunks or an exception, "
            f"not {type(reply).__name__}"
        )
    message = AIMessage(reply) if isinstance(reply, str) else reply.model_copy(deep=True)
    read, written = sum(map(words, messages)), words(message)
    usage = {"input_tokens": read, "output_tokens": written, "total_tokens": read + written}
    changes = {"id": message.id or f"scripted-{uuid4()}", "usage_metadata": message.usage_metadata or usage}
    return message.model_copy(update=changes)
