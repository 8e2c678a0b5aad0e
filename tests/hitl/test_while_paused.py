"""A message comes while its thread waits for a person."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from checkpoints.databases import one_of_each
from langgraph.checkpoint.sqlite import SqliteSaver
from loop.scripts import assert_valid
from modes import Drive, Driver, Mode
from scenes import Desk, asks, call, heard, results
from tests.hitl.paused import ONION, crashing, desk_of, history

from scallion import Agent, Completed, Filter, Paused, SQLCheckpointer, approve, pause, respond
from scallion.testing import ScriptedModel
from scallion.tools import ask_human

NOT_RUN = "not run: the person went on with another message"


class TestSupersede:
    """The pause is closed, and the message begins a turn."""

    @pytest.mark.parametrize("at", [0, 1])
    def test_a_crash_leaves_a_pause_or_a_thread_that_takes_the_message(
        self, drive: Drive, any_saver: Any, mode: Mode, at: int
    ) -> None:
        agent = desk_of(any_saver, "supersede", *ONION[mode])
        driver = drive(agent)
        paused, _ = driver.start("go", thread="t")
        with crashing(any_saver, at):
            driver.start("never mind", thread="t")
        if at:
            assert_valid(history(agent, "t"))
        if isinstance(any_saver, SQLCheckpointer):
            status = any_saver.approvals.get(paused.approvals[0].id).status
            assert status == ("superseded" if at else "pending")
        result, _ = driver.start("never mind", thread="t")
        assert result.answer == "heard never mind"
        assert_valid(history(agent, "t"))
        assert results(history(agent, "t")) == ["order 2 is here", NOT_RUN]

    def test_what_a_finished_sibling_wrote_stays(self, drive: Drive, any_saver: Any) -> None:
        """The slots of the shared state, and what filters keep from turn to turn."""

        def notes(request: Any, state: Any, next: Any) -> Any:
            reply = next(request)
            return reply.replace(writes={"looked": request.call["args"]["order"]}), {"n": state["n"] + 1}

        counts = Filter("counts", around_tool=notes, init={"n": 0}, scope="thread")
        agent = desk_of(any_saver, "supersede", counts)
        driver = drive(agent)
        driver.start("go", thread="t")
        result, _ = driver.start("never mind", thread="t")
        assert result.filter_state["counts"] == {"n": 1}
        assert agent.graph.get_state({"configurable": {"thread_id": "t"}}).values["state"] == {"looked": 2}

    @one_of_each
    def test_on_every_database_its_approvals_end_with_the_pause(self, saver: SQLCheckpointer, drive: Drive) -> None:
        driver = drive(desk_of(saver, "supersede"))
        paused, _ = driver.start("go", thread="t")
        assert isinstance(paused, Paused)
        saver.approvals.decide(paused.approvals[0].id, approve())
        result, _ = driver.start("never mind", thread="t")
        assert isinstance(result, Completed)
        assert heard(result.messages)[-2:] == [("human", "never mind"), ("ai", "heard never mind")]
        assert [one.status for one in saver.approvals.list(None, thread="t").items] == ["superseded"]


@pytest.mark.parametrize("on_message", ["supersede", "alongside"])
@pytest.mark.parametrize("mode", ["invoke", "stream"])
def test_with_a_saver_of_langgraph(tmp_path: Path, mode: Mode, on_message: str) -> None:
    """Its threads have no ledger: the pause is what the checkpoints say."""
    with SqliteSaver.from_conn_string(str(tmp_path / "t.db")) as theirs:
        agent = desk_of(theirs, on_message)
        driver = Driver(agent, mode)
        driver.start("go", thread="t")
        assert driver.start("hello", thread="t")[0].answer == "heard hello"
        is_open = bool(agent.graph.get_state({"configurable": {"thread_id": "t"}}).interrupts)
        assert is_open == (on_message == "alongside")
        if is_open:
            assert driver.resume("t", approve())[0].answer == "heard order 2 is here"
        assert_valid(history(agent, "t"))


def _asks(where: str) -> Any:
    def hook(request: Any, state: Any, next: Any) -> Any:
        if request.messages and request.messages[-1].text == "go" and where != "after":
            pause("may it?")
        out = next(request)
        if where == "after" and out.answer == "heard go":
            pause("may it be sent?")
        return out

    return hook


def asks_within(saver: Any, on_message: Any, where: str) -> Agent:
    """An agent that asks a person after "go", somewhere in its stack."""

    def says(messages: list[Any]) -> Any:
        assert_valid([one for one in messages if one.type != "system"])
        if messages[-1].text == "go" and where == "tool":
            return asks(call("ask_human", question="which?"), call("look", "c2", order=2))
        if messages[-1].text == "go" and where == "agent in a tool":
            return asks(call("helper"), call("look", "c2", order=2))
        return f"heard {messages[-1].text}"

    model = ScriptedModel([asks(call("ask_human", question="which?")), "fine"])
    inner = Agent(model, tools=[ask_human], checkpointer=saver)

    def helper() -> str:
        """Ask another agent."""
        return str(inner.graph.invoke({"messages": [("user", "help")]})["messages"][-1].text)

    chain = {"chat": "around_chat", "before": "around_turn", "after": "around_turn"}.get(where)
    onion = [Filter("asks", **{chain: _asks(where)})] if chain else []
    tools = [ask_human, Desk().look(), helper]
    return Agent(
        ScriptedModel(says), tools=tools, filters=onion, checkpointer=saver, on_message_while_paused=on_message
    )


@pytest.mark.parametrize("on_message", ["supersede", "alongside", "queue"])
@pytest.mark.parametrize("where", ["tool", "agent in a tool", "chat", "before", "after"])
def test_wherever_it_pauses(sql: SQLCheckpointer, where: str, on_message: str) -> None:
    agent = asks_within(sql, on_message, where)
    driver = Driver(agent, "astream")
    paused, _ = driver.start("go", thread="t")
    assert isinstance(paused, Paused)
    result, _ = driver.start("hello", thread="t")
    if on_message == "queue":
        assert (type(result), result.queued) == (Paused, 1)
    else:
        assert result.answer == "heard hello"
    if on_message == "supersede":
        assert sql.approvals.list().items == []
    else:
        assert [one.id for one in sql.approvals.list().items] == [one.id for one in paused.approvals]
        result, _ = driver.resume("t", respond("this"))
        assert isinstance(result, Completed)
    assert_valid(history(agent, "t"))
    said = [one.text for one in history(agent, "t") if one.type == "human"]
    is_admitted = where != "before" or on_message != "supersede"  # the loop is not given what waits for a person
    assert said == [*["go"] * is_admitted, *["hello"] * (on_message != "alongside")]
