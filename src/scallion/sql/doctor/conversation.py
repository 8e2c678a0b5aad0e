"""A conversation as every provider takes it: behind a message with calls one result for each, and none elsewhere."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from uuid import uuid4

from langchain_core.messages import AIMessage, BaseMessage, ToolMessage

from scallion.sql.doctor.findings import Kind

INTERRUPTED = "interrupted: there is no result of this call, and whether it took effect is not known"
"""What a call is answered with that has no result."""


class Flaw(NamedTuple):
    """What is wrong at one place of a conversation. `subject`: a call's id."""

    kind: Kind
    subject: str
    tool: str


@dataclass(frozen=True)
class Mended:
    """The flaws of a conversation, and how it goes without them: the messages themselves, with their ids."""

    flaws: Sequence[Flaw]
    messages: Sequence[Any]


@dataclass
class _Batch:
    """A message of the model with its calls, by id, and the results that were found for them."""

    place: int
    calls: dict[str, str]
    results: dict[str, ToolMessage] = field(default_factory=dict)

    @property
    def open(self) -> dict[str, str]:
        return {id: tool for id, tool in self.calls.items() if id not in self.results}

    def takes(self, result: ToolMessage) -> bool:
        """Whether it is a result of an open call, or a real one in place of what a repair gave."""
        id = result.tool_call_id
        return id in self.open or (id in self.results and _stands_in(self.results[id]) and not _stands_in(result))


def _stands_in(result: ToolMessage) -> bool:
    """Whether a repair made it: the real result may come late."""
    return result.content == INTERRUPTED and result.status == "error"


def is_read(messages: Sequence[Any]) -> bool:
    """Whether all of it can be judged: messages in no other form, and of no class that is unknown here."""
    return all(isinstance(one, BaseMessage) for one in messages)


def open_calls(messages: Sequence[Any]) -> tuple[str | None, Sequence[str]]:
    """The id of the message at the end, with nothing but results behind it, and its calls that have none."""
    batches, _ = _sorted(messages)
    if not batches or not _ends(messages, batches[-1]):
        return None, ()
    return messages[batches[-1].place].id, list(batches[-1].open)


def mended(messages: Sequence[Any], *, is_open: bool = False) -> Mended:
    """What is wrong with the messages. `is_open`: the calls of the last batch may still get their results."""
    batches, loose = _sorted(messages)
    last = batches[-1] if is_open and batches and _ends(messages, batches[-1]) else None
    flaws = [_placed(result, place, batches) for place, result in loose]
    for batch in (one for one in batches if one is not last):
        for id, tool in batch.open.items():
            flaws.append(Flaw("dangling_call", id, tool))
            batch.results[id] = _answer(id, tool)
    return Mended(flaws, list(_in_order(messages, batches)) if flaws else messages)


def _sorted(messages: Sequence[Any]) -> tuple[list[_Batch], list[tuple[int, ToolMessage]]]:
    """The batches with the results that stand right behind them; the other results, each with its place."""
    batches: list[_Batch] = []
    loose: list[tuple[int, ToolMessage]] = []
    current: _Batch | None = None
    for place, message in enumerate(messages):
        if not isinstance(message, ToolMessage):
            current = _batch(place, message)
            batches += [current] if current else []
        elif current is not None and message.tool_call_id in current.open:
            current.results[message.tool_call_id] = message
        else:
            loose.append((place, message))
    return batches, loose


def _batch(place: int, message: Any) -> _Batch | None:
    if not isinstance(message, AIMessage):
        return None
    made = [*message.tool_calls, *message.invalid_tool_calls]  # providers want an answer to broken calls too
    calls = {str(call["id"]): str(call["name"] or "?") for call in made if call["id"]}
    return _Batch(place, calls) if calls else None


def _ends(messages: Sequence[Any], batch: _Batch) -> bool:
    """Whether nothing but results comes behind the batch."""
    return all(isinstance(message, ToolMessage) for message in messages[batch.place + 1 :])


def _placed(result: ToolMessage, place: int, batches: Sequence[_Batch]) -> Flaw:
    """Put a result that stands alone to its call: the nearest one before it, or else behind it; or to none."""
    id, tool = result.tool_call_id, result.name or "?"
    before = [one for one in batches if one.place < place and one.takes(result)][-1:]
    fitting = before or [one for one in batches if one.place > place and one.takes(result)][:1]
    if not fitting:
        return Flaw("orphan_result", id, tool)
    fitting[0].results[id] = result
    return Flaw("misplaced_result", id, tool)


def _answer(id: str, tool: str) -> ToolMessage:
    return ToolMessage(INTERRUPTED, tool_call_id=id, name=tool, status="error", id=str(uuid4()))


def _in_order(messages: Sequence[Any], batches: Sequence[_Batch]) -> Iterator[Any]:
    """All messages but results, and behind each batch its results."""
    by_place = {batch.place: batch for batch in batches}
    for place, message in enumerate(messages):
        if not isinstance(message, ToolMessage):
            yield message
            yield from by_place[place].results.values() if place in by_place else ()
