"""The conversation as a middleware sees and changes it, and what the thread holds of it meanwhile."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, SystemMessage, ToolMessage
from langgraph.graph.message import add_messages
from langgraph.types import Command

from scallion.filters.replies import BadReply, final, normalised, without_calls
from scallion.history import edited
from scallion.values import ChatReply, ChatRequest


class Update:
    """What a hook of a middleware returned: messages, where to jump, and values of its state."""

    def __init__(self, out: Any, hook: str) -> None:
        values = _values(out, hook)
        self.messages = values.pop("messages", None)
        self.jump: str | None = values.pop("jump_to", None)
        if values.pop("structured_response", None) is not None:
            raise BadReply(f"{hook} gave a structured_response, which an agent here does not have")
        if self.jump not in (None, "end", "model", "tools"):
            raise BadReply(f"{hook} jumps to {self.jump!r}: there are end, model and tools")
        self.values: dict[str, Any] = values


def _values(out: Any, hook: str) -> dict[str, Any]:
    if isinstance(out, Command):
        if out.goto or out.resume or out.graph:
            raise BadReply(f"{hook} gave a Command with goto, resume or graph, which it cannot here")
        out = out.update
    if out is None:
        return {}
    if not isinstance(out, Mapping):
        raise BadReply(f"{hook} returned {type(out).__name__}, not a mapping")
    return dict(out)


class Talk:
    """One model call's conversation: `shown` to the middleware, and `stored` in the thread.

    System messages in front are no part of it: they are the prompts of filters further outside.
    """

    def __init__(self, request: ChatRequest) -> None:
        messages = list(request.messages)
        front = next((n for n, one in enumerate(messages) if not isinstance(one, SystemMessage)), len(messages))
        self.lead, self.shown = messages[:front], messages[front:]
        self.given = list(messages if request.stored is None else request.stored)
        self.stored = self.given

    @property
    def is_changed(self) -> bool:
        """Whether the thread is to hold something else than it did."""
        return self.stored is not self.given

    def copies(self) -> list[BaseMessage]:
        """What a hook may change in place, as it does in LangChain, and give back."""
        return [one.model_copy() for one in self.shown]

    def apply(self, messages: Any) -> None:
        """Make the changes of an update by LangGraph's rules: replaced by id, removed, or added."""
        if messages is None:
            return
        try:
            now: Any = add_messages(list(self.shown), messages)  # type: ignore[arg-type]
        except (TypeError, ValueError, NotImplementedError) as error:
            raise BadReply(f"its messages cannot be taken: {error}") from error
        self.stored = edited(self.stored, self.shown, now)
        self.shown = now

    def answer(self, reply: ChatReply) -> None:
        """Put the model's answer behind the conversation."""
        stored = self.stored if reply.stored is None else list(reply.stored)
        message = normalised(reply.message, stored)
        self.shown = [*self.shown, message, *reply.results]
        self.stored = [*stored, message, *reply.results]

    def kept(self) -> dict[str, Any]:
        """Plain data of where it stands."""
        return {"shown": self.shown, "stored": self.stored if self.is_changed else None}

    def load(self, kept: Mapping[str, Any]) -> None:
        """Stand there again."""
        self.shown = list(kept["shown"])
        self.stored = self.given if kept["stored"] is None else list(kept["stored"])

    def reply(self, request: ChatRequest, jump: str | None) -> ChatReply:
        """The reply of the chat chain: the last answer that is new, with what stands in front of it and behind it."""
        before = {one.id for one in self.given}
        new = [n for n, one in enumerate(self.stored) if isinstance(one, AIMessage) and one.id not in before]
        if not new and jump != "end":
            raise BadReply("it leaves no message of the model that could be answered or run")
        place = new[-1] if new else len(self.stored)
        front, rest = self.stored[:place], self.stored[place + 1 :]
        if strange := [one for one in rest if not isinstance(one, ToolMessage)]:
            raise BadReply(f"it leaves a {type(strange[0]).__name__} behind the answer of the model")
        results = [one for one in rest if isinstance(one, ToolMessage)]
        message = self.stored[place] if new else AIMessage("")
        assert isinstance(message, AIMessage)
        if jump == "end":
            front, message, results = _ending(front, message, results)
        is_same = len(front) == len(self.given) and all(one is two for one, two in zip(front, self.given, strict=True))
        return ChatReply(message, request.context, None if is_same else front, results)


def _ending(
    front: Sequence[BaseMessage], message: AIMessage, results: list[ToolMessage]
) -> tuple[list[BaseMessage], AIMessage, list[ToolMessage]]:
    """The turn ends: calls that have a result stay with it in front of an empty answer, others never run."""
    if results:
        ran = {one.tool_call_id for one in results}
        calls = [call for call in message.tool_calls if call["id"] in ran]
        kept = message.model_copy(update={"tool_calls": calls, "invalid_tool_calls": []})
        return [*front, kept, *results], final(AIMessage("")), []
    return list(front), final(without_calls(message, message.content) if message.tool_calls else message), []
