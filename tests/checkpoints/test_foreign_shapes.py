"""Wherever in a graph a question is asked, it is one approval: open while the graph waits for it, and then used."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Annotated, Any, TypedDict

import pytest
from checkpoints.databases import everywhere, sync_kinds
from checkpoints.foreign_graphs import CONFIG, run, run_in, statuses
from checkpoints.shapes_that_ask import NOTHING, SHAPES, asks, child, graph
from langgraph.graph import START, StateGraph
from langgraph.types import Command, interrupt
from sqlalchemy import select

from scallion import NotPaused, respond
from scallion.errors import DecisionError
from scallion.sql.saver import SQLCheckpointer

shapes = pytest.mark.parametrize("shape", SHAPES)


def pending(saver: SQLCheckpointer) -> list[str]:
    return [one.id for one in saver.approvals.list(thread="t").items]


def answer(saver: SQLCheckpointer, ids: list[str]) -> Command[Any]:
    """Decide these, and the command that carries it."""
    saver.approvals.decide_all({id: respond(f"to {saver.approvals.get(id).description}") for id in ids})
    return saver.command_for("t")


def audited(saver: SQLCheckpointer) -> list[str]:
    """The ends of approvals that the audit tells of."""
    a = saver.database.tables.audit.c
    query = select(a.event).where(a.event != "decided").order_by(a.no)
    return saver.database.run(lambda conn: list(conn.execute(query).scalars()))


def check_open(saver: SQLCheckpointer, waiting: list[str]) -> None:
    """What the graph waits for is pending, and the session says so.

    LangGraph shows one question of tasks that the functional API runs at once; the ledger has them all.
    """
    assert set(waiting) <= set(pending(saver))
    assert bool(waiting) == bool(pending(saver))
    session = saver.sessions.get("t")
    assert session is not None
    assert (session.status, session.pending_count) == ("paused" if waiting else "idle", len(pending(saver)))


@shapes
@pytest.mark.parametrize(("durability", "one_by_one"), [("async", True), ("exit", False)])
def test_every_question_is_one_approval(saver: SQLCheckpointer, shape: str, durability: str, one_by_one: bool) -> None:
    make, count = SHAPES[shape]
    made = make(saver)
    waiting = run(made, NOTHING, durability=durability)
    while waiting:
        check_open(saver, waiting)
        ids = pending(saver)[-1:] if one_by_one else pending(saver)
        waiting = run(made, answer(saver, ids), durability=durability)
    check_open(saver, [])
    assert statuses(saver) == ["used"] * count
    assert audited(saver) == ["used"] * count
    said = made.get_state(CONFIG).values["said"]
    assert set(said) == {f"to {one.description}" for one in saver.approvals.list(None).items}
    with pytest.raises(NotPaused):
        saver.command_for("t")


@shapes
async def test_in_a_loop(saver: SQLCheckpointer, shape: str) -> None:
    make, count = SHAPES[shape]
    made = make(saver)
    waiting = await run_in("astream", made, NOTHING)
    while waiting:
        check_open(saver, waiting)
        waiting = await run_in("ainvoke", made, answer(saver, pending(saver)))
    assert statuses(saver) == ["used"] * count


@sync_kinds
def test_only_the_open_gate_is_asked(saver: SQLCheckpointer) -> None:
    """Case CP-12: of two gates side by side one is answered."""
    made = graph(saver, {"x": asks("q1"), "y": child("q2")})
    first, second = sorted(run(made, NOTHING), key=lambda id: saver.approvals.get(id).description)
    assert run(made, answer(saver, [first])) == [second]
    assert pending(saver) == [second]
    assert saver.approvals.get(first).status == "used"
    shown = made.invoke(None, CONFIG)["__interrupt__"]
    assert [one.id for one in shown] == [second]
    assert run(made, answer(saver, [second])) == []
    assert statuses(saver) == ["used", "used"]


@everywhere
async def test_on_every_database(saver: SQLCheckpointer) -> None:
    make, count = SHAPES["subgraphs side by side"]
    made = make(saver)
    waiting = await run_in("ainvoke", made, NOTHING)
    while waiting:
        await saver.approvals.adecide_all({id: respond("yes") for id in waiting})
        waiting = await run_in("ainvoke", made, await saver.acommand_for("t"))
    assert statuses(saver) == ["used"] * count
    await saver.aclose()


@pytest.mark.parametrize("shape", ["a subgraph", "two deep", "subgraphs of their own", "the functional API"])
def test_a_new_input_supersedes(saver: SQLCheckpointer, shape: str) -> None:
    made = SHAPES[shape][0](saver)
    old = run(made, NOTHING)
    saver.approvals.decide(old[0], respond("too late"))
    new = run(made, NOTHING)
    assert new
    assert not set(old) & set(new)
    assert {saver.approvals.get(id).status for id in old} == {"superseded"}
    assert set(pending(saver)) == set(new)
    run(made, answer(saver, new))
    assert {saver.approvals.get(id).status for id in new} == {"used"}


OWN = [
    "a subgraph of its own",
    "a subgraph of its own that is called",
    "steps of one of its own",
    "subgraphs of their own",
]


@pytest.mark.parametrize("durability", ["sync", "exit"])
@pytest.mark.parametrize("shape", OWN)
def test_what_was_superseded_is_asked_again(saver: SQLCheckpointer, shape: str, durability: str) -> None:
    """A subgraph that keeps its state asks the same after the thread went on: its old answer is not for that."""
    made = SHAPES[shape][0](saver)
    first = pending(saver) if run(made, NOTHING, durability=durability) else []
    saver.approvals.decide(first[0], respond("too late"))
    made.update_state(CONFIG, NOTHING)
    assert saver.approvals.get(first[0]).status == "superseded"
    waiting = run(made, None, durability=durability)
    assert set(waiting) & set(first)
    while waiting:
        check_open(saver, waiting)
        assert all(one.decision is None for one in saver.approvals.list(thread="t").items)
        waiting = run(made, answer(saver, pending(saver)), durability=durability)
    check_open(saver, [])
    assert "too late" not in made.get_state(CONFIG).values["said"]


@sync_kinds
def test_what_was_cancelled_is_asked_again_when_the_thread_goes_on(saver: SQLCheckpointer) -> None:
    made = SHAPES["a subgraph of its own"][0](saver)
    (first,) = run(made, NOTHING)
    saver.approvals.close("t", "cancelled")
    assert run(made, None) == [first]
    assert statuses(saver) == ["cancelled"]
    made.update_state(CONFIG, NOTHING)
    check_open(saver, run(made, None))


@sync_kinds
def test_who_asks_late_opens_nothing_again(saver: SQLCheckpointer) -> None:
    """The thread has gone on from the checkpoint at which it is asked."""
    made = SHAPES["a subgraph of its own"][0](saver)
    run(made, NOTHING)
    asked = made.get_state(CONFIG).interrupts
    behind = made.update_state(CONFIG, NOTHING)
    made.update_state(CONFIG, NOTHING)
    saver.put_writes(behind, [("__interrupt__", asked)], "late")
    assert statuses(saver) == ["superseded"]


@shapes
def test_a_raw_command_uses_them(saver: SQLCheckpointer, shape: str) -> None:
    make, count = SHAPES[shape]
    made = make(saver)
    waiting = run(made, NOTHING)
    while waiting:
        saver.approvals.decide(waiting[0], respond("recorded"))
        waiting = run(made, Command(resume=dict.fromkeys(waiting, "raw")))
    assert set(made.get_state(CONFIG).values["said"]) == {"raw"}
    assert statuses(saver) == ["used"] * count
    assert saver.status("t") == "idle"


@pytest.mark.parametrize("shape", ["a node", "a subgraph", "a subgraph of its own", "the functional API"])
def test_a_replay_asks_anew(saver: SQLCheckpointer, shape: str) -> None:
    """From the checkpoint that paused: what was used then stays so, and the new branch has questions of its own."""
    make, count = SHAPES[shape]
    made = make(saver)
    waiting = run(made, NOTHING)
    paused = made.get_state(CONFIG).config
    for branch in (1, 2):
        while waiting:
            check_open(saver, waiting)
            waiting = run(made, answer(saver, waiting))
        assert statuses(saver) == ["used"] * count * branch
        made.invoke(None, paused)
        waiting = pending(saver)
        assert len(waiting) == 1


class Asked(TypedDict, total=False):
    log: Annotated[list[str], operator.add]


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
def test_a_subgraph_that_ended_beside_a_task_that_waits_is_answered(saver: SQLCheckpointer, durability: Any) -> None:
    def put(what: str) -> Callable[[Asked], Any]:
        return lambda state: {"log": [str(interrupt(what))]}

    inner = StateGraph(Asked).add_node("inner", put("inner?")).add_edge(START, "inner").compile()
    both = StateGraph(Asked).add_node("sub", inner).add_node("own", put("own?"))
    graph = both.add_edge(START, "sub").add_edge(START, "own").compile(checkpointer=saver)
    config: Any = {"configurable": {"thread_id": "t"}}
    graph.invoke({"log": []}, config, durability=durability)
    first = next(one for one in saver.approvals.list().items if one.description == "inner?")
    saver.approvals.decide(first.id, respond("yes"))
    graph.invoke(saver.command_for("t"), config, durability=durability)
    assert {one.description: one.status for one in saver.approvals.list(None).items} == {
        "inner?": "used",
        "own?": "pending",
    }
    assert audited(saver) == ["used"]
    with pytest.raises(DecisionError):
        saver.command_for("t")
