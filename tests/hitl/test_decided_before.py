"""A resume or a message that comes where somebody decided before."""

from __future__ import annotations

from typing import Any

import pytest
from checkpoints.databases import one_of_each
from langchain_core.messages import AIMessage
from modes import Drive
from scenes import results

from scallion import Agent, AlreadyDecided, SQLCheckpointer, ThreadPaused, approve, filters, reject, stop
from scallion.testing import ScriptedModel


def asks_to_pay(saver: Any, ran: list[str], calls: int = 1) -> Agent:
    """An agent whose payments wait for a person."""

    def pay(order: int) -> str:
        """Pay."""
        ran.append(f"pay {order}")
        return f"paid {order}"

    def says(messages: list[Any]) -> Any:
        told = results(messages)
        made = [{"name": "pay", "args": {"order": n}, "id": f"c{n}"} for n in range(1, calls + 1)]
        return " / ".join(told) if told else AIMessage("", tool_calls=made)

    gate = filters.approval({"pay": True})
    return Agent(ScriptedModel(says), tools=[pay], filters=[gate], checkpointer=saver)


class TestOneDecisionForAll:
    """Where somebody decided otherwise before, it is not dropped in silence."""

    @one_of_each
    def test_a_refusal_that_comes_too_late(self, saver: SQLCheckpointer) -> None:
        ran: list[str] = []
        agent = asks_to_pay(saver, ran)
        [one] = agent.invoke("go", thread="t").approvals
        saver.approvals.decide(one.id, approve(), by="ana")
        for late in (reject("fraud"), {"type": "reject"}, {"decisions": [{"type": "reject"}]}):
            with pytest.raises(AlreadyDecided, match="approve by ana"):
                agent.resume("t", late, by="bo")
        assert ran == []
        assert agent.resume("t", approve(), by="bo").answer == "paid 1"

    def test_in_each_mode(self, drive: Drive, sql: SQLCheckpointer) -> None:
        ran: list[str] = []
        driver = drive(asks_to_pay(sql, ran))
        [one] = driver.start("go", thread="t")[0].approvals
        sql.approvals.decide(one.id, approve(), by="ana")
        with pytest.raises(AlreadyDecided):
            driver.resume("t", reject(), by="bo")
        assert ran == []

    @pytest.mark.parametrize("given", [reject(), stop()], ids=["reject", "stop"])
    def test_it_was_to_refuse_a_part_that_would_run(self, sql: SQLCheckpointer, given: Any) -> None:
        ran: list[str] = []
        agent = asks_to_pay(sql, ran, calls=2)
        first, second = agent.invoke("go", thread="t").approvals
        sql.approvals.decide(first.id, approve(), by="ana")
        with pytest.raises(AlreadyDecided):
            agent.resume("t", given)
        assert (ran, sql.approvals.get(second.id).status) == ([], "pending")


def test_a_message_to_a_thread_that_is_decided_says_so(drive: Drive, sql: SQLCheckpointer) -> None:
    """Its process died: nobody is waited for."""
    driver = drive(asks_to_pay(sql, [], calls=2))
    first, second = driver.start("go", thread="t")[0].approvals
    for one, told in ((first, "waits for 1 decision"), (second, "is decided, and has not gone on")):
        sql.approvals.decide(one.id, approve())
        with pytest.raises(ThreadPaused, match=told):
            driver.start("hello", thread="t")
