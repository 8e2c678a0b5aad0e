"""A whole message cut into the chunks that a provider would stream."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, Literal

from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage
from langchain_core.messages.tool import tool_call_chunk

ChunkSize = int | Literal["word"]
"""Characters in a chunk, or a word with the space behind it."""

_GROWING = ("text", "reasoning", "thinking")
"""Fields of content blocks that arrive in pieces."""


def words(message: BaseMessage) -> int:
    """How many words a message has, tool calls counted by their name and arguments."""
    calls = message.tool_calls if isinstance(message, AIMessage) else []
    return len(message.text.split()) + sum(1 + len(json.dumps(call["args"], default=str).split()) for call in calls)


def cut(message: AIMessage, size: ChunkSize) -> Iterator[AIMessageChunk]:
    """The chunks whose sum is the message: content first, then tool calls, then what is said about the whole.

    All have the id of the message. Blocks get an `index`, by which chunks are put together.
    """
    for content in _contents(message.content, size):
        yield AIMessageChunk(content=content, id=message.id)
    for call in _calls(message, size):
        yield AIMessageChunk(content=_nothing(message), tool_call_chunks=[call], id=message.id)
    yield AIMessageChunk(
        content=_nothing(message),
        id=message.id,
        name=message.name,
        additional_kwargs=message.additional_kwargs,
        response_metadata=message.response_metadata,
        usage_metadata=message.usage_metadata,
        chunk_position="last",
    )


def _nothing(message: AIMessage) -> str | list[Any]:
    return "" if isinstance(message.content, str) else []


def _contents(content: str | list[Any], size: ChunkSize) -> Iterator[Any]:
    if isinstance(content, str):
        yield from _split(content, size)
        return
    for index, block in enumerate(content):
        yield from ([part] for part in _block(block, index, size))


def _block(block: Any, index: int, size: ChunkSize) -> Iterator[Any]:
    """The block in pieces: the first has its other fields, the others continue it by index."""
    if not isinstance(block, dict):
        yield block
        return
    index = block.get("index", index)
    field = next((name for name in _GROWING if isinstance(block.get(name), str)), None)
    if field is None:
        yield {**block, "index": index}
        return
    first, *others = _split(block[field], size) or [""]
    yield {**block, field: first, "index": index}
    for text in others:
        yield {"type": block["type"], field: text, "index": index}


def _calls(message: AIMessage, size: ChunkSize) -> Iterator[Any]:
    calls = [(call, json.dumps(call["args"])) for call in message.tool_calls]
    broken = [(call, call["args"] or "") for call in message.invalid_tool_calls]
    for index, (call, args) in enumerate([*calls, *broken]):
        yield tool_call_chunk(name=call["name"], args="", id=call["id"], index=index)
        for text in _split(args, size):
            yield tool_call_chunk(args=text, index=index)


def _split(text: str, size: ChunkSize) -> list[str]:
    if size == "word":
        return re.findall(r"\s*\S+\s*|\s+", text)
    return [text[start : start + size] for start in range(0, len(text), size)]
