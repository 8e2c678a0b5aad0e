"""What a provider demands of the history that it is sent, whatever its protocol."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

Item = tuple[str, Any]
"""("system" | "user" | "assistant" | "text" | "call" | "result" | "reasoning" | a provider's own, call id or content).

"assistant" is the start of a message of the model, in the protocols that have such messages.
"""


def items_of(body: Mapping[str, Any]) -> list[Item]:
    """The history of a request as a flat list in the order in which the model reads it."""
    if "input" in body:
        return list(_responses(body))
    return list(_messages(body)) if "max_tokens" in body else list(_chat(body))


def assert_valid(body: Mapping[str, Any]) -> None:
    """Each call is answered exactly once, directly behind it; the one system message stands in front."""
    open_calls: set[str] = set()
    seen: set[str] = set()
    for place, (kind, content) in enumerate(items_of(body)):
        if kind == "call":
            assert content not in seen, f"call {content} twice"
            seen.add(content)
            open_calls.add(content)
        elif kind == "result":
            assert content in open_calls, f"a result without an open call: {content}"
            open_calls.remove(content)
        elif kind in ("system", "user", "assistant"):
            assert not open_calls, f"{kind} before the results of {open_calls}"
        assert kind != "system" or place == 0, "a system message behind the front"
    assert not open_calls, f"calls without a result: {open_calls}"


def results_of(body: Mapping[str, Any]) -> list[str]:
    return [content for kind, content in items_of(body) if kind == "result"]


def users_of(body: Mapping[str, Any]) -> list[str]:
    return [content for kind, content in items_of(body) if kind == "user"]


def _chat(body: Mapping[str, Any]) -> Iterator[Item]:
    for message in body["messages"]:
        match message["role"]:
            case "assistant":
                yield "assistant", None
                if message.get("content"):
                    yield "text", message["content"]
                yield from (("call", call["id"]) for call in message.get("tool_calls") or ())
            case "tool":
                yield "result", message["tool_call_id"]
            case role:
                yield role, message["content"]


def _responses(body: Mapping[str, Any]) -> Iterator[Item]:
    for item in body["input"]:
        match item.get("type", "message"):
            case "function_call" | "custom_tool_call":
                yield "call", item["call_id"]
            case "function_call_output" | "custom_tool_call_output":
                yield "result", item["call_id"]
            case "reasoning":
                yield "reasoning", item
            case "message":
                yield "text" if item["role"] == "assistant" else item["role"], item["content"]
            case kind:
                yield kind, item


def _messages(body: Mapping[str, Any]) -> Iterator[Item]:
    if body.get("system"):
        yield "system", body["system"]
    for message in body["messages"]:
        content = message["content"]
        if message["role"] == "assistant":
            yield "assistant", None
        for block in [{"type": "text", "text": content}] if isinstance(content, str) else content:
            match block["type"]:
                case "tool_use":
                    yield "call", block["id"]
                case "tool_result":
                    yield "result", block["tool_use_id"]
                case "thinking" | "redacted_thinking":
                    yield "reasoning", block
                case "text":
                    yield "user" if message["role"] == "user" else "text", block["text"]
                case kind:
                    yield kind, block
