"""A model that plays the assistant by rules: it searches for a tool for each part of a question, and calls the best.

It reads everything from the messages, so that a conversation goes on in any process.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any
from uuid import uuid4

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage

from library.holdings import KINDS, plain
from scallion.testing import ScriptedModel

NOTE = "(I am an offline scripted model: set SCALLION_MODEL to provider:name for a real one.)"
NO_TOOL = "I have no tool for that: {}"
NAMES = [thing.name for kind in KINDS for thing in kind.things]

Asked = tuple[str, list[str]]
"""A part of the question, and the tools that were found for it."""


def offline_model() -> BaseChatModel:
    """The scripted model; it streams word by word."""
    return ScriptedModel(answer, chunk_size="word")


def answer(messages: Sequence[BaseMessage]) -> AIMessage:
    """The next message: searches, then calls of what was found, then the answer."""
    start = max((at for at, message in enumerate(messages) if isinstance(message, HumanMessage)), default=0)
    since = list(messages[start + 1 :])
    searched = list(_searched(since))
    if not searched:
        return _calls([("tool_search", {"query": part}) for part in _parts(str(messages[start].text))])
    told = [message.text for message in since if isinstance(message, ToolMessage) and message.name != "tool_search"]
    wanted = [(found[0], _args(found[0], part)) for part, found in searched if found]
    if wanted and not told:
        return _calls(wanted)
    lines = [*told, *(NO_TOOL.format(part) for part, found in searched if not found)]
    return AIMessage("\n".join([*map(str, lines), NOTE]))


def _parts(question: str) -> list[str]:
    parts = re.split(r"[;?\n]|\.(?=\s|$)|, and ", question)
    return [part.strip() for part in parts if part.strip()] or [question]


def _searched(since: Sequence[BaseMessage]) -> Iterator[Asked]:
    results = {message.tool_call_id: message.text for message in since if isinstance(message, ToolMessage)}
    calls = [call for message in since if isinstance(message, AIMessage) for call in message.tool_calls]
    for call in calls:
        if call["name"] == "tool_search" and call["id"] in results:
            yield call["args"]["query"], json.loads(results[call["id"]])


def _args(tool: str, part: str) -> dict[str, Any]:
    """What the part of the question says that the tool needs."""
    verb = tool.partition("_")[0]
    named = sorted(
        (at.start(), name) for name in NAMES if (at := re.search(rf"\b{re.escape(plain(name))}\b", part.casefold()))
    )
    names = [name for _, name in named] or [part]
    if verb == "compare":
        return {"first": names[0], "second": names[-1]}
    if verb in ("describe", "date", "cite"):
        return {"name": names[0]}
    if verb == "find":
        return {"words": part}
    year = re.search(r"\b\d{3,4}\b", part)
    return {"since": int(year[0])} if verb == "timeline" and year else {}


def _calls(calls: Sequence[tuple[str, dict[str, Any]]]) -> AIMessage:
    # Ids must differ over the whole thread, whichever process makes them.
    return AIMessage(
        "", tool_calls=[{"name": name, "args": args, "id": f"call_{uuid4().hex[:12]}"} for name, args in calls]
    )
