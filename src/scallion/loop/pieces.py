"""Reading the pieces of one answer: events while they come, and the whole message at the end."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, cast

from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    InvalidToolCall,
    ToolCall,
    message_chunk_to_message,
)

from scallion.bridge import spawn
from scallion.errors import ModelError
from scallion.events import ModelStarted, Reasoning, ToolCallDelta
from scallion.filters.masking import NONE, Masks, Rest
from scallion.loop.invocation import Invocation


class Stream:
    """Reads the pieces of one answer: passes them on as events and puts them together at the end."""

    def __init__(self, here: Invocation, masks: Masks = NONE) -> None:
        self._masks = masks
        self._mask = masks.stream()
        self._emit = here.emit or (lambda event: None)
        self._delivery = here.delivery
        self._add = here.delivery.add if here.delivery is not None else self._emit
        self._chunks: list[AIMessageChunk] = []
        self._whole: AIMessage | None = None
        self._call = ""
        self._given = ""
        """What was given of a masked text."""
        self._last: tuple[Any, str] = (None, "")
        """The text block that was read last, by its index, and its last character."""
        self._waits = False

    def read(self, chunks: Any) -> None:
        self._begin()
        for chunk in chunks:
            self._take(chunk)

    async def aread(self, chunks: Any) -> None:
        self._begin()
        may_wait = self._delivery is not None and self._delivery.may_wait
        async for chunk in chunks:
            if may_wait:
                await spawn(self._take, chunk)
            else:
                self._take(chunk)

    def message(self) -> AIMessage:
        """The whole message; raises ModelError where the stream ended before its end."""
        if not self._chunks and self._whole is None:
            raise ModelError("transient", "the model failed: its stream was empty")
        whole = self._whole or self._masks.reply(assembled(self._chunks))
        if self._whole is None:
            rest = self._mask.end()
            if self._waits:  # where it does not go on from there, all of it is given again
                given, rest.text = self._given, ""
                if (text := str(whole.text)).startswith(given):
                    rest.text = text[len(given) :]
            self._rest(rest)
        usage = cast("Mapping[str, Any]", whole.usage_metadata or {})
        if self._delivery is not None:
            self._delivery.end()
            self._delivery.tell_end(whole, usage)
        return whole

    def _begin(self) -> None:
        self._chunks.clear()
        self._whole = None
        self._mask = self._masks.stream()
        self._given, self._last, self._waits = "", (None, ""), False
        if self._delivery is not None:
            self._call = self._delivery.begin()
        self._emit(ModelStarted(self._call))

    def _take(self, chunk: AIMessage) -> None:
        if not isinstance(chunk, AIMessageChunk):
            self._take_whole(chunk)
            return
        self._chunks.append(chunk)
        mask = self._mask
        if (thought := reasoning(chunk)) and (thought := mask.reasoning(thought)):
            self._add(Reasoning(thought, {}, self._call))
        if self._delivery is not None and (text := str(chunk.text)) and (text := self._masked(chunk, text)):
            self._delivery.push(text)
        for delta in chunk.tool_call_chunks:
            args = delta["args"] and mask.args(delta.get("index"), delta["args"])
            name = delta["name"] and self._masks.value(delta["name"], "tool_args")
            if args or name or not delta["args"]:
                self._add(ToolCallDelta(self._call, delta.get("index"), delta["id"], name, args))

    def _masked(self, chunk: AIMessageChunk, text: str) -> str:
        """What may leave of the text. Masks read blocks one by one, too: behind one that ends in a word, all waits."""
        if not self._masks:
            return text
        if isinstance(chunk.content, list):
            index = next((one["index"] for one in chunk.content if isinstance(one, dict) and "index" in one), None)
            before, border = self._last
            self._waits = self._waits or (index != before and bool(border.strip() and text[0].strip()))
            self._last = index, text[-1]
        left = "" if self._waits else self._mask.text(text)
        self._given += left
        return left

    def _rest(self, rest: Rest) -> None:
        """What was held back: the answer is whole."""
        if rest.reasoning:
            self._add(Reasoning(rest.reasoning, {}, self._call))
        if rest.text and self._delivery is not None:
            self._delivery.push(rest.text)
        for index, args in rest.args.items():
            self._add(ToolCallDelta(self._call, index, None, None, args))

    def _take_whole(self, message: AIMessage) -> None:
        """A model that cannot stream gives its message in one piece."""
        self._whole = message = self._masks.reply(message)
        if self._delivery is not None and (text := str(message.text)):
            self._delivery.push(text)
        for index, call in enumerate(message.tool_calls):
            self._add(ToolCallDelta(self._call, index, call["id"], call["name"], json.dumps(call["args"])))


def reasoning(chunk: AIMessageChunk) -> str:
    """The piece of reasoning in a chunk, in any of the forms that clients of providers use."""
    if isinstance(chunk.content, str):
        return str(chunk.additional_kwargs.get("reasoning_content") or "") if chunk.additional_kwargs else ""
    blocks: list[Any] = list(chunk.content_blocks) if chunk.content else []
    return "".join(block.get("reasoning") or "" for block in blocks if block.get("type") == "reasoning")


def assembled(chunks: Sequence[AIMessageChunk]) -> AIMessage:
    """The message that the chunks make. Arguments that are not whole JSON make a malformed call, never a guessed one.

    Merging repairs half JSON (`{"order": 10` of 1042), and a connection that is closed early looks like a normal end:
    only the provider's own end mark tells.
    """
    merged = chunks[0] + list(chunks[1:])
    meta = merged.response_metadata
    if meta.get("model_provider") in ("openai", "anthropic") and not any(
        meta.get(mark) for mark in ("finish_reason", "stop_reason", "status")
    ):
        raise ModelError("transient", "the model failed: its stream ended early")
    indices = [part.get("index") for part in merged.tool_call_chunks if part.get("index") is not None]
    if len(indices) != len(set(indices)):
        raise ModelError("transient", "the model failed: its stream started twice")
    message = _without_empty_texts(cast("AIMessage", message_chunk_to_message(merged)))
    parsed = [(part, _json_object(part["args"])) for part in merged.tool_call_chunks]
    if all(args is not None for _, args in parsed):
        return message
    good = [
        ToolCall(name=p["name"] or "", args=args, id=p["id"], type="tool_call")
        for p, args in parsed
        if args is not None
    ]
    bad = [
        InvalidToolCall(name=p["name"], args=p["args"], id=p["id"], error=None, type="invalid_tool_call")
        for p, args in parsed
        if args is None
    ]
    return message.model_copy(update={"tool_calls": good, "invalid_tool_calls": bad})


def _without_empty_texts(message: AIMessage) -> AIMessage:
    """Merging leaves empty texts between blocks, which providers refuse when they are sent back."""
    if not isinstance(message.content, list) or "" not in message.content:
        return message
    return message.model_copy(update={"content": [block for block in message.content if block != ""]})


def _json_object(text: str | None) -> dict[str, Any] | None:
    try:
        value = json.loads(text or "{}")
    except ValueError:
        return None
    return value if isinstance(value, dict) else None
