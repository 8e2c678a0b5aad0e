"""A value comes back equal and of the same type, or is refused when it is written and the thread stays usable."""

from __future__ import annotations

import re
import uuid
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum
from ipaddress import ip_address
from pathlib import Path
from typing import Any, NamedTuple, TypedDict
from zoneinfo import ZoneInfo

import pytest
from checkpoints.test_storage import Writer, message
from langchain_core.documents import Document
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langgraph.graph import START, StateGraph
from langgraph.types import Command, Interrupt, Send, interrupt
from pydantic import BaseModel

from scallion.errors import NotSerializable
from scallion.sql.saver import SQLCheckpointer


class Model(BaseModel):
    n: int = 1


@dataclass
class Row:
    n: int = 1
    late: int = field(default=0, init=False)


@dataclass
class Plain:
    n: Any = 1


class Colour(Enum):
    RED = 1


class Pair(NamedTuple):
    a: int
    b: int


class Mine(HumanMessage):
    pass


COMES_BACK: dict[str, Any] = {
    "big": 2**80,
    "negative": -(2**64),
    "64 bits": [2**63, 2**64 - 1, -(2**63)],
    "deep big": {"a": [{"b": (2**70, "x" * 300)}]},
    "tuple": (1, (2, [3, ()])),
    "set": {1, "a", (1, 2)},
    "frozenset": frozenset((1, 2**90)),
    "deque": deque([1, 2], maxlen=4),
    "decimal": [Decimal("1.10"), Decimal("Infinity")],
    "utc": datetime(2026, 1, 1, tzinfo=UTC),
    "offset": datetime(2026, 1, 1, tzinfo=timezone(timedelta(hours=2), "here")),
    "zone": datetime(2026, 10, 25, 2, 30, tzinfo=ZoneInfo("Europe/Berlin"), fold=1),
    "naive": datetime(2026, 1, 1, 1, 1, 1, 1),
    "times": [date(2026, 1, 1), time(1, 2, tzinfo=UTC), timedelta(-1, 5), ZoneInfo("Europe/Rome")],
    "uuid": uuid.UUID(int=7),
    "nan": [float("nan"), float("-inf"), -0.0],
    "surrogates": ["\ud800", {"a": ("x\udfff" * 90,)}],
    "bytes": [b"\0\xff", {"a": b""}],
    "other": [Path("/a/b"), re.compile("a+", re.IGNORECASE), ip_address("::1")],
    "keys": {1: "a", (1, 2): "b", None: "c", False: "d"},
    "send": [Send("n", {"x": 2**80, "y": (1,)})],
    "interrupt": (Interrupt(value=(2**80,), id="1"),),
    "command": Command(update={"a": (1,)}, resume="x"),
    "documents": ToolMessage("x", tool_call_id="1", artifact=[Document("x", metadata={"a": (1,)})]),
    "arguments": AIMessage("", tool_calls=[{"name": "f", "args": {"x": 2**80}, "id": "1", "type": "tool_call"}]),
    "extra": HumanMessage("\ud800", id="1", mood=("calm",)),
    "messages": [message(n) for n in range(8)],
}

REFUSED: dict[str, tuple[Any, str]] = {
    "model": (Model(), "Model"),
    "models": ([{"a": (Model(),)}], "Model"),
    "dataclass": ({"a": Plain()}, "Plain"),
    "enum": ([Colour.RED], "Colour"),
    "pair": (Pair(1, 2), "Pair"),
    "artifact": (ToolMessage("x", tool_call_id="1", artifact=Model()), "Model"),
    "artifacts": ([ToolMessage("x", tool_call_id="1", artifact={"a": [Colour.RED]})], "Colour"),
    "additional": (HumanMessage("x", additional_kwargs={"a": Plain()}), "Plain"),
    "subclass": (Mine("x"), "Mine"),
    "send": ([Send("n", Model())], "Model"),
    "object": (object(), "object"),
    "function": ([len], "builtin_function_or_method"),
    "nested error": ([ValueError("x")], "ValueError"),
}


def told(value: Any) -> Any:
    """What the value is, types included: NaN is not equal to itself, and 1 is equal to True."""
    if isinstance(value, dict):
        return {key: told(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return type(value), [told(part) for part in value]
    return type(value), repr(value)


@pytest.mark.parametrize("value", COMES_BACK.values(), ids=COMES_BACK)
def test_a_value_comes_back(database: str, value: Any) -> None:
    with SQLCheckpointer(database) as saver:
        id = Writer(saver).put(None, {"c": value, "d": {"deep": [value]}}, {"c": 1, "d": 1}, {"c": 1, "d": 1})
        place = {"configurable": {"thread_id": "t", "checkpoint_ns": "", "checkpoint_id": id}}
        saver.put_writes(place, [("c", value), ("__resume__", [value])], "task")
    with SQLCheckpointer(database) as other:
        back = Writer(other).get(id)
        assert told(back) == told({"c": value, "d": {"deep": [value]}})
        found = other.get_tuple(place)
        assert found is not None
        assert {name: told(written) for _, name, written in found.pending_writes or ()} == {
            "c": told(value),
            "__resume__": told([value]),
        }


@pytest.mark.parametrize(("value", "type"), REFUSED.values(), ids=REFUSED)
def test_a_value_is_refused(saver: SQLCheckpointer, value: Any, type: str) -> None:
    writer = Writer(saver)
    first = writer.put(None, {"c": 1}, {"c": 1}, {"c": 1})
    for _ in range(2):
        with pytest.raises(NotSerializable) as refused:
            writer.put(first, {"c": value}, {"c": 2}, {"c": 2})
        assert (refused.value.channel, refused.value.type) == ("c", type)
    place = {"configurable": {"thread_id": "t", "checkpoint_ns": "", "checkpoint_id": first}}
    with pytest.raises(NotSerializable):
        saver.put_writes(place, [("c", value)], "task")
    assert writer.get(first) == {"c": 1}


ALLOWED = [Model(n=2), Plain(n=(1,)), Colour.RED, Pair(1, 2), Mine("x")]


@pytest.mark.parametrize("value", ALLOWED, ids=lambda value: type(value).__name__)
def test_an_allowed_type_comes_back(saver: SQLCheckpointer, value: Any) -> None:
    allowed = saver.with_allowlist({(type(value).__module__, type(value).__name__)})
    for one in (value, ToolMessage("x", tool_call_id="1", artifact=[value])):
        writer = Writer(allowed)
        assert told(writer.get(writer.put(None, {"c": one}, {"c": 1}, {"c": 1}))) == told({"c": one})
        with pytest.raises(NotSerializable):
            Writer(saver).put(None, {"c": one}, {"c": 1}, {"c": 1})


def test_an_allowed_type_that_comes_back_changed_is_refused(saver: SQLCheckpointer) -> None:
    allowed = saver.with_allowlist({(Row.__module__, "Row")})
    with pytest.raises(NotSerializable):
        Writer(allowed).put(None, {"c": Row()}, {"c": 1}, {"c": 1})


def test_a_value_that_contains_itself_is_refused(saver: SQLCheckpointer) -> None:
    round_and_round: list[Any] = []
    round_and_round.append(round_and_round)
    with pytest.raises(NotSerializable):
        Writer(saver).put(None, {"c": round_and_round}, {"c": 1}, {"c": 1})


class State(TypedDict):
    value: Any


def graph_of(saver: Any, node: Callable[[State], Any]) -> Any:
    graph = StateGraph(State)
    graph.add_node("node", node)
    graph.add_edge(START, "node")
    return graph.compile(checkpointer=saver)


def test_a_thread_stays_usable_after_a_refusal(saver: SQLCheckpointer) -> None:
    config = {"configurable": {"thread_id": "t"}}
    bad = graph_of(saver, lambda state: {"value": Model()})
    with pytest.raises(NotSerializable):
        bad.invoke({"value": 1}, config)
    good = graph_of(saver, lambda state: {"value": state["value"] + 1})
    assert good.invoke({"value": 2}, config) == {"value": 3}
    assert good.get_state(config).values == {"value": 3}


def test_big_answers_and_values_run(saver: SQLCheckpointer) -> None:
    config = {"configurable": {"thread_id": "t"}}
    graph = graph_of(saver, lambda state: {"value": (interrupt("how many?"), state["value"])})
    graph.invoke({"value": 2**70}, config)
    assert graph.invoke(Command(resume=2**80), config) == {"value": (2**80, 2**70)}
