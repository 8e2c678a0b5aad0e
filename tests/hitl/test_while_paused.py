"""A message comes while its thread waits for a person."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from checkpoints.databases import one_of_each
from langgraph.checkpoint.sqlite import SqliteSaver
from loop.scripts import assert_valid
from modes import Drive, Driver, Mode
from scenes import heard, results
from tests.hitl.paused import ONIONS, crashing, desk_of, history

from scallion import Completed, Filter, Paused, SQLCheckpointer, approve

NOT_RUN = "not run: the person went on with another message"


class TestSupersede:
    """The pause is closed, and the message begins a turn."""

    @ONIONS
    @pytest.mark.parametrize("at", [0, 1])
    def test_a_crash_leaves_a_pause_or_a_thread_that_takes_the_message(
        self, drive: Drive, any_saver: Any, onion: list[Filter], at: int
    ) -> None:
        agent = desk_of(any_saver, "supersede", *onion)
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
