"""A message comes while its thread waits for a person."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any
from unittest import mock

import pytest
from checkpoints.databases import one_of_each
from langgraph.checkpoint.memory import InMemorySaver
from loop.scripts import assert_valid
from modes import Drive
from scenes import Desk, asks, call, heard, results

from scallion import Agent, Completed, Filter, Paused, SQLCheckpointer, approve, filters
from scallion.testing import ScriptedModel

CALLS = (call("refund", "c1", order=1), call("look", "c2", order=2))
GATE = filters.approval({"refund": True})
NOT_RUN = "not run: the person went on with another message"


def passes(request: Any, state: Any, next: Any) -> Any:
    return next(request)


TURN = Filter("turn", around_turn=passes)
ONIONS = pytest.mark.parametrize("onion", [[], [TURN]], ids=["plain", "turn filter"])


def says(messages: list[Any]) -> Any:
    """Calls the tools where a message begins with "go"; else it repeats what it was told last."""
    assert_valid([one for one in messages if one.type != "system"])
    last = messages[-1]
    return asks(*CALLS) if last.type == "human" and last.text.startswith("go") else f"heard {last.text}"


def desk_of(saver: Any, on_message: Any, *onion: Filter, desk: Desk | None = None, **options: Any) -> Agent:
    tools = (desk or Desk()).tools
    stack = [*onion, GATE]
    model = ScriptedModel(says)
    return Agent(model, tools=tools, filters=stack, checkpointer=saver, on_message_while_paused=on_message, **options)


def history(agent: Agent, thread: str) -> list[Any]:
    """What the thread holds."""
    found = agent.graph.get_state({"configurable": {"thread_id": thread}}).values
    return list(found.get("messages") or [])


class Crash(Exception):
    """Stands for the end of the process: nothing is written after it."""


@contextmanager
def crashing(saver: Any, at: int, *, after: bool) -> Iterator[None]:
    """The process is gone when it stores its checkpoint number `at`: right before that, or right `after` it."""
    left = [at]

    def is_gone() -> bool:
        left[0] -= 1
        return left[0] < 0

    put, aput = saver.put, saver.aput

    def dies(*args: Any) -> Any:
        if gone := is_gone():
            if after and left[0] == -1:
                put(*args)
            raise Crash(gone)
        return put(*args)

    async def adies(*args: Any) -> Any:
        if gone := is_gone():
            if after and left[0] == -1:
                await aput(*args)
            raise Crash(gone)
        return await aput(*args)

    own = {} if isinstance(saver, InMemorySaver) else {"aput": adies}  # that one's calls its `put`
    with mock.patch.multiple(saver, put=dies, **own), suppress(Crash):
        yield


class TestSupersede:
    """The pause is closed, and the message begins a turn."""

    @ONIONS
    @pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
    @pytest.mark.parametrize("at", [0, 1])
    def test_a_crash_leaves_a_pause_or_a_thread_that_takes_the_message(
        self, drive: Drive, any_saver: Any, onion: list[Filter], at: int, after: bool
    ) -> None:
        agent = desk_of(any_saver, "supersede", *onion)
        driver = drive(agent)
        paused, _ = driver.start("go", thread="t")
        with crashing(any_saver, at, after=after):
            driver.start("never mind", thread="t")
        if is_closed := at > 0 or after:
            assert_valid(history(agent, "t"))
        if isinstance(any_saver, SQLCheckpointer):
            status = any_saver.approvals.get(paused.approvals[0].id).status
            assert status == ("superseded" if is_closed else "pending")
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
