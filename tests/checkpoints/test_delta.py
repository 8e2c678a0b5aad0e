"""Graphs with delta channels: rebuilt, forked, copied, pruned and moved without losing a message."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, TypedDict
from uuid import UUID

import pytest
from checkpoints.databases import everywhere, sync_kinds
from checkpoints.test_storage import message
from langchain_core.messages import AnyMessage, HumanMessage, RemoveMessage
from langgraph.channels import DeltaChannel
from langgraph.checkpoint.base import BaseCheckpointSaver, empty_checkpoint
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.serde.types import _DeltaSnapshot
from langgraph.graph import START, StateGraph
from langgraph.pregel._messages import _messages_delta_reducer
from langgraph.types import Command, Overwrite, interrupt
from sqlalchemy import event

from scallion import StorageError
from scallion.sql.saver import SQLCheckpointer


def added(state: dict[str, int], writes: Sequence[dict[str, int]]) -> dict[str, int]:
    """One dict of all."""
    return {name: part for one in (state, *writes) for name, part in one.items()}


class State(TypedDict):
    messages: Annotated[list[AnyMessage], DeltaChannel(_messages_delta_reducer, snapshot_frequency=7)]
    seen: Annotated[dict[str, int], DeltaChannel(added, snapshot_frequency=4)]
    count: int


def talk(state: State) -> dict[str, Any]:
    """Answers; every third time it also changes what was said, and every fifth time it starts anew."""
    count = state["count"] + 1
    answer: list[Any] = [message(10 * count + n) for n in range(2)]
    if count % 3 == 0:
        answer += [RemoveMessage(id=state["messages"][0].id), HumanMessage("edited", id=state["messages"][-1].id)]
    written: dict[str, Any] = {"count": count, "messages": answer}
    if count % 5 == 0:
        written["messages"] = Overwrite(state["messages"][-2:])
    return written | ({"seen": {f"k{count}": count}} if count % 2 else {})


def ask(state: State) -> dict[str, Any]:
    """Waits for a person when the last message asks for it."""
    last = state["messages"][-1]
    return {"messages": [HumanMessage(interrupt("?"), id="answer")]} if last.content == "ask" else {}


def graph_of(saver: BaseCheckpointSaver[Any]) -> Any:
    graph = StateGraph(State).add_node("talk", talk).add_node("ask", ask)
    return graph.add_edge(START, "ask").add_edge("ask", "talk").compile(checkpointer=saver)


def config(thread: str = "t", id: str | None = None, ns: str = "") -> Any:
    place = {"thread_id": thread, "checkpoint_ns": ns} | ({"checkpoint_id": id} if id else {})
    return {"configurable": place}


def turns(graph: Any, first: int, last: int, place: Any = None) -> None:
    """Say something, so many times."""
    for n in range(first, last):
        start = {"count": 0} if n == 0 else {}
        graph.invoke({"messages": [HumanMessage(f"turn {n}", id=f"h{n}")], **start}, place or config())


def history(graph: Any, thread: str = "t") -> list[Any]:
    """The values at each of its checkpoints."""
    return [(state.metadata["step"], state.values, state.next) for state in graph.get_state_history(config(thread))]


def by_id(graph: Any) -> dict[str, Any]:
    """The values at each checkpoint."""
    states = graph.get_state_history(config())
    return {state.config["configurable"]["checkpoint_id"]: state.values for state in states}


def shape(history: Any) -> Any:
    """A history without the ids of tasks, which differ from run to run."""
    return {
        name: ([(channel, value) for _, channel, value in found["writes"]], found.get("seed", "none"))
        for name, found in history.items()
    }


@everywhere
async def test_it_works_as_in_memory(database: str) -> None:
    async with SQLCheckpointer(database, auto_upgrade=True) as saver:
        ours, theirs = graph_of(saver), graph_of(InMemorySaver())
        for graph in (ours, theirs):
            turns(graph, 0, 9)
        assert history(ours) == history(theirs)
        for one, other in zip(saver.list(config()), theirs.checkpointer.list(config()), strict=True):
            asked = {"config": one.config, "channels": ["messages", "seen", "count", "nothing"]}
            expected = theirs.checkpointer.get_delta_channel_history(**{**asked, "config": other.config})
            found = saver.get_delta_channel_history(**asked)
            assert shape(found) == shape(expected)
            assert await saver.aget_delta_channel_history(**asked) == found
            assert BaseCheckpointSaver.get_delta_channel_history(saver, **asked) == found


@sync_kinds
def test_a_copy_and_a_pruned_thread_lose_nothing(saver: SQLCheckpointer) -> None:
    graph, whole = graph_of(saver), graph_of(InMemorySaver())
    for each in (graph, whole):
        turns(each, 0, 5)
    saver.copy_thread("t", "copy")
    saver.prune(["t"])
    assert len(list(saver.list(config()))) == 1
    assert history(graph, "copy") == history(whole)
    for n in range(5, 14):
        for each, thread in ((graph, "t"), (whole, "t"), (graph, "copy")):
            turns(each, n, n + 1, config(thread))
        assert graph.get_state(config()).values == whole.get_state(config()).values
        if n % 2:
            saver.prune(["t"])
            assert len(list(saver.list(config()))) == 1
    assert history(graph, "copy") == history(whole)
    saver.sessions.load(saver.sessions.export("t"), "moved")
    assert history(graph, "moved") == history(graph)
    assert graph.get_state(config("moved")).values == whole.get_state(config()).values


def test_an_encrypted_thread_keeps_its_past(database: str) -> None:
    with SQLCheckpointer(database, key=bytes(range(32))) as saver:
        graph = graph_of(saver)
        turns(graph, 0, 6)
        values = graph.get_state(config()).values
        saver.prune(["t"])
        assert graph.get_state(config()).values == values
        assert len(list(saver.list(config()))) == 1


def test_every_checkpoint_that_stays_keeps_its_value(saver: SQLCheckpointer) -> None:
    graph = graph_of(saver)
    turns(graph, 0, 3)
    runs = [str(UUID(int=n)) for n in (1, 2)]
    for n, run in enumerate(runs, 3):
        turns(graph, n, n + 1, {**config(), "run_id": run, "metadata": {"run_id": run}})
    turns(graph, 5, 7)
    before = {
        state.config["configurable"]["checkpoint_id"]: state.values for state in graph.get_state_history(config())
    }
    saver.delete_for_runs(runs[:1])
    after = {state.config["configurable"]["checkpoint_id"]: state.values for state in graph.get_state_history(config())}
    assert 0 < len(after) < len(before)
    assert after == {id: before[id] for id in after}
    saver.delete_for_runs(runs)
    last = {state.config["configurable"]["checkpoint_id"]: state.values for state in graph.get_state_history(config())}
    assert last == {id: before[id] for id in last}


def test_a_fork_and_a_pause(saver: SQLCheckpointer) -> None:
    graphs = [graph_of(saver), graph_of(InMemorySaver())]
    for graph in graphs:
        turns(graph, 0, 6)
        early = list(graph.get_state_history(config()))[7]
        forked = graph.update_state(early.config, {"messages": [HumanMessage("other", id="fork")]}, as_node="ask")
        graph.invoke(None, forked)
        graph.invoke({"messages": [HumanMessage("ask", id="q")]}, config())
    assert history(graphs[0]) == history(graphs[1])
    saver.prune(["t"])
    assert graphs[0].get_state(config()).next == ("ask",)
    values = [graph.invoke(Command(resume="yes"), config()) for graph in graphs]
    assert values[0] == values[1]
    assert graphs[0].get_state(config()).next == ()


def put(saver: BaseCheckpointSaver[Any], id: str, parent: str | None, values: Any, writes: Sequence[Any] = ()) -> None:
    """A checkpoint and what the tasks of its step wrote: (channel, value) each, by one task each."""
    versions = dict.fromkeys(("c", "d"), id)
    checkpoint: Any = {**empty_checkpoint(), "id": id, "channel_values": values, "channel_versions": versions}
    stored = saver.put(config(id=parent), checkpoint, {"source": "loop", "step": int(id)}, dict.fromkeys(values, id))  # type: ignore[arg-type]
    for number, (channel, value) in enumerate(writes):
        saver.put_writes(stored, [(channel, value)], f"task{number}", f"path{number}")


@pytest.fixture(params=["sync", "async", "inherited"])
def read(request: pytest.FixtureRequest) -> Any:
    """Reads a history in each way that there is; the inherited one is LangGraph's own, over `get_tuple`."""

    async def found(saver: SQLCheckpointer, id: str | None, *channels: str) -> Any:
        asked: Any = {"config": config(id=id), "channels": channels}
        if request.param == "sync":
            return shape(saver.get_delta_channel_history(**asked))
        if request.param == "async":
            return shape(await saver.aget_delta_channel_history(**asked))
        return shape(BaseCheckpointSaver.get_delta_channel_history(saver, **asked))

    return found


async def test_writes_come_in_order_after_the_nearest_value(saver: SQLCheckpointer, read: Any) -> None:
    put(saver, "1", None, {"c": _DeltaSnapshot(["old"])}, [("c", 1)])
    put(saver, "2", "1", {"c": _DeltaSnapshot(["seed"])}, [("c", 2), ("other", 9), ("c", 3)])
    put(saver, "3", "2", {}, [("c", 4)])
    put(saver, "4", "3", {}, [("c", "not seen")])
    expected = {"c": ([("c", 2), ("c", 3), ("c", 4)], _DeltaSnapshot(["seed"]))}
    assert await read(saver, "4", "c") == await read(saver, None, "c") == expected


async def test_no_value_no_seed(saver: SQLCheckpointer, read: Any) -> None:
    put(saver, "1", None, {}, [("c", 1)])
    put(saver, "2", "1", {})
    assert await read(saver, "2", "c") == {"c": ([("c", 1)], "none")}
    assert await read(saver, "1", "c", "d") == {"c": ([], "none"), "d": ([], "none")}


async def test_each_channel_has_its_own_end(saver: SQLCheckpointer, read: Any) -> None:
    put(saver, "1", None, {"d": [1, 2]}, [("c", 1), ("d", 1)])
    put(saver, "2", "1", {"c": _DeltaSnapshot(())}, [("c", 2), ("d", 2)])
    put(saver, "3", "2", {}, [])
    expected = {"c": ([("c", 2)], _DeltaSnapshot(())), "d": ([("d", 1), ("d", 2)], [1, 2])}
    assert await read(saver, "3", "c", "d") == expected


async def test_only_ancestors_count(saver: SQLCheckpointer, read: Any) -> None:
    put(saver, "1", None, {"c": _DeltaSnapshot([])}, [("c", 1)])
    put(saver, "2", "1", {}, [("c", "left")])
    put(saver, "3", "1", {}, [("c", "right")])
    put(saver, "4", "2", {}, [])
    assert await read(saver, "4", "c") == {"c": ([("c", 1), ("c", "left")], _DeltaSnapshot([]))}


async def test_none_is_a_value(saver: SQLCheckpointer, read: Any) -> None:
    put(saver, "1", None, {"c": [1]}, [("c", 1)])
    put(saver, "2", "1", {"c": None}, [("c", None)])
    put(saver, "3", "2", {}, [])
    assert await read(saver, "3", "c") == {"c": ([("c", None)], None)}


async def test_a_list_is_a_seed(saver: SQLCheckpointer, read: Any) -> None:
    messages = [message(n) for n in range(20)]
    put(saver, "1", None, {"c": messages}, [("c", messages[:2])])
    put(saver, "2", "1", {}, [])
    assert await read(saver, "2", "c") == {"c": ([("c", messages[:2])], messages)}


async def test_ids_may_be_in_any_order(saver: SQLCheckpointer, read: Any) -> None:
    put(saver, "9", None, {"c": _DeltaSnapshot([])}, [("c", 1)])
    put(saver, "5", "9", {}, [("c", 2)])
    put(saver, "7", "5", {}, [])
    assert await read(saver, "7", "c") == {"c": ([("c", 1), ("c", 2)], _DeltaSnapshot([]))}


async def test_what_is_not_there_has_no_history(saver: SQLCheckpointer, read: Any) -> None:
    assert await read(saver, None, "c") == {"c": ([], "none")}
    assert await read(saver, None) == {}


@pytest.mark.parametrize("read", ["sync", "async"], indirect=True)
async def test_what_is_gone_has_a_history_that_is_not_known(saver: SQLCheckpointer, read: Any) -> None:
    """LangGraph's own way to read it takes what is left for the whole."""
    with pytest.raises(StorageError, match="'1' of thread 't' is gone"):
        await read(saver, "1", "c")
    put(saver, "2", "1", {}, [])
    with pytest.raises(StorageError, match="'1' of thread 't' is gone"):
        await read(saver, "2", "c")


def test_few_statements_read_a_long_history(saver: SQLCheckpointer) -> None:
    for n in range(60):
        put(saver, f"{n:04}", f"{n - 1:04}" if n else None, {} if n else {"c": _DeltaSnapshot([])}, [("c", n)])
    statements: list[str] = []
    event.listen(saver.database.engine, "checkout", lambda raw, *_: raw.set_trace_callback(statements.append))
    found = saver.get_delta_channel_history(config=config(id="0059"), channels=["c"])["c"]
    assert [value for _, _, value in found["writes"]] == list(range(59))
    assert len([one for one in statements if one.startswith(("SELECT", "WITH"))]) <= 4


@sync_kinds
@pytest.mark.parametrize("call", ["get_state", "invoke"])
def test_what_is_pruned_while_it_is_read(saver: SQLCheckpointer, call: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """LangGraph reads a checkpoint, and then what its values are made of: between them somebody prunes the thread."""
    graph, history = graph_of(saver), saver.get_delta_channel_history
    graph.invoke({"messages": [message(1)], "count": 0}, config())

    def late(**given: Any) -> Any:
        monkeypatch.undo()
        graph.invoke({"messages": [message(2)]}, config())
        saver.prune(["t"])
        return history(**given)

    monkeypatch.setattr(saver, "get_delta_channel_history", late)
    with pytest.raises(StorageError, match="is gone"):
        graph.get_state(config()) if call == "get_state" else graph.invoke({"messages": [message(3)]}, config())
    assert graph.get_state(config()).values["messages"]


@sync_kinds
def test_a_checkpoint_whose_parent_was_pruned_meanwhile(saver: SQLCheckpointer) -> None:
    """It would take a value with it that nobody has any more."""
    graph = graph_of(saver)
    graph.invoke({"messages": [message(1)], "count": 0}, config())
    before = saver.get_tuple(config())
    assert before is not None
    graph.invoke({"messages": [message(2)]}, config())
    saver.prune(["t"])
    late = {**before.checkpoint, "id": empty_checkpoint()["id"]}
    newest = graph.get_state(config()).values
    with pytest.raises(StorageError, match="is gone"):
        saver.put(before.config, late, before.metadata, {})  # type: ignore[arg-type]
    saver.prune(["t"])
    assert graph.get_state(config()).values == newest


@everywhere
def test_a_checkpoint_whose_parent_is_gone_is_refused(saver: SQLCheckpointer) -> None:
    def over(state: State) -> dict[str, Any]:
        if state["messages"][-1].content == "over":
            saver.delete_thread("t")
        return {"messages": [HumanMessage("answer")]}

    graph = StateGraph(State).add_node("over", over).add_edge(START, "over").compile(checkpointer=saver)
    given = [{"messages": [HumanMessage(text)], "count": 0} for text in ("first", "over", "again")]
    graph.invoke(given[0], config())
    with pytest.raises(StorageError, match="is gone"):
        graph.invoke(given[1], config())
    assert len(graph.invoke(given[2], config())["messages"]) == 2
    assert len(graph.get_state(config()).values["messages"]) == 2


def test_what_was_undone_is_not_remembered(sql: SQLCheckpointer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pieces that are committed together see each other's writes; the commit fails, and others take their place."""
    put(sql, "1", None, {})
    done: list[Any] = []
    with monkeypatch.context() as patched:
        patched.setattr(sql.database, "store", lambda work, memory, thread: done.append(work))
        sql.put_writes(config(id="1"), [("messages", [HumanMessage("undone", id="m")])], "task", "path")
        put_next(sql)

    def both(conn: Any) -> None:
        for work in done:
            work(conn)
        raise ValueError("undone")

    with pytest.raises(ValueError, match="undone"):
        sql.database.run(both, write=True)
    with SQLCheckpointer(sql.database.url) as other:
        other.put_writes(config(id="1"), [("messages", [HumanMessage("done", id="m")])], "task", "path")
        put_next(other)
    session = sql.sessions.get("t")
    assert session is not None
    assert session.preview == "done"
    found = sql.get_delta_channel_history(config=config(), channels=["messages"])["messages"]["writes"]
    assert [message.content for _, _, value in found for message in value] == ["done"]


def put_next(saver: SQLCheckpointer) -> None:
    """The checkpoint behind the first one, in a thread whose messages are those of a delta channel."""
    checkpoint: Any = {**empty_checkpoint(), "id": "2"}
    metadata: Any = {"source": "loop", "step": 2, "counters_since_delta_snapshot": {"messages": [1, 1]}}
    saver.put(config(id="1"), checkpoint, metadata, {})
