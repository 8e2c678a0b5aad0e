"""The recorded dialogues beside the checkout, as turns, and what a thread must hold of them at the end."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from langchain_core.messages import BaseMessage, convert_to_messages, convert_to_openai_messages

SHARED = Path(__file__).parents[3] / "shared" / "data" / "conversations" / "tau-bench-airline.json"

Recorded = dict[str, Any]


@dataclass(frozen=True)
class Dialogue:
    """One dialogue in the OpenAI message format, from the first word of the user to the last answer."""

    name: str
    messages: Sequence[Recorded]

    @cached_property
    def users(self) -> list[str]:
        return [message["content"] for message in self.messages if message["role"] == "user"]

    @cached_property
    def answers(self) -> list[BaseMessage]:
        """What the model said, in order: texts and calls."""
        return convert_to_messages([message for message in self.messages if message["role"] == "assistant"])

    @cached_property
    def results(self) -> dict[str, str]:
        """The result of every call, by what `call_key` makes of it: some dialogues use an id again for another call."""
        calls = [call for message in plain(self.messages) for call in message["calls"]]
        texts = [message["content"] for message in self.messages if message["role"] == "tool"]
        return {call_key(id, arguments): text for (id, _, arguments), text in zip(calls, texts, strict=True)}

    @cached_property
    def tools(self) -> list[str]:
        return sorted({message["name"] for message in self.messages if message["role"] == "tool"})


def call_key(id: str, arguments: Mapping[str, Any]) -> str:
    """What tells one call from all others of its dialogue."""
    return f"{id} {json.dumps(arguments, sort_keys=True)}"


def dialogues(count: int) -> list[Dialogue]:
    """The shortest ones that use tools, that end in an answer and that answer every user."""
    if not SHARED.exists():
        return []
    usable = [_dialogue(f"{place}", row["traj"]) for place, row in enumerate(json.loads(SHARED.read_text()))]
    with_tools = [dialogue for dialogue in usable if len(dialogue.results) > 2 and _ends_in_an_answer(dialogue)]
    return sorted(with_tools, key=lambda dialogue: len(dialogue.messages))[:count]


def plain(messages: Sequence[BaseMessage | Recorded]) -> list[Recorded]:
    """Both sides of the comparison in one form: role, text, calls with parsed arguments, call id."""
    converted = [m if isinstance(m, dict) else convert_to_openai_messages(m) for m in messages]
    return [_plain(message) for message in converted]


def _dialogue(name: str, recorded: list[Recorded]) -> Dialogue:
    """Without the system prompt, and without the user's last word that nobody answered."""
    messages = [message for message in recorded if message["role"] != "system"]
    while messages and messages[-1]["role"] == "user":
        messages.pop()
    return Dialogue(name, messages)


def _ends_in_an_answer(dialogue: Dialogue) -> bool:
    last = dialogue.messages[-1]
    return last["role"] == "assistant" and not last.get("tool_calls")


def _plain(message: Recorded) -> Recorded:
    calls = [
        (call["id"], call["function"]["name"], json.loads(call["function"]["arguments"]))
        for call in message.get("tool_calls") or ()
    ]
    return {
        "role": message["role"],
        "content": message.get("content") or "",
        "calls": calls,
        "answers": message.get("tool_call_id"),
    }
