"""What a guard takes out of all that leaves a call: replies, streams, events, questions, traces and errors.

A filter with a `mask` stands right around model and tools, and around all of the turn. Whoever makes the innermost call
shows what came of it to the masks before anybody else sees it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from langchain_core.messages import AIMessage, BaseMessage

from scallion.filters.filter import Filter
from scallion.filters.guarding import Place
from scallion.filters.journal import Frame, current_frame
from scallion.filters.state import State
from scallion.filters.tokens import TokenTransform
from scallion.values import Completed, ToolReply, ToolRequest

if TYPE_CHECKING:
    from scallion.filters.onion import Innermost, Run

M = TypeVar("M", bound=BaseMessage)
Share = tuple[int, int]
"""The place of a call in its batch, and how many calls that has: they run side by side, and do not see each other."""
ALONE: Share = (0, 1)


@dataclass
class Rest:
    """What a stream held back to its end."""

    text: str = ""
    reasoning: str = ""
    args: Mapping[Any, str] = field(default_factory=dict)
    """By the index of the tool call."""


class StreamMask(Protocol):
    """The mask of one answer that comes in pieces; together they are what the mask makes of the whole."""

    def text(self, piece: str) -> str:
        """What may leave of the text with this piece."""

    def reasoning(self, piece: str) -> str:
        """The same of what the model thinks."""

    def args(self, index: Any, piece: str) -> str:
        """The same of the arguments of one tool call, which are JSON text."""

    def end(self) -> Rest:
        """The answer is whole."""


class Mask(Protocol):
    """What one guard takes out, for one run of a chain."""

    def reply(self, message: AIMessage) -> AIMessage:
        """What the model answered; tells what was found."""

    def result(self, reply: ToolReply) -> ToolReply:
        """What a tool gave; tells what was found."""

    def value(self, value: Any, place: Place | None = None) -> Any:
        """Messages, arguments, texts and plain data of any kind, for whoever only looks on."""

    def error(self, error: BaseException) -> BaseException:
        """An error of the same class, without what may not be seen."""

    def stream(self) -> StreamMask:
        """The mask of an answer that comes in pieces."""

    def behind(self) -> tuple[str, TokenTransform] | None:
        """What the reader of the stream gets of it in place of that, behind all transforms; by the guard's name."""

    def kept(self, message: BaseMessage) -> BaseMessage:
        """A message that the thread held before: what may not pass is taken out of it too, and stops nothing."""

    def restored(self, result: Completed) -> Completed:
        """What the caller gets of a result that is stored already."""


class Masks:
    """All masks of a run, the innermost first."""

    def __init__(self, masks: Sequence[Mask]) -> None:
        self._masks = masks

    def __bool__(self) -> bool:
        return bool(self._masks)

    def reply(self, message: AIMessage) -> AIMessage:
        """As a mask."""
        for one in self._masks:
            message = one.reply(message)
        return message

    def result(self, reply: ToolReply) -> ToolReply:
        """As a mask."""
        for one in self._masks:
            reply = one.result(reply)
        return reply

    def outcome(self, reply: Any, held: Sequence[BaseMessage]) -> Any:
        """What a layer of a chain came to: it, or a person, may have answered in place of model or tool.

        `held`: what the thread held before.
        """
        if not self._masks:
            return reply
        if isinstance(reply, ToolReply):
            return self.result(reply)
        message = self.reply(reply.message)
        changed: dict[str, Any] = {} if message is reply.message else {"message": message}
        for name, own in (("messages", held), ("stored", held), ("results", ())):
            if given := getattr(reply, name, None):
                rest = [message if one is reply.message else one for one in given]
                changed |= {name: self.messages(rest, own)}
        return reply.replace(**changed) if changed else reply

    def messages(self, messages: Sequence[BaseMessage], held: Sequence[BaseMessage]) -> list[BaseMessage]:
        """The messages; those that the thread held before just so stop nothing."""
        known = {one.id: one for one in held}
        made = list(messages)
        for place, one in enumerate(messages):
            is_held = known.get(one.id) == one
            for mask in self._masks:
                made[place] = mask.kept(made[place]) if is_held else mask.value(made[place])
        return made

    def value(self, value: Any, place: Place | None = None) -> Any:
        """As a mask."""
        for one in self._masks:
            value = one.value(value, place)
        return value

    def error(self, error: BaseException) -> BaseException:
        """As a mask."""
        for one in self._masks:
            error = one.error(error)
        return error

    def stream(self) -> StreamMask:
        """As a mask."""
        streams = [one.stream() for one in self._masks]
        return streams[0] if len(streams) == 1 else _Streams(streams)

    def behind(self) -> list[tuple[str, TokenTransform]]:
        """The transforms behind all others."""
        found = [one.behind() for one in reversed(self._masks)]
        return [one for one in found if one is not None]

    def restored(self, result: Completed) -> Completed:
        """As a mask."""
        for one in reversed(self._masks):
            result = one.restored(result)
        return result


class _Streams:
    """The pieces pass one mask behind the other."""

    def __init__(self, streams: Sequence[StreamMask]) -> None:
        self._streams = streams

    def text(self, piece: str) -> str:
        for one in self._streams:
            piece = one.text(piece) if piece else ""
        return piece

    def reasoning(self, piece: str) -> str:
        for one in self._streams:
            piece = one.reasoning(piece) if piece else ""
        return piece

    def args(self, index: Any, piece: str) -> str:
        for one in self._streams:
            piece = one.args(index, piece) if piece else ""
        return piece

    def end(self) -> Rest:
        rest = Rest()
        for one in self._streams:
            text, reasoning = one.text(rest.text), one.reasoning(rest.reasoning)
            args = {index: one.args(index, piece) for index, piece in rest.args.items()}
            last = one.end()
            indices = [*args, *(index for index in last.args if index not in args)]
            joined = {index: args.get(index, "") + last.args.get(index, "") for index in indices}
            rest = Rest(text + last.text, reasoning + last.reasoning, joined)
        return rest


NONE = Masks(())


def masking(filters: Iterable[Filter]) -> list[Filter]:
    """The filters that have a mask."""
    return [one for one in filters if one.mask is not None]


def masks_of(filters: Iterable[Filter], run: Run, share: Share = ALONE) -> Masks:
    """The masks of these filters for this run."""
    made = [one.mask(State(run, one.name), share) for one in filters if one.mask is not None]
    return Masks(made[::-1]) if made else NONE


def shown_args(request: ToolRequest) -> Any:
    """The arguments of a call for who only looks on: a person may have given other ones. Raises Blocked."""
    return current_frame.get().run.masks.value(request.call["args"], "tool_args")


def shown(messages: Sequence[BaseMessage]) -> list[BaseMessage]:
    """The messages of a request for who only looks on: a filter outside may have added some. Raises Blocked."""
    run = current_frame.get().run
    return run.masks.messages(messages, run.history)


def entered_clean(filters: Iterable[Filter], innermost: Innermost) -> Innermost:
    """The loop is entered with what the masks leave of the messages, whatever filters around the turn put into them."""
    if not masking(filters):
        return innermost

    def call(request: Any, frame: Frame) -> Any:
        messages = frame.run.masks.messages(request.messages, frame.run.history)
        return innermost(request.replace(messages=messages), frame)

    return call


def cleaner(filters: Iterable[Filter]) -> Callable[..., Any] | None:
    """What takes out of a value, before any turn, what no table may hold; None where no filter does so.

    `cleaner(filters)(value, waits=False)`; what `waits` for its turn may come with what the turn makes of it.
    """
    having = masking(filters)
    if not having:
        return None

    def clean(value: Any, *, waits: bool = False) -> Any:
        for one in having:
            value = one.clean(value, waits=waits)
        return value

    return clean
