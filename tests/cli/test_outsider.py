"""The command line shows, decides and resumes what a graph asks that belongs to no Agent."""

import asyncio
import importlib
from pathlib import Path
from typing import Any

import pytest
from tests.cli.command import Command

OUTSIDER = str(Path(__file__).parent / "outsider.py")
CONFIG: Any = {"configurable": {"thread_id": "t"}}


@pytest.fixture
def outsider(place: Path) -> Any:
    """The module, its graphs on the database of the test."""
    module = importlib.reload(importlib.import_module("tests.cli.outsider"))
    yield module
    module.saver.close()


def ids(here: Command) -> list[str]:
    return [one["id"] for one in here("pending", "--json").data["items"]]


def test_a_batch_of_calls(here: Command, outsider: Any) -> None:
    """Each is a row of its own, and the graph goes on when all of them are decided."""
    outsider.graph.invoke({"messages": [("user", "Pay both")]}, CONFIG)
    table = here("pending").out
    first, second = ids(here)
    assert table.count("Tool execution requires approval") == 2
    assert here("show", "t").out.count("may be decided: approve, edit, reject, respond") == 2
    assert here("approve", first.partition(":")[0]).status == 1
    assert here("edit", first, "--set", "order=7").status == 0
    waits = here("resume", f"{OUTSIDER}:graph", "t")
    assert (waits.status, waits.err) == (1, "error: thread 't' waits for 1 decision(s): decide before it goes on\n")
    assert here("reject", second, "-m", "no").status == 0
    done = here("resume", f"{OUTSIDER}:graph", "t", "--json")
    assert done.status == 0
    assert "paid 7" in done.data["answer"]
    assert "reason: no" in done.data["answer"]
    again = here("resume", f"{OUTSIDER}:graph", "t")
    assert (again.status, again.err) == (1, "error: thread 't' has nothing to resume\n")
    assert {one["status"] for one in here("pending", "--status", "all", "--json").data["items"]} == {"used"}


def test_the_graph_of_another_thread_uses_nothing_up(here: Command, outsider: Any) -> None:
    asyncio.run(outsider.form.ainvoke({"sure": False}, CONFIG))
    here("approve", *ids(here))
    wrong = here("resume", f"{OUTSIDER}:graph", "t")
    assert (wrong.status, "name the one that paused" in wrong.err) == (1, True)
    assert here("resume", f"{OUTSIDER}:form", "t").status == 0
    assert outsider.form.get_state(CONFIG).values == {"sure": True}


def test_a_question_for_a_truth_value(here: Command, outsider: Any) -> None:
    """Is approved, rejected, or answered as JSON; an async node runs."""
    for thread, words, sure in (("a", ["approve"], True), ("b", ["reject"], False), ("c", ["respond", "true"], True)):
        asyncio.run(outsider.form.ainvoke({"sure": False}, {"configurable": {"thread_id": thread}}))
        (id,) = ids(here)
        assert here("respond", id, "maybe").status == 1
        assert here(words[0], id, *words[1:]).status == 0
        done = here("resume", f"{OUTSIDER}:form", thread)
        assert (done.status, done.out) == (0, "done\n")
        assert outsider.form.get_state({"configurable": {"thread_id": thread}}).values == {"sure": sure}


def test_it_pauses_again(here: Command, outsider: Any) -> None:
    """With the card of what it asks now, and exit status 3."""
    outsider.twice.invoke({"sure": False}, CONFIG)
    here("respond", *ids(here), "yes")
    done = here("resume", f"{OUTSIDER}:twice", "t")
    assert done.status == 3
    assert "Really?" in done.out
    assert f"scallion resume {OUTSIDER}:twice t" in done.out
    here("respond", *ids(here), "yes")
    assert here("resume", f"{OUTSIDER}:twice", "t", "--json").data == {
        "status": "completed", "thread": "t", "answer": None,
    }  # fmt: skip


@pytest.mark.parametrize("name", ["graph", "form", "twice"])
@pytest.mark.parametrize("marked", [False, True])
def test_giving_up(here: Command, outsider: Any, name: str, marked: bool) -> None:
    """With the graph the thread rests, also where its approvals were cancelled before; it takes a new input."""
    graph, values = (
        getattr(outsider, name),
        {"messages": [("user", "Pay both")]} if name == "graph" else {"sure": False},
    )
    asyncio.run(graph.ainvoke(values, CONFIG))
    if marked:
        assert "give --graph" in here("cancel", "t").out
        assert here("sessions", "--json").data["items"][0]["status"] == "running"
    done = here("cancel", "t", "--graph", f"{OUTSIDER}:{name}")
    assert (done.status, done.out) == (0, "cancelled\n")
    assert {one["status"] for one in here("pending", "--status", "all", "--json").data["items"]} == {"cancelled"}
    assert here("sessions", "--json").data["items"][0]["status"] == "idle"
    assert not graph.get_state(CONFIG).tasks
    again = here("cancel", "t", "--graph", f"{OUTSIDER}:{name}")
    assert (again.status, again.err) == (1, "error: thread 't' has no open turn\n")
    assert "__interrupt__" in asyncio.run(graph.ainvoke(values, {"configurable": {"thread_id": "t"}}))


@pytest.mark.parametrize(
    ("graph", "told"),
    [("elsewhere", "keeps no decisions: compile it with checkpointer=SQLCheckpointer"), ("keepless", "keeps nothing")],
)
def test_what_cannot_go_on(here: Command, outsider: Any, graph: str, told: str) -> None:
    """A graph without a ledger."""
    done = here("resume", f"{OUTSIDER}:{graph}", "t")
    assert done.status == 1
    assert told in done.err
