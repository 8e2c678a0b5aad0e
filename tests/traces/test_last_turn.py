"""Which trace is that of the last turn, and what is kept of turns that failed before their first step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from checkpoints.databases import counted, one_of_each
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.graph import START, MessagesState, StateGraph
from modes import Drive
from scenes import Desk, asks, call

from scallion import Agent, FilterError, Inbox, ModelError, SQLCheckpointer, approve, around_turn, filters
from scallion.sql import traces
from scallion.testing import ScriptedModel

CONFIG: Any = {"configurable": {"thread_id": "t"}}


def plain(saver: SQLCheckpointer, *replies: Any, **options: Any) -> Agent:
    """An agent that answers."""
    return Agent(ScriptedModel(list(replies) or ["Hello."]), checkpointer=saver, **options)


def gated(saver: SQLCheckpointer, *replies: Any) -> Agent:
    """An agent whose tool asks a person."""
    model = ScriptedModel([asks(call("refund", order=1)), *(replies or ["Done."])])
    return Agent(model, tools=Desk().tools, filters=[filters.approval({"refund": True})], checkpointer=saver)


@around_turn
def broken(request: Any, state: Any, next: Any) -> Any:
    """Fail before anything is stored."""
    raise RuntimeError("no")


def fails(saver: SQLCheckpointer, times: int = 1) -> None:
    """Turns that fail before their first step."""
    for _ in range(times):
        with pytest.raises(FilterError):
            plain(saver, filters=[broken]).invoke("?", thread="t")


def foreign(saver: SQLCheckpointer) -> None:
    """A turn of a graph that is not ours."""
    graph = StateGraph(MessagesState)
    graph.add_node("answer", lambda state: {"messages": [AIMessage("plain")]})
    graph.add_edge(START, "answer")
    graph.compile(checkpointer=saver).invoke({"messages": [HumanMessage("?")]}, CONFIG)


@pytest.mark.parametrize("durability", ["sync", "exit"])
def test_a_turn_without_a_trace_is_not_the_one_before(drive: Drive, sql: SQLCheckpointer, durability: Any) -> None:
    """Nothing is told of it, and not what another turn did; each of the others keeps its own."""
    first = plain(sql).invoke("?", thread="t")
    silent = plain(sql, "again", "and again", trace=False)
    drive(silent).start("?", thread="t", durability=durability)
    session = silent.session("t")
    assert session.trace() is None
    assert session.trace(first.turn) == session.trace(session.history[0]) == first.trace
    last = plain(sql).invoke("?", thread="t")
    assert session.trace() == last.trace


@one_of_each
def test_it_is_none_behind_a_foreign_turn(database: str) -> None:
    """On each database, and for who has no graph at all."""
    with SQLCheckpointer(database) as saver:
        plain(saver).invoke("?", thread="t")
        foreign(saver)
        with Inbox(database) as inbox:
            assert inbox.sessions.trace("t") is None


def back(agent: Agent) -> None:
    """Go back behind the first of two turns."""
    session = agent.session("t")
    session.rewind(session.history[0])


def twice(agent: Agent) -> None:
    """Go back to where the thread was gone back to."""
    back(agent)
    agent.session("t").rewind(agent.session("t").checkpoints[-1])


def within(agent: Agent) -> None:
    """Go back into the first turn."""
    session = agent.session("t")
    session.rewind(session.checkpoints[1])


def beginning(agent: Agent) -> None:
    """Go back to the message of the first turn."""
    session = agent.session("t")
    session.rewind(session.checkpoints[0])


def changed(agent: Agent) -> None:
    """Go back, and change the state from outside."""
    back(agent)
    agent.graph.update_state(CONFIG, {"messages": [HumanMessage("note")]})


@pytest.mark.parametrize("go", [back, twice, within, beginning, changed])
def test_behind_a_rewind_it_is_that_of_the_turn_there(sql: SQLCheckpointer, go: Callable[[Agent], None]) -> None:
    """Not that of the turn which the rewind has left behind; pruning does not change it."""
    agent = plain(sql, "one", "two")
    first, _ = (agent.invoke("?", thread="t") for _ in range(2))
    go(agent)
    for _ in range(2):
        assert agent.session("t").trace() == first.trace
        sql.prune(["t"])


def test_behind_a_rewind_to_nothing_there_is_none(sql: SQLCheckpointer) -> None:
    """The thread stands at no turn; nor does it behind a turn without a trace that it went back to."""
    agent = plain(sql, "one", "two")
    plain(sql, trace=False).invoke("?", thread="t")
    agent.invoke("?", thread="t")
    session = agent.session("t")
    session.rewind(session.history[0])
    assert session.trace() is None
    session.rewind(before=session.history[0])
    assert session.trace() is None


def test_a_pause_that_is_closed_is_its_turn(sql: SQLCheckpointer) -> None:
    """Also while it is open."""
    paused = gated(sql).invoke("Refund 1", thread="t")
    assert gated(sql).session("t").trace() == paused.trace
    gated(sql).cancel("t")
    assert gated(sql).session("t").trace().turn == paused.turn


def test_a_turn_that_fails_at_once_is_the_last(sql: SQLCheckpointer) -> None:
    """Until another one has moved the thread on, or somebody goes back; the turn that the thread stands at keeps its
    own."""
    first = plain(sql).invoke("?", thread="t")
    fails(sql)
    session = plain(sql).session("t")
    assert (session.trace().status, session.trace().parts[0].error) == ("failed", "FilterError")
    assert session.trace(session.history[-1]) == first.trace
    session.rewind(session.history[0])
    assert session.trace() == first.trace
    fails(sql)
    plain(sql, trace=False).invoke("?", thread="t")
    assert session.trace() is None


def test_a_foreign_turn_is_not_given_what_failed_behind_it(sql: SQLCheckpointer) -> None:
    """It ends at the step where the other one failed, and has no trace."""
    foreign(sql)
    fails(sql)
    session = plain(sql).session("t")
    assert session.trace(session.history[-1]) is None
    assert session.trace().status == "failed"


@one_of_each
@pytest.mark.parametrize("key", [None, b"k" * 32], ids=["plain", "sealed"])
def test_turns_that_fail_at_once_do_not_pile_up(database: str, key: bytes | None) -> None:
    """The last of them is kept, and goes with a pruning, as it has no step."""
    with SQLCheckpointer(database, key=key) as saver:
        first = plain(saver).invoke("?", thread="t")
        fails(saver, 5)
        assert counted(saver)["traces"] == 2
        plain(saver).invoke("?", thread="t")
        fails(saver, 2)
        assert counted(saver)["traces"] == 3
        assert saver.sessions.trace("t", first.turn) == first.trace
        lines = list(saver.sessions.export("t"))
        saver.sessions.load(lines, thread="u")
        assert saver.sessions.traced("u") == saver.sessions.traced("t")
        saver.prune(["t"])
        assert len(saver.sessions.traced("t")) == 1


def test_a_turn_that_fails_again_and_again_keeps_its_ends(
    drive: Drive, sql: SQLCheckpointer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each resume is a part: of many the first one and the last ones."""
    monkeypatch.setattr(traces, "PARTS", 4)
    agent = gated(sql, *(ValueError("no") for _ in range(6)), "Done.")
    drive(agent).start("Refund 1", thread="t")
    for answer in (approve(), *(None for _ in range(5))):
        with pytest.raises(ModelError):
            drive(agent).resume("t", answer)
    result, _ = drive(agent).resume("t", None)
    trace = agent.session("t").trace()
    assert [part.status for part in trace.parts] == ["paused", "failed", "failed", "completed"]
    assert trace.parts[-1] == result.trace.parts[-1]
    assert counted(sql)["traces"] == 4
