"""`memory`: conversations that are remembered in a history of messages, with a checkpointer or without one."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any, Protocol

from langchain_core.messages import BaseMessage, SystemMessage

from scallion.bridge import awaited, call
from scallion.errors import ConfigurationError
from scallion.filters.filter import Filter
from scallion.filters.given import is_whole
from scallion.filters.journal import current_frame
from scallion.filters.windows import Bounds, Conversation, blocks
from scallion.history import is_transient
from scallion.values import ChatReply, ChatRequest, Completed, Context, TurnRequest, identity


class History(Protocol):
    """What is needed of a history: LangChain's `BaseChatMessageHistory` has it, which LangChain means to remove."""

    messages: Any

    def add_messages(self, messages: Sequence[BaseMessage]) -> None:
        """Add these."""

    async def aget_messages(self) -> list[BaseMessage]:
        """All of them, the first first."""

    async def aadd_messages(self, messages: Sequence[BaseMessage]) -> None:
        """As `add_messages`."""


Histories = Callable[[str], Any]
"""Gives the history of a conversation, `def` or `async def`."""


def joined(stored: Sequence[BaseMessage], messages: Sequence[BaseMessage]) -> list[BaseMessage]:
    """All that is remembered or there, each message once: in the order of the history, what it has not yet behind it.

    Calls without results are left out.
    """
    there = {identity(one) for one in messages if one.id}
    places = {identity(one): place for place, one in enumerate(stored)}
    said = [one for one in messages if not isinstance(one, SystemMessage)]
    old = max((place for place, one in enumerate(said, 1) if identity(one) in places), default=0)

    def missing(start: int, stop: int) -> list[BaseMessage]:
        left = [one for one in stored[start:stop] if identity(one) not in there]
        return [one for block in blocks(left) for one in block if not isinstance(one, SystemMessage)]

    shown: list[BaseMessage] = [one for one in messages if isinstance(one, SystemMessage)]
    read = 0
    for one in said[:old]:
        place = places.get(identity(one), -1)
        if place >= read:
            shown += missing(read, place)
            read = place + 1
        shown.append(one)
    return [*shown, *missing(read, len(stored)), *said[old:]]


def windowed(
    messages: Sequence[BaseMessage], window: int | None, asked: Collection[str | None] = ()
) -> list[BaseMessage]:
    """The last `window` messages, whole calls, and the question of the turn in any case."""
    if window is None:
        return list(messages)
    conversation = Conversation.of(messages, asked)
    start = Bounds(window, None, 1.0, None).start(conversation, None, None, ())
    return [*conversation.lead, *conversation.since(start)]


def to_remember(new: Sequence[BaseMessage], stored: Sequence[BaseMessage]) -> list[BaseMessage]:
    """What of a turn's new messages belongs into the history and is not there; no system prompts, nothing transient."""
    known = set(map(identity, stored))
    kept = [one for one in new if not isinstance(one, SystemMessage) and not is_transient(one)]
    return [one for one in kept if identity(one) not in known]


class Memory(Filter):
    """Reads for each model call, and writes when the turn has its answer: a turn that fails leaves nothing."""

    def __init__(
        self, name: str, history: Histories, window: int | None, conversation: Callable[[Context], Any] | None
    ) -> None:
        super().__init__(name)
        if hasattr(history, "add_messages") or not callable(history):
            raise ConfigurationError(
                f"filter {name!r}: history is a function that gives the history of a conversation, not {history!r}"
            )
        if window is not None and not is_whole(window):
            raise ConfigurationError(f"filter {name!r}: window is a whole number above zero, not {window!r}")
        if conversation is not None and not callable(conversation):
            raise ConfigurationError(f"filter {name!r}: conversation is a function of the context that gives a name")
        self._history = history
        self._window = window
        self._conversation = conversation

    def around_turn(self, request: TurnRequest, state: Any, next: Callable[[TurnRequest], Completed]) -> Completed:
        """Remember what the thread would keep of the turn."""
        result = next(request)
        history = self._of(request.context)
        added = [] if history is None else current_frame.get().run.added(result)
        if history is not None and (new := to_remember(added, _read(history))):
            call(history.add_messages, history.aadd_messages, new)
        return result

    def around_chat(self, request: ChatRequest, state: Any, next: Callable[[ChatRequest], ChatReply]) -> ChatReply:
        """Show what is remembered."""
        history = None if request.aside else self._of(request.context)
        if history is None:
            return next(request)
        known = joined(_read(history), request.messages)
        return next(request.replace(messages=windowed(known, self._window, current_frame.get().run.asked)))

    def _of(self, context: Context) -> History | None:
        name = context.thread if self._conversation is None else awaited(self._conversation(context))
        if not name:
            return None
        history = awaited(self._history(name))
        if not hasattr(history, "aadd_messages"):
            raise ConfigurationError(
                f"filter {self.name!r}: the history of a conversation is a BaseChatMessageHistory of LangChain or like "
                f"one, not {type(history).__name__}"
            )
        of_owner = getattr(history, "for_owner", None) if context.owner is not None else None
        found: History = history if of_owner is None else of_owner(context.owner)
        return found


def _read(history: History) -> list[BaseMessage]:
    return call(lambda: list(history.messages), history.aget_messages)


def memory(
    history: Histories,
    window: int | None = None,
    *,
    conversation: Callable[[Context], Any] | None = None,
    name: str = "memory",
) -> Filter:
    """Remember conversations in `history(conversation)`, any `BaseChatMessageHistory`, or `SQLCheckpointer.history`.

    Stands first in the list. The model reads what is remembered in front of what the thread has, each message once, and
    of all that the last `window` messages (calls with their results; the question of the turn in any case). When the
    turn has its answer, what the thread would keep of it is added, once: its question, calls with
    results, the answer; no system prompts. `conversation(context)` names the conversation, by default the thread; where
    it gives None nothing is read or added. Raises ConfigurationError; ThreadError where a history of `SQLCheckpointer`
    is another owner's.
    """
    return Memory(name, history, window, conversation)
