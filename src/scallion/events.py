"""What `Agent.stream` yields before the result: typed, frozen, in the order in which it happened."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from langchain_core.messages import AIMessage


@dataclass(frozen=True, slots=True)
class TurnStarted:
    """A turn began, or goes on after a pause."""

    thread: str | None
    turn: str


@dataclass(frozen=True, slots=True)
class ModelStarted:
    """A model call began; `call` names it in the events that follow."""

    call: str


@dataclass(frozen=True, slots=True)
class Token:
    """A piece of the answer's text, as the token transforms let it through."""

    text: str
    meta: Mapping[str, Any] = field(default_factory=dict)
    call: str = ""

    def replace(self, **changes: Any) -> Self:
        """A copy with these fields changed."""
        return replace(self, **changes)


@dataclass(frozen=True, slots=True)
class Reasoning:
    """A piece of what the model thinks, where its provider shows it."""

    text: str
    meta: Mapping[str, Any] = field(default_factory=dict)
    call: str = ""


@dataclass(frozen=True, slots=True)
class ToolCallDelta:
    """A piece of a tool call that the model is writing; `args` is a piece of JSON text."""

    call: str
    index: int | str | None
    id: str | None
    name: str | None
    args: str | None


@dataclass(frozen=True, slots=True)
class Retracted:
    """The tokens of this model call do not stand: what follows replaces them.

    If it broke off (there is no `ModelFinished` of it), its pieces of reasoning and tool calls do not stand either.
    """

    call: str


@dataclass(frozen=True, slots=True)
class ModelFinished:
    """A model call ended with this message, before any filter changed it."""

    message: AIMessage
    usage: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ToolStarted:
    """A tool call began to run."""

    call_id: str
    tool: str


@dataclass(frozen=True, slots=True)
class ToolFinished:
    """A tool call ended; `status` is success or error, `duration` in seconds."""

    call_id: str
    status: str
    duration: float


@dataclass(frozen=True, slots=True)
class FilterActed:
    """A filter did something: `action` is short_circuit, retry, ignored_error, changed, or the decision it was given.

    Where a standing rule gave it, it is allow_by_rule or deny_by_rule. `tool` and `call_id` say which call of a tool it
    is about, if it is about one; events that differ in these only are equal.
    """

    filter: str
    hook: str
    action: str
    tool: str | None = field(default=None, compare=False)
    call_id: str | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class GuardActed:
    """A guard found something: how many of each type, and where; never the text.

    `place` is "input", "output", "tool_args" or "tool_results". `action` says what was done: "redact", "mask", "hash",
    "tokenise", "replace", "block", or several of them with a comma between.
    """

    filter: str
    place: str
    action: str
    found: Mapping[str, int]


Event = (
    TurnStarted
    | ModelStarted
    | Token
    | Reasoning
    | ToolCallDelta
    | Retracted
    | ModelFinished
    | ToolStarted
    | ToolFinished
    | FilterActed
    | GuardActed
)
