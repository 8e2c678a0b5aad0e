"""The calls of tools in a conversation, and which result is whose."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any


def calls_of(read: Callable[[str], Any]) -> list[dict[str, Any]]:
    """The calls of a message whose fields `read` gives, in the form of LangChain or OpenAI: id, name and args of each.

    Those that are not valid are among them, behind the others; their "args" are the text that the model wrote.
    """
    lists = (read("tool_calls"), read("invalid_tool_calls"))
    return [_call(one) for found in lists if isinstance(found, list | tuple) for one in found]


def _call(call: Any) -> dict[str, Any]:
    if not isinstance(call, Mapping):
        return {"id": None, "name": None, "args": call}
    told = call.get("function")
    if isinstance(told, Mapping):
        return {"id": id_of(call.get("id")), "name": told.get("name"), "args": _arguments(told.get("arguments"))}
    return {"id": id_of(call.get("id")), "name": call.get("name"), "args": call.get("args")}


def _arguments(text: Any) -> Any:
    try:
        return json.loads(text) if isinstance(text, str) else text
    except (ValueError, RecursionError):
        return text


def id_of(value: Any) -> str | None:
    """The id of a call, which is a text whatever a foreign graph made it."""
    return None if value is None else str(value)


def answers(messages: Iterable[tuple[Sequence[Any], Any]]) -> dict[tuple[int, int], int]:
    """Which message answers which call: by the places of the message that calls and of the call in it.

    `messages`: the ids of the calls of each, and the id of the call that it answers, or None. Ids are not unique: some
    models number their calls in each reply anew. A call has the first result of its id that no other has, before
    the id is called again.
    """
    found: dict[tuple[int, int], int] = {}
    waiting: dict[Any, list[tuple[int, int]]] = {}
    for place, (called, answered) in enumerate(messages):
        asked: dict[Any, list[tuple[int, int]]] = {}
        for number, id in enumerate(called):
            asked.setdefault(id, []).append((place, number))
        waiting |= asked
        if answered is not None and waiting.get(answered):
            found[waiting[answered].pop(0)] = place
    return found
