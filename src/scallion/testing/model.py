"""A chat model that answers by a script: no network, no randomness, the same in sync, async and streams."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from langchain_core.messages import BaseMessage

from scallion.errors import ConfigurationError, ScallionError
from scallion.testing.played import PlayedModel
from scallion.testing.replies import Answer, Script, answer, offered


class ScriptExhausted(ScallionError):
    """A scripted model was called more often than its script has replies."""


class ScriptMismatch(ScallionError):
    """A reply of a strict script calls a tool that the model was not offered."""


class ScriptedModel(PlayedModel):
    """Answer by a script, and record what was asked.

    `replies`: texts, messages, instances of pydantic models (structured output), `Chunks`, exceptions or functions
    `(messages) -> one of these`, one a call; or one such function for all calls. A reply too few is a ScriptExhausted,
    replies that nobody asked for are told by `assert_done()`. `strict`: a reply that calls a tool which was not offered
    is a ScriptMismatch. The rest as in `PlayedModel`: `chunk_size`, `delay`, `sync_only`, `async_only`.
    """

    replies: Any = ()
    strict: bool = False

    def __init__(self, replies: Script = (), **fields: Any) -> None:
        if not callable(replies) and (isinstance(replies, str | bytes) or not isinstance(replies, Sequence)):
            told = "a script is a list of replies, or a function of the messages"
            raise ConfigurationError(f"{told}, not {type(replies).__name__}")
        super().__init__(**{**fields, "replies": replies})

    @property
    def _llm_type(self) -> str:
        return "scripted"

    @property
    def unused(self) -> Sequence[Any]:
        """The replies that were not asked for; none where one function makes them."""
        return [] if callable(self.replies) else list(self.replies[len(self.calls) :])

    def problems(self) -> list[str]:
        """What `assert_done` tells, empty where each reply was given once and none was missing."""
        if callable(self.replies):
            return []
        asked = len(self.calls)
        found = [f"reply {at} was not asked for: {one!r:.200}" for at, one in enumerate(self.unused, asked + 1)]
        if (beyond := asked - len(self.replies)) > 0:
            found.append(f"the model was asked {beyond} time(s) beyond its {len(self.replies)} replies")
        return found

    def _ask(self, messages: list[BaseMessage], kwargs: dict[str, Any]) -> Answer:
        """The next reply as a message of its own; exceptions of the script are raised."""
        reply = self._scripted(self._note(messages, kwargs))
        if callable(reply):
            reply = reply(list(messages))
        made = answer(reply, messages, kwargs.get("tools") or ())
        if self.strict:
            _check_calls(made, offered(kwargs.get("tools") or ()))
        return made

    def _scripted(self, number: int) -> Any:
        if callable(self.replies):
            return self.replies
        if number >= len(self.replies):
            raise ScriptExhausted(f"the script has {len(self.replies)} replies, and this is call number {number + 1}")
        return self.replies[number]


def _check_calls(made: Answer, names: Sequence[str]) -> None:
    for one in made.message.tool_calls:
        if one["name"] not in names:
            there = ", ".join(names) or "no tool"
            raise ScriptMismatch(f"the script calls {one['name']!r}, and the model was offered {there}")
