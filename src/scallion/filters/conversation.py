"""The conversation that an input or an output filter edits.

It is edited as it stands: a message that is read and changed in place is changed in the conversation too. A view, which
several checks share, is for reading only.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from operator import is_not
from typing import Any, Literal, Self

from langchain_core.messages import AIMessage, BaseMessage, ToolMessage

from scallion.bridge import awaited
from scallion.errors import ConfigurationError
from scallion.filters.filtering import MessageFilter, in_colour, resolved
from scallion.filters.replies import BadReply
from scallion.history import calls_of

Where = Literal["latest", "all"]
Change = Callable[[BaseMessage], BaseMessage | None]
Old = str | re.Pattern[str]


def replaced(text: str, old: Old, new: Any) -> str:
    """The text with every `old` replaced.

    For a string both are literal. For a pattern `new` is Python's template (`\\\\1`) or a function of the match. An
    empty match right behind another one is left, so that `.*` gives one `new` and not two.
    """
    if isinstance(old, str):
        if not isinstance(new, str):
            raise BadReply(f"a text is replaced by a text, not {type(new).__name__}")
        if not old:
            raise ConfigurationError("an empty text cannot be replaced: it is everywhere")
        return text.replace(old, new)
    if not hasattr(old, "finditer"):
        raise BadReply(f"a text or a compiled pattern can be replaced, not {type(old).__name__}")
    parts, end = [], 0
    for match in old.finditer(text):
        if match.end() == match.start() == end and end > 0:
            continue
        parts += [text[end : match.start()], new(match) if callable(new) else match.expand(new)]
        end = match.end()
    return "".join([*parts, text[end:]])


def map_text(message: BaseMessage, change: Callable[[str], str]) -> BaseMessage:
    """The message with each of its texts changed, also those among other blocks of its content."""
    if isinstance(message.content, str):
        return message.model_copy(update={"content": change(message.content)})
    content = [_mapped(block, change) for block in message.content]
    return message.model_copy(update={"content": content})


def _mapped(block: Any, change: Callable[[str], str]) -> Any:
    if isinstance(block, str):
        return change(block)
    return {**block, "text": change(block["text"])} if isinstance(block.get("text"), str) else block


def with_text(message: BaseMessage, text: str) -> BaseMessage:
    """The message with this text, in the place of its first one; pictures and the like stay."""
    if not isinstance(text, str):
        raise BadReply(f"the text of a message is a str, not {type(text).__name__}")
    if isinstance(message.content, str):
        return message.model_copy(update={"content": text})
    rest = [one for one in message.content if not isinstance(one, str) and one.get("type") != "text"]
    return message.model_copy(update={"content": [{"type": "text", "text": text}, *rest]})


def without(messages: Sequence[BaseMessage], dropped: set[int]) -> list[BaseMessage]:
    """The messages without those at these places, and without what would be left of a round of calls and results."""
    rounds = _rounds(messages)
    gone = {rounds[place] for place in dropped if place in rounds}
    return [one for place, one in enumerate(messages) if place not in dropped and rounds.get(place) not in gone]


def without_results(before: Sequence[BaseMessage], after: Sequence[BaseMessage]) -> list[BaseMessage]:
    """The messages `after`, each in the place of one of `before`, without results whose calls were taken out."""
    rounds = _rounds(before)
    return [
        one
        for place, one in enumerate(after)
        if not isinstance(one, ToolMessage) or place not in rounds or one.tool_call_id in _ids(after[rounds[place]])
    ]


def _ids(message: BaseMessage) -> set[str | None]:
    """The ids of the calls of a message; malformed ones have one too."""
    return {call["id"] for call in calls_of(message)} if isinstance(message, AIMessage) else set()


def _rounds(messages: Sequence[BaseMessage]) -> dict[int, int]:
    """For each place of calls or of a result, that of the calls. Ids come again: a result is of the call before it."""
    rounds: dict[int, int] = {}
    asked: dict[str | None, int] = {}
    for place, one in enumerate(messages):
        if ids := _ids(one):
            rounds[place] = place
            asked |= dict.fromkeys(ids, place)
        elif isinstance(one, ToolMessage) and one.tool_call_id in asked:
            rounds[place] = asked[one.tool_call_id]
    return rounds


class Conversation:
    """Messages, of which the latest is the one that a filter is about."""

    __slots__ = ("_copies", "_given", "_messages", "_writable")

    def __init__(self, messages: Iterable[BaseMessage], *, writable: bool = True) -> None:
        self._given = list(messages)
        self._messages = [*self._given]
        self._copies: dict[int, tuple[BaseMessage, BaseMessage]] = {}
        self._writable = writable

    @property
    def messages(self) -> list[BaseMessage]:
        """The conversation as it is now; a message that nobody changed is the very one that was given."""
        return [self._original(one) for one in self._messages]

    @property
    def is_changed(self) -> bool:
        """Whether it is another conversation than was given."""
        now = self.messages
        return len(now) != len(self._given) or any(map(is_not, now, self._given))

    @property
    def message(self) -> str:
        """The text of the latest message."""
        return str(self._latest().text)

    @message.setter
    def message(self, text: str) -> None:
        self._put(with_text(self._latest(), text), "message")

    def replace(self, old: Old, new: Any, *, where: Where = "latest") -> None:
        """Put `new` in the place of each `old` in the latest message, or in `all`.

        A string is taken literally, as is what comes in its place. For a compiled pattern `new` is Python's template
        (`\\1` is a group) or a function of the match.
        """
        self._change(lambda message: map_text(message, lambda text: replaced(text, old, new)), where, "replace")

    def remove(self, old: Old, *, where: Where = "latest") -> None:
        """Take each `old` out of the latest message, or of all; spaces around it stay."""
        self._change(lambda message: map_text(message, lambda text: replaced(text, old, "")), where, "remove")

    def apply(self, what: MessageFilter | type, *, where: Where = "latest") -> Any:
        """Have a message filter change the latest message, or all; None drops it, with its pair of call and result.

        A class is made an instance by the agent's `resolve`. In an `async def` filter, await it.
        """
        return in_colour("apply()", self._apply, what, where)

    def view(self) -> Self:
        """The same for reading only."""
        return type(self)(self.messages, writable=False)

    def _apply(self, what: MessageFilter | type, where: Where) -> None:
        one = resolved(what)
        self._change(lambda message: awaited(one.filter(message)), where, "apply")

    def _latest(self) -> BaseMessage:
        if not self._messages:
            raise LookupError("no message is left in the conversation")
        return self._own(len(self._messages) - 1)

    def _all(self) -> tuple[BaseMessage, ...]:
        return tuple(map(self._own, range(len(self._messages))))

    def _own(self, place: int) -> BaseMessage:
        """The message at this place as a copy of ours: whoever is given it may change it."""
        one = self._messages[place]
        if place < len(self._given) and one is self._given[place]:
            copied = one.model_copy(deep=True)
            self._copies[id(copied)] = (copied, one)
            self._messages[place] = copied
        return self._messages[place]

    def _original(self, one: BaseMessage) -> BaseMessage:
        original = self._copies.get(id(one), (one, one))[1]
        return original if original == one else one

    def _put(self, message: BaseMessage, field: str) -> None:
        """Put a message in the place of the latest one."""
        self._change(lambda _: message, "latest", field)

    def _set(self, messages: Iterable[BaseMessage], field: str) -> None:
        """Put other messages in the place of all."""
        self._write(field)
        given = list(messages)
        if wrong := [one for one in given if not isinstance(one, BaseMessage)]:
            raise BadReply(f"{field} holds messages, not {type(wrong[0]).__name__}")
        self._messages = given

    def _change(self, change: Change, where: Where, field: str) -> None:
        """Change the latest message, or all; what `change` gives None for is dropped."""
        self._write(field)
        if where not in ("latest", "all"):
            raise ConfigurationError(f'where is "latest" or "all", not {where!r}')
        self._latest()
        dropped = set()
        for place in range(len(self._messages)) if where == "all" else [len(self._messages) - 1]:
            if (changed := change(self._own(place))) is None:
                dropped.add(place)
            elif not isinstance(changed, BaseMessage):
                raise BadReply(f"{field} takes a message or None, not {type(changed).__name__}")
            elif changed != self._messages[place]:
                self._messages[place] = changed
        if dropped:
            self._messages = without(self._messages, dropped)

    def _write(self, field: str) -> None:
        if not self._writable:
            raise AttributeError(f"{field} changes the conversation, and checks that run in parallel may only read it")


class InputConversation(Conversation):
    """What the turn is given: `input` (its messages), `input_message` (the latest), `message` (its text)."""

    __slots__ = ()

    @property
    def input(self) -> tuple[BaseMessage, ...]:
        """The messages of this turn; not the history of the thread, which was filtered when it came in."""
        return self._all()

    @input.setter
    def input(self, messages: Iterable[BaseMessage]) -> None:
        self._set(messages, "input")

    @property
    def input_message(self) -> BaseMessage:
        """The latest of them."""
        return self._latest()

    @input_message.setter
    def input_message(self, message: BaseMessage) -> None:
        self._put(message, "input_message")


class OutputConversation(Conversation):
    """What the turn came to: `output` (the conversation with the answer), `output_message`, `message` (its text).

    `input`, what the turn was given, is for reading only.
    """

    __slots__ = ("_input",)

    def __init__(
        self, messages: Iterable[BaseMessage], given: Iterable[BaseMessage] = (), *, writable: bool = True
    ) -> None:
        super().__init__(messages, writable=writable)
        self._input = Conversation(given)

    @property
    def input(self) -> tuple[BaseMessage, ...]:
        """What the turn was given, as the input filters made it; read only."""
        return self._input._all()

    def view(self) -> Self:
        """The same for reading only."""
        return type(self)(self.messages, self._input.messages, writable=False)

    @property
    def is_changed(self) -> bool:
        """Whether it is another conversation than was given; raises AttributeError where `input` was written into."""
        if self._input.is_changed:
            raise AttributeError("input is read only in an output filter: change output")
        return super().is_changed

    @property
    def output(self) -> tuple[BaseMessage, ...]:
        """The whole conversation, with the answer as its end."""
        return self._all()

    @output.setter
    def output(self, messages: Iterable[BaseMessage]) -> None:
        self._set(messages, "output")

    @property
    def output_message(self) -> BaseMessage:
        """The answer."""
        return self._latest()

    @output_message.setter
    def output_message(self, message: BaseMessage) -> None:
        self._put(message, "output_message")
