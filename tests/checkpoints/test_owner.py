"""A saver, an inbox and an agent for one owner: others' threads are unknown to them, and cannot be written into."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any
from uuid import UUID

import pytest
from checkpoints.databases import everywhere, sync_kinds
from checkpoints.graphs_that_ask import Loop
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import Command, interrupt
from sqlalchemy import func, select

from scallion import Agent, Inbox, approve, filters
from scallion.errors import ConfigurationError, ThreadError, UnknownApproval
from scallion.sql.saver import SQLCheckpointer
from scallion.testing import ScriptedModel

Counts = dict[str, int]


def place(thread: str, **more: Any) -> dict[str, Any]:
    return {"configurable": {"thread_id": thread, "checkpoint_ns": ""}, **more}


def asked(saver: SQLCheckpointer, thread: str, **more: Any) -> list[str]:
    """Run the graph that asks; the ids of what it asks."""
    result = Loop(saver).graph.invoke({"messages": [HumanMessage("pay them")]}, place(thread, **more))
    return [one.id for one in result["__interrupt__"]]


def rows(saver: SQLCheckpointer) -> Counts:
    """How many rows each table has, and the sum of all versions: any write changes it."""
    t = saver.database.tables

    def count(conn: Any) -> Counts:
        found = {
            table.name: conn.execute(select(func.count()).select_from(table)).scalar_one()
            for table in t.metadata.sorted_tables
        }
        return found | {"versions": int(conn.execute(select(func.sum(t.sessions.c.version))).scalar() or 0)}

    return saver.database.run(count)


@pytest.fixture
def threads(saver: SQLCheckpointer) -> SQLCheckpointer:
    """Threads that wait: "a" of u1, "b" of u2, and "c" of nobody."""
    asked(saver.for_owner("u1"), "a")
    asked(saver, "b", metadata={"owner": "u2"})
    asked(saver, "c")
    return saver


@pytest.mark.parametrize(
    ("given", "owner"),
    [(7, "7"), (UUID(int=7), str(UUID(int=7))), ("", None), (True, None), ({"id": 7}, None)],
    ids=str,
)
def test_an_owner_that_is_no_text(saver: SQLCheckpointer, given: Any, owner: str | None) -> None:
    """An id is its text; what names nobody is none."""
    asked(saver, "t", metadata={"owner": given, "user": given, "agent": given})
    session = saver.sessions.get("t")
    assert session is not None
    assert (session.owner, session.agent) == (owner, owner)
    assert {(one.owner, one.requested_by) for one in saver.approvals.list().items} == {(owner, owner)}
    if owner is not None:
        assert saver.for_owner(owner).sessions.get("t") == session
        with pytest.raises(ConfigurationError, match="another one"):
            asked(saver.for_owner("mira"), "u", metadata={"owner": given})


@sync_kinds
def test_what_it_makes_carries_the_owner(threads: SQLCheckpointer) -> None:
    own = threads.for_owner("u1")
    assert {one.thread: one.owner for one in threads.sessions.list().items} == {"a": "u1", "b": "u2", "c": None}
    owners = {one.thread: one.owner for one in threads.approvals.list().items}
    assert owners == {"a": "u1", "b": "u2", "c": None}
    assert {one.thread for one in own.approvals.list().items} == {"a"}
    assert [one.thread for one in own.sessions.list().items] == ["a"]
    assert own.owner == "u1"
    assert threads.owner is None


READS: dict[str, Callable[[Any, str], Any]] = {
    "get_tuple": lambda saver, thread: saver.get_tuple(place(thread)),
    "get": lambda saver, thread: saver.get(place(thread)),
    "list": lambda saver, thread: list(saver.list(place(thread))),
    "status": lambda saver, thread: saver.status(thread),
    "sessions.get": lambda saver, thread: saver.sessions.get(thread),
    "approvals.list": lambda saver, thread: saver.approvals.list(None, thread=thread).items,
}


@sync_kinds
def test_other_threads_are_unknown(threads: SQLCheckpointer) -> None:
    own = threads.for_owner("u1")
    for name, read in READS.items():
        assert read(own, "a"), name
        assert not read(own, "b"), name
        assert not read(own, "c"), name
    assert {found.config["configurable"]["thread_id"] for found in own.list(None)} == {"a"}
    exact = threads.get_tuple(place("b"))
    assert exact is not None
    assert own.get_tuple(exact.config) is None
    assert list(own.list(exact.config)) == []


WRITES: dict[str, Callable[[Any, str], Any]] = {
    "put": lambda saver, thread: saver.put(place(thread), empty_checkpoint(), {"source": "input", "step": 9}, {}),
    "put in a subgraph": lambda saver, thread: saver.put(
        {"configurable": {"thread_id": thread, "checkpoint_ns": "child:1"}}, empty_checkpoint(), {"step": 9}, {}
    ),
    "put_writes": lambda saver, thread: saver.put_writes(
        {"configurable": {"thread_id": thread, "checkpoint_ns": "", "checkpoint_id": "1"}}, [("x", 1)], "task"
    ),
    "copy_thread onto it": lambda saver, thread: saver.copy_thread("a", thread),
}

SILENT: dict[str, Callable[[Any, str], Any]] = {
    "copy_thread from it": lambda saver, thread: saver.copy_thread(thread, "new"),
    "delete_thread": lambda saver, thread: saver.delete_thread(thread),
    "sessions.delete": lambda saver, thread: saver.sessions.delete(thread),
    "delete_for_runs": lambda saver, thread: saver.delete_for_runs([f"run-{thread}"]),
    "prune": lambda saver, thread: saver.prune([thread]),
    "prune all": lambda saver, thread: saver.prune([thread], strategy="delete"),
    "sessions.tag": lambda saver, thread: saver.sessions.tag(thread, "mine"),
    "approvals.close": lambda saver, thread: saver.approvals.close(thread, "cancelled"),
}


@sync_kinds
def test_other_threads_are_not_written_into(threads: SQLCheckpointer) -> None:
    own = threads.for_owner("u1")
    before = rows(threads)
    for name, write in WRITES.items():
        for thread in ("b", "c"):
            with pytest.raises(ThreadError, match="belongs to another owner, or to nobody"):
                write(own, thread)
            assert rows(threads) == before, name


@sync_kinds
def test_other_threads_are_left_alone(threads: SQLCheckpointer) -> None:
    asked(threads, "b", run_id="00000000-0000-0000-0000-000000000001", metadata={"owner": "u2", "run_id": "run-b"})
    own = threads.for_owner("u1")
    before = rows(threads)
    for name, write in SILENT.items():
        for thread in ("b", "c"):
            write(own, thread)
            assert rows(threads) == before, name


@sync_kinds
def test_own_threads_are_written_into(saver: SQLCheckpointer) -> None:
    own = saver.for_owner("u1")
    for thread in ("a", "b"):
        asked(own, thread, metadata={"run_id": f"run-{thread}"})
    own.prune(["a"])
    assert len(list(saver.list(place("a")))) == 1
    own.copy_thread("a", "copy")
    assert saver.sessions.get("copy").owner == "u1"  # type: ignore[union-attr]
    assert {one.owner for one in saver.approvals.list(thread="copy").items} == {"u1"}
    assert own.sessions.tag("copy", "x")
    own.delete_for_runs(["run-b"])
    assert list(saver.list(place("b"))) == []
    assert own.approvals.close("a", "cancelled") == 2
    own.delete_thread("a")
    assert saver.sessions.get("a") is None


@sync_kinds
def test_other_approvals_are_unknown(threads: SQLCheckpointer) -> None:
    own = threads.for_owner("u1")
    before = rows(threads)
    decision = {"type": "respond", "message": "yes"}
    for theirs in (one.id for one in threads.approvals.list().items if one.thread != "a"):
        for verb in (own.approvals.get, own.approvals.withdraw, lambda id: own.approvals.decide(id, decision)):
            with pytest.raises(UnknownApproval):
                verb(theirs)
    mine = own.approvals.list().items[0].id
    with pytest.raises(UnknownApproval):
        own.approvals.decide_all({mine: decision, theirs: decision})
    assert rows(threads) == before
    assert own.approvals.decide(mine, decision).owner == "u1"


@everywhere
async def test_the_async_half_is_as_narrow(database: str) -> None:
    async with SQLCheckpointer(database, auto_upgrade=True) as saver:
        await saver.for_owner("u2").aput(place("b"), empty_checkpoint(), {"source": "input", "step": -1}, {})
        own = saver.for_owner("u1")
        assert await own.aget_tuple(place("b")) is None
        assert [found async for found in own.alist(None)] == []
        assert await own.astatus("b") is None
        assert (await own.sessions.alist()).items == []
        for write in (
            own.aput(place("b"), empty_checkpoint(), {"step": 1}, {}),
            own.aput_writes({"configurable": {"thread_id": "b", "checkpoint_id": "1"}}, [("x", 1)], "task"),
        ):
            with pytest.raises(ThreadError, match="belongs to another owner"):
                await write
        await own.adelete_thread("b")
        await own.aprune(["b"], strategy="delete")
        await own.acopy_thread("b", "mine")
        assert [one.thread for one in (await saver.sessions.alist()).items] == ["b"]


def test_subgraphs_are_the_owners_too(saver: SQLCheckpointer) -> None:
    def ask(state: Any) -> dict[str, Any]:
        return {"messages": [AIMessage(interrupt("inside?"))]}

    inner = StateGraph(MessagesState).add_node("ask", ask).add_edge(START, "ask").compile()
    outer = StateGraph(MessagesState).add_node("inner", inner).add_edge(START, "inner")
    own = saver.for_owner("u1")
    graph = outer.compile(checkpointer=own)
    graph.invoke({"messages": [HumanMessage("hi")]}, place("a"))
    assert [one.owner for one in own.approvals.list().items] == ["u1"]
    inside = [one for one in saver.list(None) if one.config["configurable"]["checkpoint_ns"]]
    assert inside
    assert all(own.get_tuple(one.config) for one in inside)
    assert not any(saver.for_owner("u2").get_tuple(one.config) for one in inside)
    assert graph.invoke(Command(resume="yes"), place("a"))["messages"][-1].text == "yes"
    with pytest.raises(ThreadError):
        outer.compile(checkpointer=saver.for_owner("u2")).invoke({"messages": []}, place("a"))


def test_a_thread_keeps_its_owner(saver: SQLCheckpointer) -> None:
    """Whoever is not bound may write, but nothing that a run says changes whose thread it is."""
    asked(saver, "b", metadata={"owner": "u2"})
    asked(saver, "b", metadata={"owner": "u1"})
    assert saver.sessions.get("b").owner == "u2"  # type: ignore[union-attr]
    assert {one.owner for one in saver.approvals.list(None).items} == {"u2"}
    assert saver.for_owner("u1").approvals.list(None).items == []


@pytest.mark.parametrize("of", ["saver", "approvals", "sessions", "inbox"])
def test_it_is_never_widened(saver: SQLCheckpointer, of: str) -> None:
    views = {"saver": saver, "approvals": saver.approvals, "sessions": saver.sessions, "inbox": Inbox("sqlite://")}
    own: Any = views[of].for_owner("u1")  # type: ignore[attr-defined]
    assert own.for_owner("u1").owner == "u1"
    with pytest.raises(ConfigurationError, match="bound to one owner"):
        own.for_owner("u2")
    for nobody in ("", None, 3):
        with pytest.raises(ConfigurationError, match="an owner is named by a text"):
            own.for_owner(nobody)
    views["inbox"].close()  # type: ignore[attr-defined]


def test_another_owner_is_not_asked_for(saver: SQLCheckpointer) -> None:
    own = saver.for_owner("u1")
    for ask in (own.sessions.list, own.approvals.list):
        with pytest.raises(ConfigurationError, match="bound to one owner"):
            ask(owner="u2")
    with pytest.raises(ConfigurationError, match="bound to one owner"):
        asked(own, "a", metadata={"owner": "u2"})
    assert rows(saver)["sessions"] == 0


def test_the_database_is_not_his_to_encrypt(saver: SQLCheckpointer) -> None:
    with pytest.raises(ConfigurationError, match="bound to one owner"):
        saver.for_owner("u1").rekey(bytes(32))


def test_copies_for_graphs_stay_narrow(saver: SQLCheckpointer) -> None:
    """LangGraph copies a saver to give it an allow-list."""
    own = saver.for_owner("u1").with_allowlist([("pathlib", "Path")])
    assert own.owner == "u1"
    asked(own, "a")
    assert saver.for_owner("u2").sessions.list().items == []


def test_an_inbox_is_narrowed(database: str) -> None:
    with SQLCheckpointer(database) as saver, Inbox(database) as inbox:
        asked(saver.for_owner("u1"), "a")
        assert len(inbox.for_owner("u1").approvals.list().items) == 2
        assert inbox.for_owner("u2").approvals.list().items == []
        assert inbox.for_owner("u2").sessions.get("a") is None


def pay(euro: int) -> str:
    """Pay."""
    return f"paid {euro}"


def agent(saver: Any) -> Agent:
    """An agent that asks before it pays."""
    call = {"name": "pay", "args": {"euro": 2}, "id": "c1"}
    model = ScriptedModel(lambda messages: "done" if messages[-1].type == "tool" else AIMessage("", tool_calls=[call]))
    return Agent(model, tools=[pay], filters=[filters.approval({"pay": True})], checkpointer=saver)


def test_an_agent_is_for_one_owner(saver: SQLCheckpointer) -> None:
    own = agent(saver.for_owner("u1"))
    (asked,) = own.invoke("pay", thread="a").approvals
    assert asked.owner == "u1"
    assert saver.sessions.get("a").owner == "u1"  # type: ignore[union-attr]
    for given in ({"owner": "u2"}, {"config": {"metadata": {"owner": "u2"}}}):
        with pytest.raises(ConfigurationError, match="another owner"):
            own.resume("a", approve(), **given)
    assert own.resume("a", approve(), owner="u1").answer == "done"


def test_an_agent_does_not_reach_other_threads(saver: SQLCheckpointer) -> None:
    own, other = agent(saver.for_owner("u1")), agent(saver.for_owner("u2"))
    other.invoke("pay", thread="b")
    with pytest.raises(ThreadError, match="belongs to another owner"):
        own.invoke("what did they say?", thread="b")
    with pytest.raises(ThreadError):
        own.resume("b", approve())
    assert own.cancel("b") is False
    assert saver.status("b") == "paused"


def test_an_agent_does_not_cancel_other_turns(saver: SQLCheckpointer) -> None:
    own = agent(saver.for_owner("u1"))
    said: list[bool] = []

    def model(messages: Any) -> str:
        said.append(own.cancel("b"))
        return "done"

    other = Agent(ScriptedModel(model), checkpointer=saver.for_owner("u2"))
    assert other.invoke("hi", thread="b").answer == "done"
    assert said == [False]


def public(kind: type) -> Iterator[str]:
    """The public methods of a class that a caller waits for."""
    methods = dict(inspect.getmembers(kind, inspect.isfunction))
    yield from (name for name in methods if not name.startswith("_") and name not in ("for_owner", "under"))


@pytest.mark.parametrize("name", ["approvals", "sessions"])
def test_every_verb_has_its_async_half(saver: SQLCheckpointer, name: str) -> None:
    """With the same parameters; it is awaited, or iterated asynchronously."""
    view = type(getattr(saver, name))
    names = set(public(view))
    verbs = {one for one in names if not is_async(getattr(view, one))}
    assert names - verbs == {f"a{one}" for one in verbs}
    for verb in verbs:
        assert parameters(getattr(view, verb)) == parameters(getattr(view, f"a{verb}")), verb


def is_async(method: Any) -> bool:
    return inspect.iscoroutinefunction(method) or inspect.isasyncgenfunction(method)


def parameters(method: Any) -> list[tuple[Any, ...]]:
    return [(one.name, one.kind, one.default) for one in inspect.signature(method).parameters.values()]
