"""The row of a session says of any graph what its newest checkpoint says, whatever led to that."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from operator import add
from typing import Annotated, Any, TypedDict

import pytest
from checkpoints.databases import everywhere, sync_kinds
from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, RemoveMessage, ToolMessage
from langgraph.channels.delta import DeltaChannel
from langgraph.func import entrypoint
from langgraph.graph import START, StateGraph, add_messages
from langgraph.graph.message import REMOVE_ALL_MESSAGES, _messages_delta_reducer
from langgraph.types import Command, Overwrite, interrupt
from sqlalchemy import func, select

from scallion import Agent, approve, filters
from scallion.sql.saver import SQLCheckpointer
from scallion.sql.sessions import Session
from scallion.testing import ScriptedModel

Update = Callable[[Any], Any]
HITL = {"metadata": {"owner": "u1", "agent": "desk"}}


class Plain(TypedDict):
    messages: Annotated[list[AnyMessage], add_messages]


class Delta(TypedDict):
    messages: Annotated[list[AnyMessage], DeltaChannel(_messages_delta_reducer)]


class Snapshots(TypedDict):
    messages: Annotated[list[AnyMessage], DeltaChannel(_messages_delta_reducer, snapshot_frequency=3)]


class Talk(TypedDict):
    count: int
    talk: Annotated[list[AnyMessage], add_messages]


class DeltaTalk(TypedDict):
    count: int
    talk: Annotated[list[AnyMessage], DeltaChannel(_messages_delta_reducer)]


SHAPES = {shape.__name__: shape for shape in (Plain, Delta, Snapshots, Talk, DeltaTalk)}
every_shape = pytest.mark.parametrize("shape", SHAPES)
every_durability = pytest.mark.parametrize("durability", ["sync", "async", "exit"])


def place(thread: str = "t", **more: Any) -> dict[str, Any]:
    return {"configurable": {"thread_id": thread, **more}}


class Chat:
    """A graph of this shape whose node gives what it is told to: an update of the messages, or a function of them."""

    def __init__(self, saver: SQLCheckpointer, shape: str = "Plain", **options: Any) -> None:
        self.saver = saver
        self.options = options
        self.name = "talk" if "Talk" in shape else "messages"
        self.said: Any = None
        builder = StateGraph(SHAPES[shape]).add_node("say", self._say).add_node("rest", lambda state: None)
        self.graph = builder.add_edge(START, "say").add_edge("say", "rest").compile(checkpointer=saver)

    def _say(self, state: Any) -> Any:
        messages = self.said(state.get(self.name) or []) if callable(self.said) else self.said
        return None if messages is None else {self.name: messages}

    def __call__(self, question: Any, said: Any, config: Any = None) -> Session:
        self.said = said
        given = question if question is None or isinstance(question, Command) else {self.name: question}
        self.graph.invoke(given, config or place(), **self.options)
        return self.checked()

    def update(self, messages: Any, config: Any = None) -> Session:
        self.graph.update_state(config or place(), {self.name: messages}, as_node="rest")
        return self.checked()

    def state(self, config: Any = None) -> list[Any]:
        return self.graph.get_state(config or place()).values.get(self.name) or []

    def checked(self) -> Session:
        """The row, which says the same as the state that the graph reads."""
        row = self.saver.sessions.get("t")
        assert row is not None
        messages = self.state()
        told = [one.text for one in messages if one.text]
        asked = [one.text for one in messages if one.type == "human" and one.text]
        assert row.message_count == len(messages)
        assert (row.title, row.preview) == (asked[0] if asked else None, told[-1] if told else None)
        return row


@every_shape
@every_durability
def test_a_conversation(saver: SQLCheckpointer, shape: str, durability: str) -> None:
    converse(saver, shape, durability)


@sync_kinds
def test_a_conversation_in_every_database(saver: SQLCheckpointer) -> None:
    converse(saver, "DeltaTalk", "sync")


def converse(saver: SQLCheckpointer, shape: str, durability: str) -> None:
    chat = Chat(saver, shape, durability=durability)
    row = chat([HumanMessage("Hello")], AIMessage("Hi.", id="a1"))
    assert (row.message_count, row.title, row.preview, row.status) == (2, "Hello", "Hi.", "idle")
    row = chat("What is new?", [AIMessage("Much.", id="a2"), AIMessage("Hi again.", id="a1")])
    assert (row.message_count, row.title, row.preview) == (4, "Hello", "Much.")
    row = chat("Forget it", RemoveMessage(id="a2"))
    assert (row.message_count, row.preview) == (4, "Forget it")
    chat.update([HumanMessage("later", id="h9")])
    for number in range(4):
        row = chat(f"more {number}", AIMessage(f"answer {number}"))
    assert (row.message_count, row.preview) == (13, "answer 3")
    row = chat("Clear", [RemoveMessage(id=REMOVE_ALL_MESSAGES), AIMessage("Cleared.")])
    assert (row.message_count, row.title, row.preview) == (1, None, "Cleared.")
    row = chat("And now?", AIMessage("", tool_calls=[{"name": "pay", "args": {}, "id": "c"}]))
    assert (row.message_count, row.title, row.preview) == (3, "And now?", "And now?")
    row = chat.update([RemoveMessage(id=REMOVE_ALL_MESSAGES)])
    assert (row.message_count, row.title, row.preview) == (0, None, None)


@every_shape
def test_a_fork_is_the_new_head(saver: SQLCheckpointer, shape: str) -> None:
    chat = Chat(saver, shape)
    chat("one", AIMessage("first"))
    old = chat.graph.get_state(place()).config
    for question in ("two", "three", "four"):
        chat(question, AIMessage(f"on {question}"))
    row = chat("another way", AIMessage("there"), old)
    assert (row.message_count, row.title, row.preview) == (4, "one", "there")
    row = chat.update([AIMessage("by hand")], old)
    assert (row.message_count, row.preview) == (3, "by hand")
    first = list(chat.graph.get_state_history(place()))[-1]
    row = chat("anew", AIMessage("again"), first.config)
    assert row.preview == "again"


@every_shape
def test_overwriting(saver: SQLCheckpointer, shape: str) -> None:
    chat = Chat(saver, shape)
    chat("one", AIMessage("first"))
    row = chat("two", lambda messages: Overwrite([AIMessage("only this")]))
    assert (row.message_count, row.title, row.preview) == (1, None, "only this")
    assert chat("three", AIMessage("third")).message_count == 3


@every_shape
def test_another_process_goes_on(database: str, shape: str) -> None:
    """What was remembered is not needed."""
    for number in range(3):
        with SQLCheckpointer(database) as saver:
            row = Chat(saver, shape)(f"question {number}", AIMessage(f"answer {number}"))
            assert (row.message_count, row.title, row.preview) == (2 * number + 2, "question 0", f"answer {number}")


@every_shape
def test_runs_that_are_deleted(saver: SQLCheckpointer, shape: str) -> None:
    chat = Chat(saver, shape)
    for run in ("one", "two"):
        chat(f"ask {run}", AIMessage(f"answer {run}"), place() | {"metadata": {"run_id": run}})
    saver.delete_for_runs(["two"])
    row = chat.checked()
    assert (row.message_count, row.title, row.preview, row.status) == (2, "ask one", "answer one", "idle")
    saver.delete_for_runs(["one"])
    assert saver.sessions.get("t") is None
    assert saver.sessions.list().items == []


@every_shape
def test_pruning_and_copying_change_nothing(saver: SQLCheckpointer, shape: str) -> None:
    chat = Chat(saver, shape)
    for question in ("one", "two", "three"):
        before = chat(question, AIMessage(f"on {question}"))
    saver.sessions.tag("t", "x")
    saver.copy_thread("t", "copy")
    copy = saver.sessions.get("copy")
    assert copy is not None
    assert (copy.message_count, copy.title, copy.preview) == (before.message_count, before.title, before.preview)
    assert (copy.tags, copy.status, copy.bytes) == (("x",), "idle", saver.sessions.get("t").bytes)  # type: ignore[union-attr]
    saver.prune(["t"])
    chat.checked()
    assert chat("four", AIMessage("on four")).message_count == 8
    saver.prune(["t"], strategy="delete")
    assert saver.sessions.get("t") is None


@every_shape
@every_durability
def test_failing_and_going_on(saver: SQLCheckpointer, shape: str, durability: str) -> None:
    chat = Chat(saver, shape, durability=durability)

    def fail(messages: Any) -> Any:
        raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        chat("ask", fail)
    row = saver.sessions.get("t")
    assert row is not None
    assert (row.status, row.title, row.message_count) == ("failed", "ask", 1)
    assert chat(None, AIMessage("mended")).status == "idle"
    with pytest.raises(ValueError, match="broken"):
        chat("again", fail)
    assert saver.status("t") == "failed"
    assert chat.update([AIMessage("given up")]).status == "idle"


@every_shape
@every_durability
def test_waiting(saver: SQLCheckpointer, shape: str, durability: str) -> None:
    chat = Chat(saver, shape, durability=durability)
    row = chat("ask", lambda messages: AIMessage(interrupt("sure?")))
    assert (row.status, row.pending_count, row.preview, row.message_count) == ("paused", 1, "ask", 1)
    row = chat(Command(resume="yes"), lambda messages: AIMessage(interrupt("sure?")))
    assert (row.status, row.pending_count, row.preview, row.message_count) == ("idle", 0, "yes", 2)


KILLED = """
import os, signal, sys
from langgraph.graph import START, MessagesState, StateGraph
from scallion import SQLCheckpointer
saver = SQLCheckpointer(sys.argv[1])
die = lambda state: os.kill(os.getpid(), signal.SIGKILL)
graph = StateGraph(MessagesState).add_node("die", die).add_edge(START, "die").compile(checkpointer=saver)
graph.invoke({"messages": [("user", "Hello")]}, {"configurable": {"thread_id": "t"}}, durability="sync")
"""


def test_killed_in_the_middle(database: str, saver: SQLCheckpointer) -> None:
    done = subprocess.run([sys.executable, "-c", KILLED, database], check=False, env=os.environ)
    assert done.returncode == -signal.SIGKILL
    row = saver.sessions.get("t")
    assert row is not None
    assert (row.status, row.title, row.message_count) == ("running", "Hello", 1)


def pay(euro: int) -> str:
    """Pay."""
    return f"paid {euro}"


def paying() -> ScriptedModel:
    call = {"name": "pay", "args": {"euro": 2}, "id": "c1"}
    return ScriptedModel(lambda messages: "done" if messages[-1].type == "tool" else AIMessage("", tool_calls=[call]))


@everywhere
async def test_our_agent(database: str) -> None:
    async with SQLCheckpointer(database, auto_upgrade=True) as saver:
        agent = Agent(paying(), tools=[pay], filters=[filters.approval({"pay": True})], checkpointer=saver, name="desk")
        await agent.ainvoke("Pay, please", thread="t", owner="u1")
        row = await saver.sessions.aget("t")
        assert row is not None
        assert (row.status, row.pending_count, row.message_count, row.bytes > 0) == ("paused", 1, 2, True)
        assert (row.owner, row.agent, row.title, row.preview) == ("u1", "desk", "Pay, please", "Pay, please")
        await agent.aresume("t", approve())
        row = await saver.sessions.aget("t")
        assert row is not None
        assert (row.status, row.pending_count, row.message_count, row.preview) == ("idle", 0, 4, "done")
        assert row.created < row.updated


def test_their_agent(saver: SQLCheckpointer) -> None:
    agent = create_agent(
        paying(), [pay], middleware=[HumanInTheLoopMiddleware({"pay": True})], checkpointer=saver, name="shop"
    )
    agent.invoke({"messages": [HumanMessage("Pay, please")]}, place() | {"metadata": {"owner": "u1"}})
    row = saver.sessions.get("t")
    assert row is not None
    assert (row.status, row.pending_count, row.message_count, row.title) == ("paused", 1, 2, "Pay, please")
    assert (row.owner, row.agent) == ("u1", "shop")
    agent.invoke(Command(resume={"decisions": [{"type": "approve"}]}), place())
    row = saver.sessions.get("t")
    assert row is not None
    assert (row.status, row.pending_count, row.message_count, row.preview) == ("idle", 0, 4, "done")
    assert (row.owner, row.agent) == ("u1", "shop")


class Lists(TypedDict):
    notes: list[str]
    numbers: list[int]
    rows: list[dict[str, Any]]


class Dicts(TypedDict):
    messages: Annotated[list[Any], add]


def ran(saver: SQLCheckpointer, shape: type, given: dict[str, Any]) -> Session:
    graph = StateGraph(shape).add_node("rest", lambda state: None).add_edge(START, "rest").compile(checkpointer=saver)  # type: ignore[type-var]
    graph.invoke(given, place())  # type: ignore[arg-type]
    row = saver.sessions.get("t")
    assert row is not None
    return row


def test_a_graph_without_messages(saver: SQLCheckpointer) -> None:
    row = ran(saver, Lists, {"notes": ["a"], "numbers": [1], "rows": [{"content": "no message"}]})
    assert (row.status, row.message_count, row.title, row.preview) == ("idle", 0, None, None)
    assert row.bytes > 0


IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
TALKS: dict[str, tuple[list[Any], Any, Any]] = {
    "dicts of OpenAI's": (
        [{"role": "user", "content": "Hello"}, {"role": "assistant", "content": "Hi."}],
        "Hello",
        "Hi.",
    ),
    "pairs": ([("user", "Hello"), ("assistant", "Hi.")], "Hello", "Hi."),
    "texts": (["Hello", "Hi."], "Hello", "Hi."),
    "blocks": (
        [
            HumanMessage([IMAGE, {"type": "text", "text": "What is\nthat?"}]),
            AIMessage([{"type": "text", "text": "A cat."}]),
        ],
        "What is that?",
        "A cat.",
    ),
    "blocks without text": ([HumanMessage([IMAGE]), AIMessage("A cat.")], None, "A cat."),
    "dicts with blocks": ([{"role": "user", "content": [{"type": "text", "text": "Look"}, IMAGE]}], "Look", "Look"),
    "a dict that only calls": (
        [{"role": "user", "content": "Pay"}, {"role": "assistant", "content": None, "tool_calls": [{"id": "c"}]}],
        "Pay",
        "Pay",
    ),
    "the result of a tool": ([HumanMessage("Pay"), ToolMessage("paid 2", tool_call_id="c")], "Pay", "paid 2"),
    "long ones": ([HumanMessage("word " * 1_000)], ("word " * 16).strip(), ("word " * 16).strip()),
    "none": ([], None, None),
}


@sync_kinds
def test_texts_that_no_database_holds(saver: SQLCheckpointer) -> None:
    row = ran(saver, Dicts, {"messages": [HumanMessage("a\0b \ud800")]})
    assert (row.message_count, row.title, row.preview) == (1, "a b ?", "a b ?")


@pytest.mark.parametrize("name", TALKS)
def test_messages_of_every_form(saver: SQLCheckpointer, name: str) -> None:
    messages, title, preview = TALKS[name]
    row = ran(saver, Dicts, {"messages": messages})
    assert (row.message_count, row.title, row.preview) == (len(messages), title, preview)


def test_the_functional_api(saver: SQLCheckpointer) -> None:
    @entrypoint(checkpointer=saver)
    def chat(question: str, *, previous: Any = None) -> Any:
        messages = [*(previous or []), HumanMessage(question), AIMessage(f"You said {question}.")]
        return entrypoint.final(value="ok", save=messages)

    for question in ("one", "two"):
        chat.invoke(question, place())
    row = saver.sessions.get("t")
    assert row is not None
    assert (row.status, row.message_count, row.title, row.preview) == ("idle", 4, "one", "You said two.")


@pytest.mark.parametrize("keeps", [None, True])
def test_subgraphs_do_not_speak_for_the_thread(saver: SQLCheckpointer, keeps: bool | None) -> None:
    broken = [True]

    def inner(state: Any) -> Any:
        answer = interrupt("inside?")
        if broken.pop():
            raise ValueError("inside")
        return {"messages": [AIMessage("thought"), AIMessage(answer)]}

    child = StateGraph(Plain).add_node("inner", inner).add_edge(START, "inner").compile(checkpointer=keeps)

    def outer(state: Any) -> Any:
        found = child.invoke({"messages": [HumanMessage("a question of its own")]})
        return {"messages": [found["messages"][-1]]}

    graph = StateGraph(Plain).add_node("outer", outer).add_edge(START, "outer").compile(checkpointer=saver)
    graph.invoke({"messages": [HumanMessage("Hello")]}, place() | HITL)
    row = saver.sessions.get("t")
    assert row is not None
    assert (row.status, row.message_count, row.title, row.preview) == ("paused", 1, "Hello", "Hello")
    assert (row.pending_count, row.owner, row.agent) == (1, "u1", "desk")
    with pytest.raises(ValueError, match="inside"):
        graph.invoke(Command(resume="yes"), place())
    assert saver.status("t") == "paused", "the answer was not used"
    broken.append(False)
    graph.invoke(None, place())
    row = saver.sessions.get("t")
    assert row is not None
    assert (row.status, row.message_count, row.title, row.preview) == ("idle", 2, "Hello", "yes")


def test_a_join_that_waits_is_work(saver: SQLCheckpointer) -> None:
    """A node that runs after two others, at the end: a kill before it leaves the thread running."""
    seen: list[Any] = []

    def last(state: Any) -> None:
        seen.append(saver.status("t"))

    builder = StateGraph(Plain)
    for name in ("a", "b"):
        builder.add_node(name, lambda state: None).add_edge(START, name)
    builder.add_node("last", last, defer=True).add_edge(["a", "b"], "last")
    builder.compile(checkpointer=saver).invoke({"messages": []}, place(), durability="sync")
    assert seen == ["running"]
    assert saver.status("t") == "idle"


def test_an_older_checkpoint_that_comes_late_says_nothing(saver: SQLCheckpointer) -> None:
    """As when a thread is copied by reading it, newest first, and putting what was read."""
    chat = Chat(saver)
    chat("one", AIMessage("first"))
    chat("two", AIMessage("second"))
    for found in saver.list(place()):
        saver.put(
            place("copy", checkpoint_ns=""), found.checkpoint, found.metadata, found.checkpoint["channel_versions"]
        )
    row = saver.sessions.get("copy")
    assert row is not None
    assert (row.message_count, row.title, row.preview, row.status) == (4, "one", "second", "idle")


def test_bytes_are_those_of_the_values(saver: SQLCheckpointer) -> None:
    t = saver.database.tables

    def stored(conn: Any) -> int:
        size = func.sum(func.length(t.items.c.data))
        return int(conn.execute(select(size).join(t.sessions, t.sessions.c.no == t.items.c.session)).scalar() or 0)

    chat = Chat(saver)
    for number in range(3):
        row = chat(f"question {number}", AIMessage(f"answer {number}", additional_kwargs={"more": "x" * 1_000}))
        assert row.bytes == saver.database.run(stored)
    saver.prune(["t"])
    assert chat.checked().bytes == saver.database.run(stored)
