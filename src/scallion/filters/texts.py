"""The texts of a message: what a guard reads of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, TypeVar

from langchain_core.messages import AIMessage, BaseMessage

M = TypeVar("M", bound=BaseMessage)
UNREAD = frozenset(
    """
    type id index signature thought_signature encrypted_content encrypted_index base64 file_data url image_url file_uri
    media_type mime_type source_type format detail status cache_control
    """.split()
)
"""Names in a block under which no text for the model stands, beside those that end in `_id`."""

ARGUMENTS = ("args", "input", "arguments")
"""Where a block has the arguments of a call, which a tool reads whole, whatever their names."""
BESIDE = ("reasoning_content", "reasoning", "refusal", "audio")
"""Where clients keep what a model thinks or says, beside the content."""


def texts(message: BaseMessage) -> Iterator[str]:
    """Each text of the message, and those of its blocks as one where there are several, as a model reads them.

    A block of a kind that is not known is read whole, but for pictures, files, addresses and ids; the arguments of
    calls are read whole, with the names in them, but for those of parameters.
    """
    content: Any = message.content
    found = list(_strings(content, "text"))
    name = message.name if message.type == "human" else None
    beside = {one: message.additional_kwargs.get(one) for one in BESIDE}
    if isinstance(audio := beside["audio"], Mapping):
        beside["audio"] = audio.get("transcript")
    told = [*found, *_strings([name, beside], "beside")]
    yield from dict.fromkeys([*(text for _, text in told), *_called(message)])
    for kind in ("text", "reasoning", "thinking"):
        blocks = [text for name, text in found if name == kind]
        if len(blocks) > 1:
            yield "".join(blocks)


def _called(message: BaseMessage) -> Iterator[str]:
    """What the calls of a message say; of those that cannot be read the name too."""
    if isinstance(message, AIMessage):
        for one in message.tool_calls:
            yield from _arguments(one["args"])
        yield from _whole([[one["name"], one["args"]] for one in message.invalid_tool_calls])


def without_texts(message: M, text: str) -> M:
    """The message with this text in the place of all that is read of it, but for calls; pictures and the like stay."""
    blocks = [] if isinstance(message.content, str) else message.content
    kept = [one for one in blocks if not isinstance(one, str) and not any(True for _ in _strings(one, "text"))]
    beside = {name: one for name, one in message.additional_kwargs.items() if name not in BESIDE}
    changes = {"content": [{"type": "text", "text": text}, *kept] if kept else text, "additional_kwargs": beside}
    return message.model_copy(update={**changes, "name": None} if message.type == "human" else changes)


def _strings(value: Any, name: str) -> Iterator[tuple[str, str]]:
    """The texts in a value, each with the name under which it stands."""
    if isinstance(value, str):
        yield name, value
    elif isinstance(value, Mapping):
        for key, part in value.items():
            if key in ARGUMENTS:
                yield from ((key, text) for text in _arguments(part))
            elif not is_unread(key, value):
                yield from _strings(part, key)
    elif isinstance(value, list | tuple):
        for part in value:
            yield from _strings(part, name)


def _arguments(value: Any) -> Iterator[str]:
    """Every text in the arguments of a call, and every name that is not that of a parameter."""
    if isinstance(value, Mapping):
        yield from (name for name in value if isinstance(name, str) and not name.isidentifier())
        value = [*value.values()]
    yield from _whole(value)


def _whole(value: Any) -> Iterator[str]:
    """Every text in a value, and every name."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping | list | tuple):
        for part in [*value, *value.values()] if isinstance(value, Mapping) else value:
            yield from _whole(part)


def is_unread(name: Any, block: Mapping[str, Any]) -> bool:
    """Whether no text for a model stands under this name of a block."""
    if name == "data":
        return _is_encoded(block)
    return name in UNREAD or str(name).endswith("_id")


def _is_encoded(block: Mapping[str, Any]) -> bool:
    """Whether `data` is no text: it says so, or it is of a format that has none."""
    if block.get("type") == "text":
        return False
    kind = str(block.get("mime_type") or block.get("media_type") or "text/plain")
    return (
        "base64" in (block.get("type"), block.get("source_type")) or "format" in block or not kind.startswith("text/")
    )
