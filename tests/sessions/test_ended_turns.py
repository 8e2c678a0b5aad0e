"""Turns that a filter ends before the loop are turns like others: in the history, and to go back to."""

from __future__ import annotations

from typing import Any

import pytest
from langchain_core.messages import AIMessage
from modes import Drive
from scenes import asks, call

from scallion import Agent, NotPaused, SQLCheckpointer, filters
from scallion.testing import ScriptedModel


@filters.before_turn(name="ends")
def ends(request: Any, state: Any) -> Any:
    """End the turn with an answer of the filter's own."""
    return filters.end_turn("no") if "fool" in request.messages[-1].text else None


GUARDS = [
    filters.safeguard(["fool"], failure_response="no"),
    filters.moderation(lambda text: "fool" in text, failure_response="no"),
    ends,
]


@pytest.mark.parametrize("guard", GUARDS, ids=lambda one: one.name)
def test_it_is_gone_back_to(drive: Drive, sql: SQLCheckpointer, guard: Any) -> None:
    ran: list[int] = []

    def refund(order: int) -> str:
        """Refund."""
        ran.append(order)
        return "refunded"

    def says(messages: Any) -> AIMessage:
        asked = messages[-1].type == "human" and "refund" in messages[-1].text
        return asks(call("refund", order=1)) if asked else AIMessage("ok")

    agent = Agent(ScriptedModel(says), tools=[refund], filters=[guard], checkpointer=sql)
    driver, session = drive(agent), agent.session("t")
    for text in ("hi", "fool", "fool", "refund it"):
        driver.start(text, thread="t")
    told = ["ok", "no", "no", "ok"]
    assert [one.answer for one in session.history] == told
    assert {one.status for one in session.history} == {"completed"}
    fork = session.fork(at=session.history[2], thread="f")
    session.rewind(to=session.history[1])
    for one, kept in ((session, told[:2]), (fork, told[:3])):
        assert (one.status, [turn.answer for turn in one.history]) == ("idle", kept)
        with pytest.raises(NotPaused):
            driver.resume(one.thread)
    assert ran == [1]
