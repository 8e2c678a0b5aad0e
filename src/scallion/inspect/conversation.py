"""A conversation as plain data, and as it is read in a terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from scallion.inspect.bounds import as_json
from scallion.inspect.calls import calls_of, id_of
from scallion.inspect.escape import one_line, printable

if TYPE_CHECKING:
    from rich.console import RenderableType

SPEAKERS = {"human": "user", "ai": "assistant", "system": "system", "tool": "tool"}


def message_data(message: Any) -> dict[str, Any]:
    """The message, of a LangChain class or any form that LangGraph takes, as plain data with the same keys always."""
    read = _reader(message)
    role = str((read("type") if read("type") != "chat" else None) or read("role") or "unknown")
    return {
        "role": SPEAKERS.get(role, role),
        "content": read("content"),
        "name": read("name"),
        "tool_calls": calls_of(read),
        "tool_call_id": id_of(read("tool_call_id")),
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


@dataclass(frozen=True, slots=True)
class Block:
    """A part of a message's content: "text", "reasoning", or "other": then `text` names it and nothing is fetched."""

    kind: Literal["text", "reasoning", "other"]
    text: str


def blocks_of(content: Any) -> list[Block]:
    """The parts of a message's content in order; calls of tools, which a message has beside it, are no parts."""
    if not isinstance(content, list):
        return [Block("text", text_of(content))] if content else []
    return [found for one in content if (found := _part(one)).text]


def _part(block: Any) -> Block:
    if not isinstance(block, Mapping) or isinstance(block.get("text"), str):
        return Block("text", block if isinstance(block, str) else _block(block))
    kind = block.get("type")
    thought = next((block[key] for key in ("reasoning", "thinking") if isinstance(block.get(key), str)), None)
    if thought is not None:
        return Block("reasoning", thought)
    return Block("other", f"{kind}{_about(block)}" if _block(block) else "")


def _about(block: Mapping[str, Any]) -> str:
    """What is told of data that is not shown: its type, and where it lies if that is a place and not the data."""
    inner = [one for one in (block, block.get("image_url"), block.get("source"), block.get("file")) if one]
    maps = [one for one in inner if isinstance(one, Mapping)]
    told = [one.get(key) for one in maps for key in ("mime_type", "media_type", "filename")]
    places = [one.get("url") for one in maps] + [one for one in inner if isinstance(one, str)]
    told += [one.partition(",")[0] if isinstance(one, str) and one.startswith("data:") else one for one in places]
    return "".join(f" {one}" for one in told if isinstance(one, str) and one)


def conversation(messages: Sequence[Any]) -> Iterator[RenderableType]:
    """The messages, each under the name of its speaker."""
    from rich.padding import Padding
    from rich.text import Text

    for data in map(message_data, messages):
        yield Text(speaker(data), style="bold red" if data["status"] == "error" else "bold")
        if text := text_of(data["content"]).strip():
            yield Padding(Text(printable(text)), (0, 0, 0, 2), expand=False)
        for call in data["tool_calls"]:
            yield Padding(Text(f"calls {call_line(call)}", style="cyan"), (0, 0, 0, 2), expand=False)


def speaker(data: Mapping[str, Any]) -> str:
    """Who speaks, on one line: the role, the name if there is one, and whether it is an error."""
    told = (data["role"], data["name"], "(error)" if data["status"] == "error" else None)
    return one_line(" ".join(str(one) for one in told if one))


def call_line(call: Mapping[str, Any]) -> str:
    """A tool call on one line."""
    note = " (not valid)" if isinstance(call["args"], str) else ""
    return one_line(f"{call['name'] or 'unknown'}({as_json(call['args'], indent=None)}){note}")
