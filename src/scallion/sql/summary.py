"""What a new head says about its thread: title, preview, counts, and whether there is work left."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

LENGTH = 80
"""Titles and previews hold at most that many characters."""


def of(values: Mapping[str, Any], metadata: Mapping[str, Any]) -> dict[str, Any]:
    """The columns of the session's row that this head changes."""
    changes: dict[str, Any] = {"progress": "running" if has_work(values) else "idle"}
    for name in ("owner", "agent"):
        if isinstance(found := metadata.get(name), str):
            changes[name] = found
    messages = values.get("messages")
    if isinstance(messages, list):
        changes["message_count"] = len(messages)
        changes["preview"] = shown(messages[-1]) if messages else None
        changes["title"] = next((shown(message) for message in messages if _role(message) in ("human", "user")), None)
    return changes


def has_work(values: Mapping[str, Any]) -> bool:
    """Whether the graph has a next step: a triggered node, a task that was sent, an input not yet read."""
    return any(
        name == "__start__"
        or name.startswith("branch:to:")
        or (name == "__pregel_tasks" and bool(value))
        or (name.startswith("join:") and isinstance(value, set) and value == set(name.split(":", 2)[1].split("+")))
        for name, value in values.items()
    )


def shown(message: Any) -> str:
    """The beginning of a message's text, as one line that every database can hold."""
    content = message.get("content") if isinstance(message, Mapping) else getattr(message, "content", "")
    if isinstance(content, list):
        parts = (
            part if isinstance(part, str) else part.get("text") for part in content if isinstance(part, str | Mapping)
        )
        content = " ".join(part for part in parts if isinstance(part, str))
    line = " ".join(str(content or "")[: 4 * LENGTH].replace("\0", " ").split())
    return line[:LENGTH].encode("utf-8", "replace").decode()


def _role(message: Any) -> str | None:
    return message.get("role") if isinstance(message, Mapping) else getattr(message, "type", None)
