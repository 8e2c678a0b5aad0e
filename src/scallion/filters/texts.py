"""The texts of a message: what a guard reads of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage

UNREAD = frozenset(
    """
    type id index signature thought_signature encrypted_content encrypted_index base64 file_data url image_url file_uri
    media_type mime_type source_type format detail status cache_control
    """.split()
)
"""Names in a block under which no text for the model stands, beside those that end in `_id`."""


def texts(message: BaseMessage) -> Iterator[str]:
    """Each text of the message, and those of its blocks as one where there are several, as a model reads them.

    A block of a kind that is not known is read whole, but for pictures, files, addresses and ids.
    """
    content: Any = message.content
    found = list(_strings(content, "text"))
    calls = message.tool_calls if isinstance(message, AIMessage) else []
    told = [*found, *_strings([call["args"] for call in calls], "args")]
    yield from dict.fromkeys(text for _, text in told)
    blocks = [text for name, text in found if name == "text"]
    if len(blocks) > 1:
        yield "".join(blocks)


def _strings(value: Any, name: str) -> Iterator[tuple[str, str]]:
    """The texts in a value, each with the name under which it stands."""
    if isinstance(value, str):
        yield name, value
    elif isinstance(value, Mapping):
        for key, part in value.items():
            if not _is_unread(key, value):
                yield from _strings(part, key)
    elif isinstance(value, list | tuple):
        for part in value:
            yield from _strings(part, name)


def _is_unread(name: Any, block: Mapping[str, Any]) -> bool:
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
