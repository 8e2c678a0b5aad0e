"""The thread on which a turn is run again: of a free name, of the same owner, gone where the turn cannot begin."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import numpy as np
import pytest
from checkpoints.databases import one_of_each
from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langchain_core.tools import InjectedToolCallId, tool
from langgraph.types import Command
from modes import Mode
from scenes import asks, call
from sessions.talks import Spoken, said, talker
from tests.hitl.harness import outcome

from scallion import Agent, ConfigurationError, SQLCheckpointer, StorageError, ThreadError
from scallion.testing import ScriptedModel

COLOURS = pytest.mark.parametrize("colour", ["invoke", "ainvoke"])


def threads(saver: SQLCheckpointer) -> list[str]:
    """All there are."""
    return sorted(one.thread for one in saver.sessions.list(limit=100).items)


@COLOURS
@one_of_each
def test_a_name_that_is_taken(database: str, colour: Mode) -> None:
    """Whoever owns the thread, and whichever turn is run again: it is not run, and the thread stays as it is."""
    with SQLCheckpointer(database) as saver:
        agent = talker(saver)
        agent.session("nobodys").send("mine")
        agent.session("eves", owner="eve").send("hers")
        agent.session("bobs", owner="bob").send("his")
        for owner in ("bob", None):
            spoken = Spoken(agent.session(f"of {owner}", owner=owner), colour)
            spoken.send("hello")
            spoken.send("ho")
            for turn in spoken.see("history"):
                for name in ("nobodys", "eves", "bobs", spoken.session.thread):
                    with pytest.raises(StorageError, match="exists"):
                        spoken.do("rerun", turn, thread=name)
        assert threads(saver) == ["bobs", "eves", "nobodys", "of None", "of bob"]
        assert [saver.sessions.get(one).owner for one in ("nobodys", "eves", "bobs")] == [None, "eve", "bob"]
        assert said(agent.session("nobodys").messages) == ["human: mine", "ai: 1: heard mine"]


@pytest.mark.parametrize("lease_seconds", [60, None])
def test_a_name_that_is_taken_meanwhile(
    sql: SQLCheckpointer, lease_seconds: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the look at the name and the run of a thread's first turn."""
    with SQLCheckpointer(str(sql.database.url), lease_seconds=lease_seconds) as saver:
        session = talker(saver).session("t", owner="bob")
        session.send("hello")
        get, other = type(saver.sessions).get, talker(sql)

        def taken(self: Any, thread: str) -> Any:
            found = get(self, thread)
            if thread == "new" and found is None:
                assert outcome(other, "sync", "invoke", "mine", thread="new") == "Completed"
            return found

        monkeypatch.setattr(type(saver.sessions), "get", taken)
        with pytest.raises((StorageError, ThreadError)):
            session.rerun(session.history[0], thread="new")
        monkeypatch.undo()
        assert said(other.session("new").messages) == ["human: mine", "ai: 1: heard mine"]
        assert sql.sessions.get("new").owner is None


@COLOURS
@one_of_each
def test_options_that_cannot_be_leave_no_thread(database: str, colour: Mode) -> None:
    """Whatever is wrong: nobody would know of the copy that was made for the turn."""
    with SQLCheckpointer(database) as saver:
        agent = talker(saver)
        spoken = Spoken(agent.session("t", owner="bob"), colour)
        spoken.send("hello")
        spoken.send("ho")
        elsewhere = {"configurable": {"thread_id": "other"}}
        for turn in spoken.see("history"):
            for wrong in ({"owner": "eve"}, {"config": elsewhere}, {"system_prompt": 5}, {"user": 1.5}):
                for verb, agents in (("rerun", ()), ("compare_runs", ({"a": agent, "b": agent},))):
                    with pytest.raises((ConfigurationError, StorageError)):
                        spoken.do(verb, turn, *agents, **wrong)
                    assert threads(saver) == ["t"]
            assert spoken.do("rerun", turn, owner="bob").session.row.owner == "bob"
            assert Spoken(agent.session("t"), colour).do("rerun", turn, owner=None).session.row.owner == "bob"
            for name in set(threads(saver)) - {"t"}:
                agent.session(name).delete()


def putting(saver: Any, value: Any) -> Agent:
    """An agent whose tool keeps that in the shared state."""

    @tool
    def put(call_id: Annotated[str, InjectedToolCallId]) -> Command[Any]:
        """Keep it."""
        return Command(update={"x": value, "messages": [ToolMessage("kept", tool_call_id=call_id)]})

    def model(messages: Sequence[BaseMessage]) -> AIMessage:
        return asks(call("put", "c1")) if messages[-1].type == "human" else AIMessage("done")

    return Agent(ScriptedModel(model), tools=[put], checkpointer=saver)


SAME = [np.array([1, 2]), [np.array([1.0, float("nan")])], {"a": np.array([])}, float("nan"), [float("nan")], {1, 2}]
OTHERS = [
    (np.array([1, 2]), np.array([1, 3])), (np.array([1]), np.array([[1]])), (np.array([1]), np.array([1.0])),
    (True, 1), (1, 1.0), ({"a": [0]}, {"a": [False]}), (np.array([1, 2]), None),
]  # fmt: skip


@pytest.mark.parametrize("value", SAME, ids=repr)
def test_what_is_stored_alike_is_no_difference(sql: SQLCheckpointer, value: Any) -> None:
    agent = putting(sql, value)
    session = agent.session("t")
    session.send("a")
    rerun = session.rerun(session.history[0])
    assert rerun.difference.state == {}
    assert not session.compare_runs(session.history[0], {"a": agent})["a"].difference
    assert not session.compare(session, rerun.session)


@pytest.mark.parametrize(("one", "other"), OTHERS, ids=repr)
def test_what_is_stored_otherwise_is_a_difference(sql: SQLCheckpointer, one: Any, other: Any) -> None:
    session = putting(sql, one).session("t")
    session.send("a")
    difference = session.rerun(session.history[0], agent=putting(sql, other)).difference
    assert list(difference.state) == ["x"]
    assert [type(found) for found in difference.state["x"]] == [type(one), type(other)]
    assert "state x" in repr(difference)
