"""`show` of threads of graphs that are not Scallion's: their conversation, whatever else is in their state."""

from __future__ import annotations

import operator
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, RemoveMessage
from langgraph.channels.delta import DeltaChannel
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.graph.message import _messages_delta_reducer, add_messages
from langgraph.types import Overwrite, interrupt
from pydantic import BaseModel
from tests.cli.command import Command

from scallion import SQLCheckpointer

THREAD: Any = {"configurable": {"thread_id": "t"}}


@dataclass
class Parcel:
    """A class of the app's own."""

    number: str


class Note(AIMessage):
    """A message of the app's own."""


class Wish(BaseModel):
    """A model of the app's own."""

    text: str


class Post(MessagesState):
    """A state with all of them."""

    parcel: Parcel
    wish: Wish


class Chat(TypedDict):
    """The conversation under another name."""

    topics: list[str]
    chat: Annotated[list[AnyMessage], add_messages]


class Log(TypedDict):
    """A channel that keeps what each step adds."""

    messages: Annotated[list[AnyMessage], DeltaChannel(_messages_delta_reducer, snapshot_frequency=3)]


class Talk(TypedDict):
    """The same, under another name."""

    talk: Annotated[list[AnyMessage], DeltaChannel(_messages_delta_reducer)]


class Plain(TypedDict):
    """Messages that are no objects."""

    messages: Annotated[list[Any], operator.add]


def run(state: Any, channel: str, *written: Any, **others: Any) -> None:
    """Each value is written by a node; then two nodes wait for an answer, one of which has written already."""

    def tell(n: int) -> Any:
        return lambda _: {channel: written[n], **(others if n == 0 else {})}

    def ask(_: Any) -> Any:
        return {channel: [AIMessage(interrupt(Wish(text="Send it?")).text)]}

    builder: Any = StateGraph(state)
    names: Sequence[str] = [START, *(f"n{n}" for n in range(len(written)))]
    for n, name in enumerate(names[1:]):
        builder.add_node(name, tell(n)).add_edge(names[n], name)
    for name, node in {"ask": ask, "beside": lambda _: {channel: [AIMessage("beside")]}}.items():
        builder.add_node(name, node).add_edge(names[-1], name)
    with SQLCheckpointer(place_of()) as saver:
        graph = builder.compile(checkpointer=saver.with_allowlist([Parcel, Note, Wish]))
        graph.invoke({channel: [HumanMessage("Where is it?")]}, THREAD)


def place_of() -> str:
    """The database of the test."""
    return os.environ["SCALLION_DB"]


def contents(here: Command) -> list[Any]:
    """What `show` tells as JSON; as text it tells the same, and what waits."""
    done, data = here("show", "t"), here("show", "t", "--json").data
    assert done.status == 0, done.err
    assert "Send it?" in done.out
    assert data["session"]["message_count"] == len(data["messages"]) - 1  # "beside" is not in the checkpoint yet
    for one in data["messages"]:
        assert f"{one['role']}" in done.out
        assert one["content"] in done.out
    return [(one["role"], one["content"]) for one in data["messages"]]


ASKED = ("user", "Where is it?")
BESIDE = ("assistant", "beside")


@pytest.mark.parametrize("is_there", [False, True])
def test_classes_of_the_app(here: Command, monkeypatch: pytest.MonkeyPatch, is_there: bool) -> None:
    """They are not on the list of this process, and may be gone altogether."""
    run(Post, "messages", [Note("On its way")], parcel=Parcel("7"), wish=Wish(text="soon"))
    if not is_there:
        for name in ("Parcel", "Note", "Wish"):
            monkeypatch.delitem(globals(), name)
    assert contents(here) == [ASKED, ("assistant", "On its way"), BESIDE]


def test_another_name(here: Command, place: Path) -> None:
    run(Chat, "chat", [AIMessage("There.")], topics=["parcels"])
    assert contents(here) == [ASKED, ("assistant", "There."), BESIDE]


@pytest.mark.parametrize(("state", "channel"), [(Log, "messages"), (Talk, "talk")])
def test_delta_channels(here: Command, place: Path, state: Any, channel: str) -> None:
    """Messages that are removed or replaced are not shown."""
    first, second = AIMessage("one", id="1"), AIMessage("two", id="2")
    run(state, channel, [first], [second, RemoveMessage(id="1")], [AIMessage("deux", id="2")], [AIMessage("three")])
    assert contents(here) == [ASKED, ("assistant", "deux"), ("assistant", "three"), BESIDE]


def test_a_delta_channel_that_is_overwritten(here: Command, place: Path) -> None:
    run(Talk, "talk", [AIMessage("one")], Overwrite([AIMessage("anew")]), [AIMessage("two")])
    assert contents(here) == [("assistant", "anew"), ("assistant", "two"), BESIDE]


def test_messages_that_are_no_objects(here: Command, place: Path) -> None:
    run(Plain, "messages", ["Look:", ("assistant", "There."), {"role": "assistant", "content": "Here."}])
    assert contents(here) == [ASKED, ("user", "Look:"), ("assistant", "There."), ("assistant", "Here."), BESIDE]


def test_a_serializer_of_the_app(here: Command, place: Path) -> None:
    """What it wrote is not read; what waits is shown all the same."""

    class Secret:
        def dumps_typed(self, value: Any) -> tuple[str, bytes]:
            return "secret", b"\x07"

        def loads_typed(self, data: tuple[str, bytes]) -> Any:
            return {}

    def ask(_: Any) -> Any:
        return {"chat": [interrupt("Send it?")]}

    with SQLCheckpointer(place_of(), serde=Secret()) as saver:
        builder: Any = StateGraph(Chat).add_node("ask", ask).add_edge(START, "ask")
        builder.compile(checkpointer=saver).invoke({"chat": [HumanMessage("S3CRET")]}, THREAD)
    done = here("show", "t")
    assert (done.status, "Send it?" in done.out, "S3CRET" in done.out) == (0, True, False)
