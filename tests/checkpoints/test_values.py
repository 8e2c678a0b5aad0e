"""A value comes back equal and of the same type, or is refused when it is written and the thread stays usable."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypedDict

import pytest
from checkpoints import kinds
from checkpoints.databases import everywhere
from checkpoints.kinds import ALLOWED, Model, Pair, Plain, told
from checkpoints.test_storage import Writer
from checkpoints.test_types import KINDS, REFUSED
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.graph import START, StateGraph
from langgraph.types import Command, interrupt
from pydantic import BaseModel

from scallion.errors import NotSerializable, TypeBlocked
from scallion.sql.saver import SQLCheckpointer

LISTED = [(kind.__module__, kind.__name__) for kind in ALLOWED]
LONG = "x" * 300
"""With it a list or dict is long enough to be taken apart."""


@pytest.mark.parametrize("value", KINDS.values(), ids=KINDS)
def test_a_value_comes_back(database: str, value: Any) -> None:
    values = {"c": value, "list": [LONG, value, (value,)], "dict": {"a": LONG, "deep": [value]}}
    versions = dict.fromkeys(values, 1)
    with SQLCheckpointer(database) as saver:
        id = Writer(saver.with_allowlist(LISTED)).put(None, values, versions, versions)
        place = {"configurable": {"thread_id": "t", "checkpoint_ns": "", "checkpoint_id": id}}
        saver.with_allowlist(LISTED).put_writes(place, [("c", value), ("__resume__", [value])], "task")
    with SQLCheckpointer(database) as other:
        found = other.with_allowlist(LISTED).get_tuple(place)
        assert found is not None
        assert {name: told(found.checkpoint["channel_values"][name]) for name in values} == {
            name: told(one) for name, one in values.items()
        }
        written = {name: told(one) for _, name, one in found.pending_writes or ()}
        assert written == {"c": told(value), "__resume__": told([value])}


@pytest.mark.parametrize(("value", "type"), [one for name, one in REFUSED.items() if "deep" not in name])
def test_a_value_is_refused(saver: SQLCheckpointer, value: Any, type: str) -> None:
    allowed = saver.with_allowlist({*LISTED, ("pathlib", "Own")})
    writer = Writer(allowed)
    first = writer.put(None, {"c": 1}, {"c": 1}, {"c": 1})
    place = {"configurable": {"thread_id": "t", "checkpoint_ns": "", "checkpoint_id": first}}
    for held in (value, [LONG, value], {"a": LONG, "b": {"c": value}}):
        with pytest.raises(NotSerializable) as refused:
            writer.put(first, {"c": held}, {"c": 2}, {"c": 2})
        assert refused.value.channel == "c"
        assert refused.value.type in (type, "list", "dict")
        with pytest.raises(NotSerializable):
            allowed.put_writes(place, [("c", held)], "task")
    assert writer.get(first) == {"c": 1}


@pytest.mark.parametrize("value", [Model(), Plain(), kinds.Colour.RED, Pair(1, 2), kinds.Old(), kinds.Text("x")])
def test_a_type_that_is_not_listed_is_refused(saver: SQLCheckpointer, value: Any) -> None:
    for held in ([{"a": (value,)}], ToolMessage("x", tool_call_id="1", artifact=value), {LONG: value}):
        with pytest.raises(NotSerializable, match=r"checkpoints\.kinds\.\w+ is not on the allow-list") as refused:
            Writer(saver).put(None, {"c": held}, {"c": 1}, {"c": 1})
        assert refused.value.type == type(value).__name__


def test_an_error_is_kept_as_langgraph_keeps_it_and_nowhere_else(saver: SQLCheckpointer) -> None:
    writer = Writer(saver)
    first = writer.put(None, {"c": 1}, {"c": 1}, {"c": 1})
    place: Any = {"configurable": {"thread_id": "t", "checkpoint_ns": "", "checkpoint_id": first}}
    saver.put_writes(place, [("__error__", ValueError("x"))], "task")
    found = saver.get_tuple(place)
    assert found is not None
    assert found.pending_writes == [("task", "__error__", "ValueError('x')")]
    with pytest.raises(NotSerializable):
        saver.put_writes(place, [("c", ValueError("x"))], "other")


NAME = "a\0b \\u0000"
ODD = 'a\0b\ud800 \\u0000 "q" \x7f\U0001f600'


@everywhere
def test_every_character_comes_back(database: str) -> None:
    """CP-06: NUL and lone surrogates, in every place that a text can come to."""
    with SQLCheckpointer(database, auto_upgrade=True) as saver:
        messages = [HumanMessage(ODD, id="1"), AIMessage(ODD, id="2"), ToolMessage(ODD, tool_call_id="1", id="3")]
        checkpoint: Any = {**empty_checkpoint(), "channel_values": {"messages": messages}}
        checkpoint["channel_versions"] = {"messages": 1}
        config: Any = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}
        stored = saver.put(config, checkpoint, {"source": "loop", "step": 1, "note": [ODD]}, {"messages": 1})  # type: ignore[typeddict-unknown-key]
        saver.put_writes(stored, [("messages", [HumanMessage(ODD)]), (NAME, {ODD: ODD})], "task", "path")
        found = saver.get_tuple(stored)
        assert found is not None
        assert found.checkpoint["channel_values"] == {"messages": messages}
        assert found.metadata["note"] == [ODD]  # type: ignore[typeddict-item]
        assert found.pending_writes == [("task", "messages", [HumanMessage(ODD)]), ("task", NAME, {ODD: ODD})]
        assert [one.thread for one in saver.sessions.list(search="u0000").items] == ["t"]
        with pytest.raises(NotSerializable, match="the name of a channel"):
            saver.put_writes(stored, [("\ud800", 1)], "task")


STATE = """
from dataclasses import dataclass
from enum import Enum
from typing import Any, TypedDict
from langgraph.graph import START, StateGraph
from pydantic import BaseModel
from scallion import NotSerializable, SQLCheckpointer, TypeBlocked

class Order(BaseModel):
    class Kind(Enum):
        BOOK = "book"
    kind: Kind
    size: tuple[int, int] = (1, 2)

@dataclass
class Note:
    order: Order

class Other(BaseModel):
    n: int = 1

class State(TypedDict):
    note: Note
    any: Any

def graph_of(saver, node=lambda state: {"any": (1,)}):
    return StateGraph(State).add_node("node", node).add_edge(START, "node").compile(checkpointer=saver)

config = {"configurable": {"thread_id": "t"}}
"""


def run(code: str, folder: Path, **environment: str) -> str:
    """What a new process prints that has the state's classes in a module `shop`."""
    (folder / "shop.py").write_text(STATE)
    path = ":".join([str(folder), *sys.path])
    done = subprocess.run(
        [sys.executable, "-c", "from shop import *\n" + code],
        capture_output=True,
        text=True,
        check=False,
        env={"PYTHONPATH": path, "LANGGRAPH_STRICT_MSGPACK": "true"} | environment,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def test_classes_of_a_state_are_listed_by_langgraph(database: str, tmp_path: Path) -> None:
    code = f"""
with SQLCheckpointer({database!r}) as saver:
    graph_of(saver).invoke({{"note": Note(Order(kind=Order.Kind.BOOK))}}, config)
    try:
        graph_of(saver, lambda state: {{"any": Other()}}).invoke({{"any": 2}}, config)
    except NotSerializable as error:
        print(error.channel, error.type)
with SQLCheckpointer({database!r}) as saver:
    note = graph_of(saver).get_state(config).values["note"]
    print(note == Note(Order(kind=Order.Kind.BOOK)), type(note.order.size))
    try:
        saver.get_tuple(config)
    except TypeBlocked as error:
        print(error)
"""
    refused, same, blocked = run(code, tmp_path).splitlines()
    assert (refused, same) == ("any Other", "True <class 'tuple'>")
    assert blocked.startswith("a stored value is of type shop.Order.Kind, which is not on the allow-list: name it")


ADVICE = """
def kind(state):
    return {"any": Order.Kind.BOOK}

class Any_(TypedDict):
    any: dict

def chosen(saver):
    return StateGraph(Any_).add_node(kind).add_edge("__start__", "kind").compile(checkpointer=saver).invoke({}, config)

with SQLCheckpointer("sqlite://") as saver:
    try:
        chosen(saver)
    except NotSerializable as error:
        print(error)
        advice = str(error).partition("SQLCheckpointer(url)")[2].partition(";")[0]
        print(chosen(eval("saver" + advice))["any"])
"""


@pytest.mark.parametrize("is_strict", [False, True])
def test_what_is_not_listed_is_told_as_it_is_to_be_written(tmp_path: Path, is_strict: bool) -> None:
    """A variable that is set already is not advised."""
    told, value = run(ADVICE, tmp_path, LANGGRAPH_STRICT_MSGPACK=str(is_strict)).splitlines()
    assert "with_allowlist([('shop', 'Kind')])" in told
    assert ("LANGGRAPH_STRICT_MSGPACK" in told) is not is_strict
    assert value == "Kind.BOOK"


def stored(saver: SQLCheckpointer, value: Any) -> Callable[[], Any]:
    """Gives the value back, as often as it is called."""
    allowed = Writer(saver.with_allowlist(LISTED))
    id = allowed.put(None, {"c": value}, {"c": 1}, {"c": 1})
    return lambda: allowed.get(id)["c"]


@pytest.mark.parametrize("value", [Model(), Plain(), kinds.Colour.RED, Pair(1), kinds.Text("x"), Model.Part()])
def test_a_class_that_is_gone_is_an_error(saver: SQLCheckpointer, value: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    read = stored(saver, [value])
    assert read() == [value]
    outer, _, name = type(value).__qualname__.rpartition(".")
    monkeypatch.delattr(getattr(kinds, outer) if outer else kinds, name)
    with pytest.raises(TypeBlocked, match=rf"checkpoints\.kinds\.[\w.]*{name}, which is not there: keep the name"):
        read()


class Before(BaseModel):
    n: int = 1
    gone: int = 5


class After(BaseModel):
    n: int = 1
    added: tuple[int, ...] = (1,)


class Stricter(BaseModel):
    n: int
    needed: int


@dataclass
class Sooner:
    n: int = 1
    gone: int = 5


@dataclass(slots=True)
class Later:
    n: int = 1
    added: tuple[int, ...] = field(default_factory=lambda: (1,))


def test_a_class_that_has_changed_is_called(saver: SQLCheckpointer, monkeypatch: pytest.MonkeyPatch) -> None:
    listed = saver.with_allowlist({(__name__, "Before"), (__name__, "Sooner")})
    writer = Writer(listed)
    id = writer.put(None, {"a": Before(n=2), "b": Sooner(n=2)}, {"a": 1, "b": 1}, {"a": 1, "b": 1})
    here = sys.modules[__name__]
    monkeypatch.setattr(here, "Before", After)
    monkeypatch.setattr(here, "Sooner", Later)
    assert writer.get(id) == {"a": After(n=2, added=(1,)), "b": Later(n=2, added=(1,))}
    monkeypatch.setattr(here, "Before", Stricter)
    with pytest.raises(TypeBlocked, match=r"Before, which does not take what was stored: ValidationError$"):
        writer.get(id)


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


@pytest.mark.parametrize("metadata", [{"a": object()}, {"a": {1: 2}}, {"a": {(1,): 2}}, {"a": [b"x"]}, {"a": {1, 2}}])
def test_metadata_is_plain_data(saver: SQLCheckpointer, metadata: dict[str, Any]) -> None:
    config: Any = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}
    with pytest.raises(NotSerializable) as refused:
        saver.put(config, empty_checkpoint(), metadata, {})  # type: ignore[arg-type]
    assert refused.value.channel == "metadata"


@pytest.mark.parametrize(
    "metadata",
    [
        {"source": "loop", "step": 3, "parents": {}, "user": "ana", "agent": "desk"},
        {"source": "fork", "step": -1, "parents": {"": "0001"}, "user": "\ud800", "agent": 2**80, "owner": "Zoë"},
        {"source": "loop", "step": 0, "parents": {"": {}}, "user": None, "agent": ["a"], "ls_integration": {"a": 1}},
        {},
    ],
)
def test_metadata_that_the_form_has_and_other_comes_back(saver: SQLCheckpointer, metadata: Any) -> None:
    config: Any = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}
    for _ in range(2):
        stored = saver.put(config, empty_checkpoint(), metadata, {})
        found = saver.get_tuple(stored)
        assert found is not None
        assert found.metadata == metadata
        assert next(iter(saver.list(config, filter=metadata))).config == found.config
