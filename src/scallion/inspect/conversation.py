"""A conversation as plain data, and as it is read in a terminal."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from scallion.inspect.escape import one_line, printable

if TYPE_CHECKING:
    from rich.console import RenderableType

SPEAKERS = {"human": "user", "ai": "assistant", "system": "system", "tool": "tool"}


def message_data(message: Any) -> dict[str, Any]:
    """The message, of a LangChain class or any form that LangGraph takes, as plain data with the same keys always."""
    read = _reader(message)
    role = read("type") or read("role") or "unknown"
    calls = [{key: call.get(key) for key in ("id", "name", "args")} for call in read("tool_calls") or []]
    return {
        "role": SPEAKERS.get(role, role),
        "content": read("content"),
        "name": read("name"),
        "tool_calls": calls,
        "tool_call_id": read("tool_call_id"),
        "status": read("status") if role == "tool" else None,
        "id": read("id"),
    }


def _reader(message: Any) -> Callable[[str], Any]:
    if isinstance(message, str):
        message = {"role": "user", "content": message}
    elif isinstance(message, tuple) and len(message) == 2:
        message = {"role": message[0], "content": message[1]}
    return message.get if isinstance(message, Mapping) else lambda name: getattr(message, name, None)


def text_of(content: Any) -> str:
    """The readable part of a message's content; other blocks are named by their type."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return "" if content is None else str(content)
    return "".join(block if isinstance(block, str) else _block(block) for block in content)


def _block(block: Any) -> str:
    if not isinstance(block, Mapping):
        return str(block)
    text = block.get("text")
    if isinstance(text, str):
        return text
    return "" if block.get("type") in ("tool_use", "tool_call", "function_call") else f"[{block.get('type')}]"


def conversation(messages: Sequence[Any]) -> Iterator[RenderableType]:
    """The messages, each under the name of its speaker."""
    from rich.padding import Padding
    from rich.text import Text

    for data in map(message_data, messages):
        yield Text(_heading(data), style="bold red" if data["status"] == "error" else "bold")
        if text := text_of(data["content"]).strip():
            yield Padding(Text(printable(text)), (0, 0, 0, 2), expand=False)
        for call in data["tool_calls"]:
            yield Padding(Text(f"calls {call_line(call)}", style="cyan"), (0, 0, 0, 2), expand=False)


def _heading(data: Mapping[str, Any]) -> str:
    role = str(data["role"])
    name = f" {one_line(str(data['name']))}" if data["name"] else ""
    return role + name + (" (error)" if data["status"] == "error" else "")


def call_line(call: Mapping[str, Any]) -> str:
    """A tool call on one line."""
    return one_line(f"{call['name']}({json.dumps(call['args'], ensure_ascii=False, default=str)})")
