"""What people and models said: the part of a conversation that a search looks into, and what it shows of it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from scallion.sql import summary, words
from scallion.sql.phrases import lengthened
from scallion.sql.plain import Plainly

SPEAKERS = frozenset(("human", "user", "HumanMessageChunk", "ai", "assistant", "AIMessageChunk"))
"""Whose messages those are. What tools and systems say is not among them."""
MOST = 100_000
"""So many characters of a message are looked into."""
BEFORE, LENGTH = 40, 120
"""How many characters of a passage come before the word that was found, and how many it has at most."""


def text(message: Any) -> str:
    """What a person or a model said in a message of any form; of anything else nothing, as of a tool's result.

    Only text: no calls of tools, no reasoning, no files.
    """
    if summary.role(message) not in SPEAKERS or summary.is_transient(message):
        return ""
    content = summary.content_of(message)
    if isinstance(content, list):
        content = " ".join(_texts(content))
    return content[:MOST] if isinstance(content, str) else ""


def _texts(blocks: list[Any]) -> Iterator[str]:
    for block in blocks:
        said = block.get("text") if isinstance(block, Mapping) and block.get("type") == "text" else block
        if isinstance(said, str):
            yield said


def stored(type: str, data: bytes) -> str:
    """What was said in a stored value, which is a message or a list of them."""
    value = Plainly().loads_typed(lengthened(type, data))
    return " ".join(filter(None, map(text, value if isinstance(value, list) else [value])))


def passage(said: str, word: str) -> str | None:
    """The text around the first word that begins with `word`, on one line; None if there is none."""
    for chunk in re.finditer(r"\S+", said):
        if any(one.startswith(word) for one in words.of(chunk[0])):
            at = chunk.start() + max(0, chunk[0].casefold().find(word))
            return _cut(said, at)
    return None


def _cut(said: str, at: int) -> str:
    start = max(0, at - BEFORE)
    if start:  # at the beginning of a word, if there is one before
        start = min(at, said.find(" ", start, at) + 1 or start)
    end = start + LENGTH
    line = " ".join(said[start:end].replace("\0", " ").split())
    return f"{'…' if start else ''}{line}{'…' if end < len(said) else ''}"
