"""What a new head says about its thread: title, preview, counts, and whether there is work left."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import Any

from scallion.approvals import naming
from scallion.sql import names

LENGTH = 80
"""Titles and previews hold at most that many characters."""
LOOKED_AT = 200
"""How many messages from either end are looked at for a text: a row must not cost more with every message."""
AGENTS = ("agent", "lc_agent_name")
"""Where the metadata has the agent's name: ours, and that of `create_agent`."""
TRANSIENT = "scallion_transient"
"""What a message that the thread will not keep has among its `additional_kwargs`."""
COUNTERS = "counters_since_delta_snapshot"
"""Where the metadata has the DeltaChannels whose values are not in the checkpoint."""


def of(values: Mapping[str, Any], metadata: Mapping[str, Any]) -> dict[str, Any]:
    """The columns of the session's row that this head changes; of a delta channel's messages it knows nothing."""
    changes: dict[str, Any] = {"progress": "running" if has_work(values) or is_open(values) else "idle"}
    if owner := names.somebody(metadata, "owner"):
        changes["owner"] = owner
    if agent := next(filter(None, (names.somebody(metadata, name) for name in AGENTS)), None):
        changes["agent"] = agent
    return changes | told(conversation(values))


def told(messages: Sequence[Any]) -> dict[str, Any]:
    """The columns that follow from the messages."""
    asked = (one for one in islice(messages, LOOKED_AT) if role(one) in ("human", "user") and not is_transient(one))
    last = (one for one in islice(reversed(messages), LOOKED_AT) if not is_transient(one))
    return {
        "message_count": len(messages),
        "preview": _first(last),
        "title": _first(asked),
    }


def _first(messages: Iterable[Any]) -> str | None:
    return next((text for one in messages if (text := shown(one))), None)


def conversation(values: Mapping[str, Any]) -> list[Any]:
    """The messages among the values of a graph: those of that name, or the first list of messages."""
    name = channel(values)
    found: list[Any] = [] if name is None else _whole(values[name])
    return found


def channel(values: Mapping[str, Any]) -> str | None:
    """Where the conversation is among the values of a graph."""
    if isinstance(_whole(values.get("messages")), list):
        return "messages"
    lists = {name: found for name, value in values.items() if isinstance(found := _whole(value), list) and found}
    spoken = (name for name, found in lists.items() if is_message(found[0]) and is_message(found[-1]))
    return next((name for name in spoken if name != "__start__"), None)


def _whole(value: Any) -> Any:
    """The value; that of a delta channel is packed up where it is stored as a whole."""
    return value.value if type(value).__name__ == "_DeltaSnapshot" else value


def deltas(values: Mapping[str, Any], metadata: Mapping[str, Any]) -> list[str]:
    """The delta channels that may hold the conversation and whose values are not here."""
    counters = metadata.get(COUNTERS)
    absent = [name for name in counters if name not in values] if isinstance(counters, Mapping) else []
    if "messages" in absent:
        return ["messages"]
    return [] if conversation(values) else absent


def has_work(values: Mapping[str, Any]) -> bool:
    """Whether the graph has a next step: a triggered node, a task that was sent, an input not yet read."""
    return any(
        name == "__start__"
        or name.startswith("branch:to:")
        or (name == "__pregel_tasks" and bool(value))
        or (name.startswith("join:") and _is_joined(name, value))
        for name, value in values.items()
    )


def is_open(values: Mapping[str, Any]) -> bool:
    """Whether an Agent's turn is not committed: filters stand around it, and nobody was given its answer."""
    marker = values.get("turn")
    return isinstance(marker, Mapping) and bool(marker.get("open")) and "base_length" in marker


def _is_joined(name: str, value: Any) -> bool:
    """Whether all are there that a node waits for; one that is deferred keeps a flag beside their names."""
    there = value[0] if isinstance(value, tuple) and value else value
    return isinstance(there, set) and there == set(name.split(":", 2)[1].split("+"))


def shown(message: Any) -> str:
    """The beginning of a message's text, as one line that every database can hold."""
    content = content_of(message)
    if isinstance(content, list):
        parts = (
            part if isinstance(part, str) else part.get("text") for part in content if isinstance(part, str | Mapping)
        )
        content = " ".join(part for part in parts if isinstance(part, str))
    line = " ".join(str(content or "")[: 4 * LENGTH].replace("\0", " ").split())
    return naming.whole(line[:LENGTH].rstrip())


def content_of(message: Any) -> Any:
    """What a message of any form holds: a text, or blocks."""
    if isinstance(message, str):
        return message
    if _is_pair(message):
        return message[1]
    return message.get("content") if isinstance(message, Mapping) else getattr(message, "content", "")


def is_transient(message: Any) -> bool:
    """Whether the message is for the model of the running turn only, as passages that were looked up."""
    name = "additional_kwargs"
    found = message.get(name) if isinstance(message, Mapping) else getattr(message, name, None)
    return isinstance(found, Mapping) and bool(found.get(TRANSIENT))


def role(message: Any) -> str | None:
    """Who speaks: "human", "user", "ai", ...; a text alone is a person's, as LangGraph has it."""
    if isinstance(message, str):
        return "human"
    if _is_pair(message):
        found = message[0]
    elif isinstance(message, Mapping):
        found = message.get("role") or message.get("type")
    else:
        found = getattr(message, "type", None)
    return found if isinstance(found, str) else None


def is_message(value: Any) -> bool:
    """Whether it is a message of any form, and not just a text."""
    if isinstance(value, Mapping):
        return "content" in value and ("role" in value or "type" in value)
    return _is_pair(value) or (hasattr(value, "content") and hasattr(value, "type"))


def is_speech(value: Any) -> bool:
    """Whether it is a message of any form, or a text."""
    return isinstance(value, str) or is_message(value)


def _is_pair(value: Any) -> bool:
    return isinstance(value, tuple) and len(value) == 2 and isinstance(value[0], str)
