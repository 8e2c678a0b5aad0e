"""What did not change is not serialised again, and what changed in place is stored as it is now."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy
import pytest
from checkpoints.test_storage import Writer, message
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, RemoveMessage, ToolMessage
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from scallion.sql.saver import SQLCheckpointer


class Counting(JsonPlusSerializer):
    """Counts what it serialises."""

    count = 0

    def dumps_typed(self, obj: Any) -> tuple[str, bytes]:
        self.count += 1
        return super().dumps_typed(obj)


def history(length: int) -> list[AnyMessage]:
    return [message(n) for n in range(length)]


@pytest.mark.parametrize("loaded", [False, True])
def test_only_new_messages_are_serialised(database: str, loaded: bool) -> None:
    serde = Counting(allowed_msgpack_modules=None)
    with SQLCheckpointer(database, serde=serde) as saver:
        writer, messages = Writer(saver), history(200)
        parent = writer.put(None, {"messages": messages}, {"messages": 1}, {"messages": 1})
        if loaded:
            messages = writer.get(parent)["messages"]
        serde.count = 0
        for n in range(2, 12):
            messages = [*messages, message(200 + n)]
            parent = writer.put(parent, {"messages": messages}, {"messages": n}, {"messages": n})
        assert serde.count == 10
        assert writer.get(parent)["messages"] == messages
        serde.count = 0
        kept = messages[5:100] + messages[120:]
        parent = writer.put(parent, {"messages": kept}, {"messages": 12}, {"messages": 12})
        assert serde.count == 0
        assert writer.get(parent)["messages"] == kept


def _call(message: AnyMessage) -> dict[str, Any]:
    assert isinstance(message, AIMessage)
    args: dict[str, Any] = message.tool_calls[0]["args"]
    return args


CHANGES: dict[str, Callable[[list[AnyMessage]], Any]] = {
    "text": lambda messages: setattr(messages[0], "content", "other"),
    "same length": lambda messages: setattr(messages[0], "id", "9"),
    "none": lambda messages: setattr(messages[0], "name", "ana"),
    "empty dict": lambda messages: messages[0].additional_kwargs.update(seen=1),
    "extra": lambda messages: setattr(messages[0], "mood", "calm"),
    "block": lambda messages: messages[1].content[0].update(text="other"),  # type: ignore[union-attr]
    "deep": lambda messages: _call(messages[1]).update(n=2),
    "true for one": lambda messages: _call(messages[1]).update(n=True),
    "float for one": lambda messages: _call(messages[1]).update(n=1.0),
    "removed": lambda messages: _call(messages[1]).clear(),
    "artifact": lambda messages: messages[2].artifact["rows"].append(7),  # type: ignore[union-attr]
    "array": lambda messages: messages[2].artifact.update(rows=numpy.array([1, 2])),  # type: ignore[union-attr]
    "array as a field": lambda messages: setattr(messages[2], "artifact", numpy.array([1, 2])),
    "not plain": lambda messages: messages[0].additional_kwargs.update(pair=(1, 2)),
}


@pytest.mark.parametrize("loaded", [False, True])
@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_change_in_place_is_stored(
    saver: SQLCheckpointer, change: Callable[[list[AnyMessage]], Any], loaded: bool
) -> None:
    writer, messages = Writer(saver), history(8)
    first = writer.put(None, {"messages": messages}, {"messages": 1}, {"messages": 1})
    if loaded:
        messages = writer.get(first)["messages"]
    change(messages)
    messages = [*messages, HumanMessage("x" * 300, id="new")]
    second = writer.put(first, {"messages": messages}, {"messages": 2}, {"messages": 2})
    assert repr(writer.get(second)["messages"]) == repr(messages)
    assert writer.get(first)["messages"] == history(8)


@pytest.mark.parametrize("loaded", [False, True])
@pytest.mark.parametrize("number", [True, 1.0, -1, None])
def test_a_number_in_a_field_changes(saver: SQLCheckpointer, number: Any, loaded: bool) -> None:
    writer, messages = Writer(saver), [*history(8), ToolMessage("x" * 300, tool_call_id="c", artifact=1)]
    first = writer.put(None, {"messages": messages}, {"messages": 1}, {"messages": 1})
    if loaded:
        messages = writer.get(first)["messages"]
    messages[8].artifact = number  # type: ignore[union-attr]
    second = writer.put(first, {"messages": messages}, {"messages": 2}, {"messages": 2})
    assert repr(writer.get(second)["messages"][8].artifact) == repr(number)
    assert repr(writer.get(first)["messages"][8].artifact) == "1"


def test_another_process_writes_in_between(database: str) -> None:
    with SQLCheckpointer(database) as one, SQLCheckpointer(database) as two:
        ours, theirs, messages = Writer(one), Writer(two), history(9)
        first = ours.put(None, {"messages": messages}, {"messages": 1}, {"messages": 1})
        theirs.step = ours.step
        added = [*theirs.get(first)["messages"], message(50), message(51)]
        second = theirs.put(first, {"messages": added}, {"messages": 2}, {"messages": 2})
        ours.step = theirs.step
        fork = ours.put(first, {"messages": [*messages, message(60)]}, {"messages": 2}, {"messages": 2})
        third = ours.put(second, {"messages": [*added, message(61)]}, {"messages": 3}, {"messages": 3})
        for writer in (ours, theirs, Writer(SQLCheckpointer(one.database.engine))):
            assert writer.get(second)["messages"] == added
            assert writer.get(fork)["messages"] == [*messages, message(60)]
            assert writer.get(third)["messages"] == [*added, message(61)]


def test_another_process_prunes_in_between(database: str) -> None:
    with SQLCheckpointer(database) as one, SQLCheckpointer(database) as two:
        writer, messages = Writer(one), history(9)
        first = writer.put(None, {"messages": messages}, {"messages": 1}, {"messages": 1})
        second = writer.put(first, {"messages": messages[:3]}, {"messages": 2}, {"messages": 2})
        two.prune(["t"])
        third = writer.put(second, {"messages": messages}, {"messages": 3}, {"messages": 3})
        assert writer.get(third)["messages"] == Writer(two).get(third)["messages"] == messages


def test_lists_that_are_not_all_messages(saver: SQLCheckpointer) -> None:
    writer = Writer(saver)
    mixed = [*history(6), {"role": "user", "content": "x" * 300}, RemoveMessage(id="1"), "text"]
    first = writer.put(None, {"messages": mixed}, {"messages": 1}, {"messages": 1})
    assert writer.get(first)["messages"] == mixed
    again = [*writer.get(first)["messages"], message(7)]
    second = writer.put(first, {"messages": again}, {"messages": 2}, {"messages": 2})
    assert writer.get(second)["messages"] == again
