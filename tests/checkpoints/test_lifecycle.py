"""Threads are pruned and deleted: what is needed stays, what is not needed goes, in every table."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypedDict

import pytest
from checkpoints.databases import counted, everywhere, one_of_each, sync_kinds
from checkpoints.journeys import ALLOWED, AT, JOURNEYS, Journey, delta, nested, plain, said
from checkpoints.test_storage import Writer
from langchain_core.messages import HumanMessage
from langgraph.checkpoint.serde.types import INTERRUPT
from langgraph.graph import START, StateGraph
from langgraph.types import Command, Interrupt
from sqlalchemy import Connection, event, select, text

from scallion.errors import StorageError
from scallion.sql import pruning
from scallion.sql.saver import SQLCheckpointer
from scallion.sql.serde import StrictSerializer


@pytest.fixture
def kept(database: str) -> Iterator[SQLCheckpointer]:
    """A saver that takes the classes of the journeys."""
    with SQLCheckpointer(database, serde=StrictSerializer(ALLOWED), auto_upgrade=True) as saver:
        yield saver


def at(thread: str) -> Any:
    return {"configurable": {"thread_id": thread}}


def namespaces(saver: SQLCheckpointer, thread: str = "t") -> list[str]:
    """One for each checkpoint, without the ids of tasks."""
    found = saver.list(at(thread))
    return sorted(":".join(one.config["configurable"]["checkpoint_ns"].split(":")[:1]) for one in found)


def state(graph: Any, config: Any = AT) -> Any:
    """What the graph knows of itself now, without the checkpoints before, which may be gone."""
    return without_parents(plain(graph.get_state(config, subgraphs=True)))


def without_parents(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: without_parents(part) for key, part in value.items() if key != "parent_config"}
    return [without_parents(part) for part in value] if isinstance(value, list) else value


@everywhere
async def test_a_deleted_thread_leaves_nothing_but_its_audit(database: str) -> None:
    async with SQLCheckpointer(database, serde=StrictSerializer(ALLOWED), auto_upgrade=True) as saver:
        empty = counted(saver)
        for thread in ("t", "u"):
            JOURNEYS["nested"].before(nested(saver), at(thread))
            saver.sessions.tag(thread, "a", "b")
        (first, _) = saver.approvals.list().items
        graph = nested(saver)
        graph.invoke(Command(resume={first.id: "yes"}), at(first.thread))
        rows = counted(saver)
        assert all(rows[name] for name in ("sessions", "session_tags", "checkpoints", "items", "entries", "writes"))
        saver.delete_thread("t")
        assert all(rows[name] >= counted(saver)[name] * 2 > 0 for name in ("sessions", "session_tags"))
        await saver.adelete_thread("u")
        left = counted(saver)
        assert left.pop("audit") > rows["audit"]  # what was open ended here
        assert left.pop("audit_head") == 1
        assert left == {name: empty[name] for name in left}


@one_of_each
@pytest.mark.parametrize("name", JOURNEYS)
def test_a_pruned_thread_goes_on_as_if_it_were_not(kept: SQLCheckpointer, name: str) -> None:
    journey: Journey = JOURNEYS[name]
    graph = journey.build(kept)
    journey.before(graph, AT)
    kept.copy_thread("t", "whole")
    before = state(graph)
    kept.prune(["t"])
    assert state(graph) == before
    assert len(list(kept.list(AT))) < len(list(kept.list(at("whole"))))  # type: ignore[arg-type]
    assert len(kept.approvals.list(thread="t").items) == journey.open
    assert said(journey.after(graph, AT)) == said(journey.after(graph, at("whole")))
    rows = counted(kept)
    kept.prune(["t"])
    kept.prune(["t"])
    assert counted(kept)["checkpoints"] < rows["checkpoints"]


def test_the_calls_of_subgraphs_go_with_their_callers(kept: SQLCheckpointer) -> None:
    graph = nested(kept)
    JOURNEYS["nested"].before(graph, AT)
    kept.prune(["t"])
    assert namespaces(kept) == ["", "inner"]  # it waits in there
    JOURNEYS["nested"].after(graph, AT)
    JOURNEYS["nested"].before(graph, AT)
    JOURNEYS["nested"].after(graph, AT)
    assert len(namespaces(kept)) > 6
    kept.prune(["t"])
    assert namespaces(kept) == [""]


def test_a_subgraph_that_keeps_its_state_is_kept(saver: SQLCheckpointer) -> None:
    class Count(TypedDict):
        n: int

    def count(state: Count) -> dict[str, int]:
        return {"n": state["n"] + 1}

    inner = StateGraph(Count).add_node(count).add_edge(START, "count").compile(checkpointer=True)
    graph = StateGraph(Count).add_node("inner", inner).add_edge(START, "inner").compile(checkpointer=saver)
    for _ in range(3):
        graph.invoke({"n": 1}, AT)
    saver.prune(["t"])
    assert namespaces(saver) == ["", "inner"]


@pytest.mark.parametrize("rounds", range(1, 6))
def test_delta_channels_keep_what_they_are_made_of(saver: SQLCheckpointer, rounds: int) -> None:
    graph = delta(saver)
    for n in range(rounds):
        graph.invoke({"log": [f"word {n}"]}, AT, durability="exit" if n == 2 else "sync")
    past = list(graph.get_state_history(AT))
    graph.update_state(past[len(past) // 2].config, {"log": ["fork"]})
    saver.copy_thread("t", "copy")
    before = graph.get_state(AT).values
    saver.prune(["t"])
    assert graph.get_state(AT).values == before
    assert graph.invoke({"log": ["on"]}, AT) == graph.invoke({"log": ["on"]}, at("copy"))


def test_what_is_asked_at_an_old_checkpoint_stays(saver: SQLCheckpointer) -> None:
    graph = JOURNEYS["delta"].build(saver)
    JOURNEYS["delta"].before(graph, AT)
    old = list(graph.get_state_history(AT))[3]
    saver.put_writes(old.config, [(INTERRUPT, [Interrupt("sure?", id="q1")])], "task")
    saver.prune(["t"])
    assert saver.approvals.get("q1").status == "pending"
    assert saver.get_tuple(old.config) is not None
    saver.approvals.close("t", "cancelled")
    saver.prune(["t"])
    assert saver.approvals.get("q1").status == "cancelled"


def test_what_nothing_refers_to_is_collected(kept: SQLCheckpointer) -> None:
    graph = JOURNEYS["forked"].build(kept)
    for n in range(5):
        graph.invoke({"log": [f"old {n} " * 50]}, AT)
    graph.update_state(AT, {"log": []})
    kept.prune(["t"])
    kept.sessions.load(kept.sessions.export("t"), "fresh")
    sizes = text("SELECT session, count(*), sum(length(data)) FROM items GROUP BY session")
    (_, *pruned), (_, *fresh) = kept.database.run(lambda conn: conn.execute(sizes).all())
    assert pruned == fresh
    session = kept.sessions.get("t")
    assert session is not None
    assert session.bytes == pruned[1]
    dangling = "SELECT count(*) FROM checkpoints c WHERE parent IS NOT NULL AND NOT EXISTS (SELECT 1 FROM " + (
        "checkpoints p WHERE p.session = c.session AND p.ns = c.ns AND p.id = c.parent)"
    )
    assert kept.database.run(lambda conn: conn.execute(text(dangling)).scalar()) == 0


@one_of_each
def test_a_thread_of_writes_alone_is_not_copied_onto(saver: SQLCheckpointer) -> None:
    JOURNEYS["delta"].before(JOURNEYS["delta"].build(saver), AT)
    place = {"thread_id": "u", "checkpoint_ns": "", "checkpoint_id": "1"}
    saver.put_writes({"configurable": place}, [("log", ["x" * 100])], "task")
    rows = counted(saver)
    with pytest.raises(StorageError, match=r"'u' exists: .*another name"):
        saver.copy_thread("t", "u")
    assert counted(saver) == rows
    with pytest.raises(StorageError, match="'t' exists"):
        saver.copy_thread("t", "t")


def test_writes_of_a_checkpoint_that_never_came_are_dropped(saver: SQLCheckpointer) -> None:
    graph = JOURNEYS["delta"].build(saver)
    JOURNEYS["delta"].before(graph, AT)
    head = graph.get_state(AT).config["configurable"]["checkpoint_id"]
    for id in (f"0{head[1:]}", f"2{head[1:]}"):  # the second may still come
        place = {"thread_id": "t", "checkpoint_ns": "", "checkpoint_id": id}
        saver.put_writes({"configurable": place}, [("log", ["x" * 100])], "task")
    saver.prune(["t"])
    left = text("SELECT checkpoint FROM writes WHERE task = 'task'")
    assert saver.database.run(lambda conn: conn.execute(left).scalars().all()) == [f"2{head[1:]}"]


MOVES = {
    "a turn": lambda saver, graph: graph.invoke({"log": ["I am back"]}, AT),
    "a pause": lambda saver, graph: saver.put_writes(
        graph.get_state(AT).config, [(INTERRUPT, [Interrupt("sure?", id="q1")])], "task"
    ),
    "a deletion": lambda saver, graph: saver.delete_thread("t"),
}


@one_of_each
@pytest.mark.parametrize("delete", [False, True])
@pytest.mark.parametrize("move", MOVES)
def test_what_is_in_use_again_is_left_alone(saver: SQLCheckpointer, move: str, delete: bool) -> None:
    graph = JOURNEYS["delta"].build(saver)
    JOURNEYS["delta"].before(graph, AT)
    t = saver.database.tables
    before: int = saver.database.run(lambda conn: conn.execute(select(t.sessions.c.updated)).scalar_one())
    ((_, no),) = saver.database.run(lambda conn: pruning.resting(conn, t, "idle", before))
    MOVES[move](saver, graph)
    rows = counted(saver)

    def work(conn: Connection) -> str | None:
        return pruning.prune_resting(conn, t, no, ["idle"], before, delete=delete, dry_run=False)

    assert saver.database.run(work, write=True) is None
    assert counted(saver) == rows


@pytest.mark.parametrize("past", [False, True])
def test_resting_threads_are_found_by_an_index(saver: SQLCheckpointer, past: bool) -> None:
    saver.setup()
    t, asked = saver.database.tables, []
    event.listen(saver.database.engine, "before_cursor_execute", lambda *args: asked.append(args[2:4]))
    saver.database.run(lambda conn: pruning.resting(conn, t, "idle", 10, (5, 1), past=past))
    statement, parameters = asked[-1]

    def plan(conn: Connection) -> str:
        return str(conn.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", parameters).all())

    told = saver.database.run(plan)
    assert "sessions_status" in told
    assert "updated>" in told
    assert "SCAN" not in told
    assert "TEMP B-TREE" not in told


@sync_kinds
def test_a_long_log_is_cut_in_ranges(saver: SQLCheckpointer) -> None:
    """Not position by position, which takes a server longer for each of them."""
    writer = Writer(saver)
    parent, messages = None, [HumanMessage("x", id=str(n)) for n in range(700)]
    for n in range(1, 5):
        messages = [HumanMessage(f"edited {n}", id=one.id) if n % 2 else one for n, one in enumerate(messages, n)]
        parent = writer.put(parent, {"messages": messages}, {"messages": n}, {"messages": n})
    asked: list[str] = []
    event.listen(saver.database.engine, "before_cursor_execute", lambda *args: asked.append(args[2]))
    saver.prune(["t"])
    assert sum("DELETE FROM entries" in statement for statement in asked) == 1
    assert writer.get(parent)["messages"] == messages
    assert counted(saver)["entries"] == len(messages)
