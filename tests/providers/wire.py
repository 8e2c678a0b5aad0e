"""The wire formats: whose events these are, their frames, and the body that is sent without streaming."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

Protocol = Literal["chat", "responses", "messages"]
Event = Mapping[str, Any]


def protocol_of(events: Sequence[Event]) -> Protocol:
    """Which API speaks these events."""
    kind = events[0].get("type", "")
    if kind.startswith("response."):
        return "responses"
    return "messages" if kind else "chat"


def as_sse(events: Sequence[Event], cut: int | None = None) -> Iterator[bytes]:
    """The frames of the stream; a stream that is cut has no end mark."""
    protocol = protocol_of(events)
    for event in events[:cut]:
        name = f"event: {event['type']}\n" if protocol != "chat" else ""
        yield f"{name}data: {json.dumps(event)}\n\n".encode()
    if protocol == "chat" and cut is None:
        yield b"data: [DONE]\n\n"


def as_body(events: Sequence[Event]) -> dict[str, Any]:
    """What the provider sends for the same answer to a request that does not stream."""
    return {"chat": _chat_body, "responses": _responses_body, "messages": _messages_body}[protocol_of(events)](events)


def text_of(events: Sequence[Event]) -> str:
    """The text deltas on the wire, joined."""
    match protocol_of(events):
        case "chat":
            pieces = [choice["delta"].get("content") for event in events for choice in event["choices"]]
        case "responses":
            pieces = [event["delta"] for event in events if event["type"] == "response.output_text.delta"]
        case "messages":
            deltas = [event["delta"] for event in events if event["type"] == "content_block_delta"]
            pieces = [delta.get("text") for delta in deltas]
    return "".join(piece or "" for piece in pieces)


def calls_of(events: Sequence[Event]) -> list[tuple[str, Any]]:
    """The calls of tools that the caller is to run: name and arguments."""
    body = as_body(events)
    match protocol_of(events):
        case "chat":
            functions = [call["function"] for call in body["choices"][0]["message"].get("tool_calls", ())]
            return [(call["name"], json.loads(call["arguments"] or "{}")) for call in functions]
        case "responses":
            items = [item for item in body["output"] if item["type"] in ("function_call", "custom_tool_call")]
            return [(item["name"], _arguments(item)) for item in items]
    return [(block["name"], block["input"]) for block in body["content"] if block["type"] == "tool_use"]


def _arguments(item: Event) -> Any:
    """A custom tool takes one text, which the client calls `__arg1`."""
    return {"__arg1": item["input"]} if "input" in item else json.loads(item["arguments"] or "{}")


def _chat_body(events: Sequence[Event]) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": None}
    calls: dict[int, dict[str, Any]] = {}
    body: dict[str, Any] = {}
    reason = None
    for event in events:
        body |= {key: value for key, value in event.items() if key not in ("choices", "obfuscation") and value}
        for choice in event["choices"]:
            reason = choice.get("finish_reason") or reason
            _fold_delta(message, calls, choice["delta"])
    if calls:
        message["tool_calls"] = [calls[index] for index in sorted(calls)]
    body["object"] = "chat.completion"
    body["choices"] = [{"index": 0, "message": message, "finish_reason": reason}]
    return body


def _fold_delta(message: dict[str, Any], calls: dict[int, dict[str, Any]], delta: Event) -> None:
    for key in ("content", "refusal", "reasoning_content"):
        if delta.get(key):
            message[key] = (message.get(key) or "") + delta[key]
    for piece in delta.get("tool_calls") or ():
        blank = {"id": None, "type": "function", "function": {"name": "", "arguments": ""}}
        call = calls.setdefault(piece["index"], blank)
        call["id"] = call["id"] or piece.get("id")
        for key, value in piece.get("function", {}).items():
            call["function"][key] += value or ""


def _responses_body(events: Sequence[Event]) -> dict[str, Any]:
    last = events[-1]["response"]
    items = {e["output_index"]: e["item"] for e in events if e["type"] == "response.output_item.done"}
    return {**last, "output": [items[index] for index in sorted(items)]}


def _messages_body(events: Sequence[Event]) -> dict[str, Any]:
    body: dict[str, Any] = {}
    blocks: dict[int, dict[str, Any]] = {}
    pieces: dict[int, str] = {}
    for event in events:
        match event["type"]:
            case "message_start":
                body = body or dict(event["message"])
            case "content_block_start":
                blocks[event["index"]] = dict(event["content_block"])
            case "content_block_delta":
                _fold_block(blocks[event["index"]], pieces, event)
            case "message_delta":
                body |= event["delta"]
                body["usage"] = {**body["usage"], **event["usage"]}
    for index, text in pieces.items():
        blocks[index]["input"] = json.loads(text or "{}")
    return {**body, "content": [blocks[index] for index in sorted(blocks)]}


def _fold_block(block: dict[str, Any], pieces: dict[int, str], event: Event) -> None:
    delta = event["delta"]
    match delta["type"]:
        case "text_delta":
            block["text"] += delta["text"]
        case "thinking_delta":
            block["thinking"] = block.get("thinking", "") + delta["thinking"]
        case "signature_delta":
            block["signature"] = delta["signature"]
        case "input_json_delta":
            pieces[event["index"]] = pieces.get(event["index"], "") + delta["partial_json"]
        case "citations_delta":
            block["citations"] = [*(block.get("citations") or ()), delta["citation"]]
