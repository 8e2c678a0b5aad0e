"""The texts of a message: what a guard reads of it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from langchain_core.messages import BaseMessage

from scallion.errors import ConfigurationError


def texts(message: BaseMessage) -> Iterator[str]:
    """Each text of the message's content, and all of them as one where there are several, as a model reads them."""
    content: Any = message.content
    if isinstance(content, str):
        yield content
        return
    found = [text for part in content if (text := _text(part))]
    yield from found
    if len(found) > 1:
        yield "".join(found)


def as_key(given: Any, name: str) -> str:
    """What the key function of the filter of this name gave; what is no text is refused: None is not "None"."""
    if not isinstance(given, str):
        raise ConfigurationError(
            f"filter {name!r}: key gave {type(given).__name__}: have it give a text for each request"
        )
    return given


def _text(part: Any) -> str:
    text = part.get("text") if isinstance(part, dict) else part
    return text if isinstance(text, str) else ""
