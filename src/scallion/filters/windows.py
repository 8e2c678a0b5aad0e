"""Windows on a conversation: which of its messages a model reads. Pure functions; a call and its results stay together.

Where a window moves with every call, the front of what the model reads changes with every call, and no provider can
keep it cached. So a window that is too long is cut to a share of its maximum, and stays where it was cut until then.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from bisect import bisect_left
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.messages.utils import count_tokens_approximately

from scallion.bridge import awaited, wait, waits_on_loop
from scallion.errors import ConfigurationError
from scallion.filters.given import is_number, is_whole
from scallion.history import is_transient

log = logging.getLogger("scallion.filters")
Block = list[BaseMessage]
Count = Callable[[list[BaseMessage]], Any]
"""`(messages) -> int`, `def` or `async def`."""


def blocks(messages: Sequence[BaseMessage]) -> list[Block]:
    """The messages in units that cannot be cut: calls with all their results, or a single other message.

    Results without their call, and calls without all their results, are in none of them: no provider takes them.
    """
    groups: list[Block] = []
    for message in messages:
        if not isinstance(message, ToolMessage):
            groups.append([message])
        elif groups:
            groups[-1].append(message)
    return [block for group in groups if (block := _whole(group))]


def _whole(group: Block) -> Block:
    """A message with the first result of each of its calls; nothing where one is missing."""
    head, *results = group
    calls = [*head.tool_calls, *head.invalid_tool_calls] if isinstance(head, AIMessage) else []
    wanted = {call["id"] for call in calls}
    found: dict[str | None, BaseMessage] = {}
    for result in results:
        if isinstance(result, ToolMessage) and result.tool_call_id in wanted:
            found.setdefault(result.tool_call_id, result)
    return [head, *found.values()] if found.keys() == wanted else []


@dataclass(frozen=True)
class Conversation:
    """A conversation as blocks behind its leading system messages; those of the turn are there from `began` on.

    `question` is what it answers: the last messages of the person that are of the turn.
    """

    lead: Block
    blocks: list[Block]
    question: range
    began: int

    @classmethod
    def of(cls, messages: Sequence[BaseMessage], asked: Collection[str | None] = ()) -> Conversation:
        """The conversation of these messages; the turn was given those whose ids are `asked`, where that is known."""
        lead = list(takewhile(lambda one: isinstance(one, SystemMessage), messages))
        found = blocks(messages[len(lead) :])
        human = [isinstance(block[0], HumanMessage) for block in found]
        stop = len(human) - human[::-1].index(True) if any(human) else 0
        began = next((place for place, block in enumerate(found) if block[0].id in asked), None)
        start = stop
        while start > (began or 0) and human[start - 1]:
            start -= 1
        return cls(lead, found, range(start, stop), start if began is None else began)

    def begin(self, start: int) -> int:
        """Where a window really begins that is to begin at block `start`: with a person, or behind the question."""
        if start >= self.question.stop:
            return start
        while start < self.question.start and not isinstance(self.blocks[start][0], HumanMessage):
            start += 1
        return min(start, self.question.start)

    def since(self, start: int) -> Block:
        """What is read from block `start` on; the question of the turn is always in it."""
        asked = self.blocks[self.question.start : self.question.stop] if start >= self.question.stop else []
        return [message for block in asked + self.blocks[start:] for message in block]

    def place(self, id: str | None) -> int:
        """The block with that id, or what is shown in front of it for its turn; the first one where there is none."""
        found = next((place for place, block in enumerate(self.blocks) if id and block[0].id == id), 0)
        while found and is_transient(self.blocks[found - 1][0]):
            found -= 1
        return found

    def id_at(self, place: int) -> str | None:
        """The id by which `place` finds that block again: of the first message from there on that the thread keeps."""
        return next((block[0].id for block in self.blocks[place:] if not is_transient(block[0])), None)

    def front(self, place: int) -> str:
        """What tells the blocks in front of that one from others: a digest of their ids."""
        return hashlib.sha256("\0".join(str(block[0].id) for block in self.blocks[:place]).encode()).hexdigest()

    def cut(self, fits: Callable[[Block], bool]) -> int:
        """The first block from which on all fits; the last one where nothing does, so that there is always something.

        Asks as often as a bisection does: a counter may be a request to the provider.
        """
        last = max(len(self.blocks) - 1, 0)
        return bisect_left(range(last), True, key=lambda place: fits(self.since(self.begin(place))))


@dataclass(frozen=True)
class Bounds:
    """How long a window may be, and to which share of that it is cut when it is longer."""

    max_messages: int | None
    max_tokens: int | None
    keep: float
    count: Count | None

    def check(self, name: str) -> None:
        """Raise ConfigurationError for bounds that cannot be kept."""
        given = {"max_messages": self.max_messages, "max_tokens": self.max_tokens}
        if all(value is None for value in given.values()):
            raise ConfigurationError(f"filter {name!r}: give max_messages= or max_tokens=")
        for field, value in given.items():
            if value is not None and not is_whole(value):
                raise ConfigurationError(f"filter {name!r}: {field} is a whole number above zero, not {value!r}")
        if not is_number(self.keep) or not 0 < self.keep <= 1:
            raise ConfigurationError(f"filter {name!r}: keep is a share above 0 and up to 1, not {self.keep!r}")
        if self.count is not None and not callable(self.count):
            raise ConfigurationError(f"filter {name!r}: count is a function that gives the tokens of messages")

    def start(self, conversation: Conversation, before: str | None, model: Any, front: Sequence[BaseMessage]) -> int:
        """The block at which the window starts: where it did before, as long as that fits.

        `front` stands before it; where nothing does, it begins with a person.
        """
        count = self.count or Counter(model)

        def fits(shown: Block, share: float = self.keep) -> bool:
            if self.max_messages is not None and len(shown) > self.max_messages * share:
                return False
            whole = [*conversation.lead, *front, *shown]
            return self.max_tokens is None or awaited(count(whole)) <= self.max_tokens * share

        start = conversation.place(before)
        if not front:
            start = conversation.begin(start)
        if fits(conversation.since(start), 1):
            return start
        return conversation.begin(max(start, conversation.cut(fits)))


class Counter:
    """Counts tokens for one model call as the model does, or estimates them.

    A counter may ask the provider (Anthropic's does) or load a vocabulary (OpenAI's does), and fail: a turn does not
    fail for that. That of langchain-core, for models without their own, would load GPT-2's, so it is not used.
    """

    _OWN = ("get_num_tokens", "get_num_tokens_from_messages", "get_token_ids")

    def __init__(self, model: Any) -> None:
        kind: Any = type(model)
        base = BaseChatModel
        own = isinstance(model, base) and any(getattr(kind, name) is not getattr(base, name) for name in self._OWN)
        self._own: Count | None = model.get_num_tokens_from_messages if own else None

    def __call__(self, messages: Block) -> int:
        """The tokens of the messages."""
        if self._own is not None:
            try:
                own = wait(asyncio.to_thread(self._own, messages)) if waits_on_loop() else self._own(messages)
                return int(own)
            except Exception as error:
                log.warning("tokens are estimated, the model's own counter failed: %s", type(error).__name__)
                self._own = None
        return count_tokens_approximately(messages)
