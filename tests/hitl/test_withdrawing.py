"""A decision is taken back until it is used, by who has a part in it, and not while a turn may be using it."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Event
from typing import Any

import pytest
from checkpoints.databases import everywhere
from modes import Drive
from scenes import Desk, asks, call

from scallion import Agent, Completed, DecisionError, Paused, Policy, SQLCheckpointer, approve, edit, filters, reject
from scallion.testing import ScriptedModel


def gated(saver: Any, tools: Any, policy: Any = True, *more: Any) -> Agent:
    model = ScriptedModel([asks(call("refund", order=1)), *more, "end"])
    return Agent(model, tools=tools, filters=[filters.approval({"refund": policy})], checkpointer=saver)


@everywhere
def test_not_while_the_call_runs(saver: SQLCheckpointer) -> None:
    """Else the ledger would say that it was refused, and it ran."""
    begun, go_on, ran = Event(), Event(), []

    def refund(order: int) -> str:
        """Give the money back."""
        begun.set()
        assert go_on.wait(60)
        ran.append(order)
        return "refunded"

    agent = gated(saver, [refund])
    paused = agent.invoke("go", thread="t")
    assert isinstance(paused, Paused)
    (one,) = paused.approvals
    saver.approvals.decide(one.id, approve(), by="ana")
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(agent.resume, "t")
        assert begun.wait(60)
        with pytest.raises(DecisionError, match="a turn runs on thread 't'"):
            saver.approvals.withdraw(one.id, by="ana")
        go_on.set()
        assert isinstance(running.result(60), Completed)
    used = saver.approvals.get(one.id)
    assert (used.status, used.decision, used.decided_by, ran) == ("used", approve(), "ana", [1])


def test_before_a_turn_begins_it_is_as_if_nobody_had_decided(drive: Drive, sql: SQLCheckpointer) -> None:
    desk = Desk()
    driver = drive(gated(sql, desk.tools))
    (one,) = driver.start("go", thread="t")[0].approvals
    sql.approvals.decide(one.id, approve(), by="ana")
    sql.approvals.withdraw(one.id, by="ana")
    assert isinstance(driver.resume("t")[0], Paused)
    assert desk.ran == []
    driver.resume("t", reject("no"), by="bo")
    assert desk.ran == []


class TestVotes:
    """With a quorum, a person takes back what they said, and nothing that others decided without them."""

    @pytest.fixture
    def one(self, sql: SQLCheckpointer) -> Any:
        paused = gated(sql, Desk().tools, Policy(quorum=2)).invoke("go", thread="t")
        assert isinstance(paused, Paused)
        return paused.approvals[0]

    def test_a_rejection_stands_though_a_vote_for_the_call_is_taken_back(self, sql: SQLCheckpointer, one: Any) -> None:
        sql.approvals.decide(one.id, approve(), by="ana")
        sql.approvals.decide(one.id, reject("fraud"), by="bo")
        with pytest.raises(DecisionError, match="'ana' is not among those who decided"):
            sql.approvals.withdraw(one.id, by="ana")
        assert sql.approvals.get(one.id).decision == reject("fraud")

    def test_a_quorum_stands_though_another_vote_is_taken_back(self, sql: SQLCheckpointer, one: Any) -> None:
        sql.approvals.decide(one.id, edit({"order": 7}), by="eve")
        for who in ("ana", "bo"):
            sql.approvals.decide(one.id, approve(), by=who)
        with pytest.raises(DecisionError, match="'eve' is not among those who decided"):
            sql.approvals.withdraw(one.id, by="eve")
        assert sql.approvals.get(one.id).decision == approve()

    def test_who_agreed_takes_the_decision_back(self, sql: SQLCheckpointer, one: Any) -> None:
        for who in ("ana", "bo"):
            sql.approvals.decide(one.id, approve(), by=who)
        assert sql.approvals.withdraw(one.id, by="ana").status == "pending"
        assert [vote.by for vote in sql.approvals.get(one.id).votes] == ["bo"]


@pytest.mark.parametrize("began_by", ["cy", None])
def test_who_resumes_is_not_who_asked(drive: Drive, sql: SQLCheckpointer, began_by: str | None) -> None:
    desk = Desk()
    policy = Policy(not_requester=True) if began_by else True
    driver = drive(gated(sql, desk.tools, policy, asks(call("refund", "c2", order=2))))
    driver.start("go", thread="t", user=began_by)
    paused, _ = driver.resume("t", approve(), by="ana", user="ana")
    assert isinstance(paused, Paused)
    assert [one.requested_by for one in paused.approvals] == [began_by]
    if began_by:
        with pytest.raises(DecisionError, match="'cy' asked for this"):
            driver.resume("t", approve(), by="cy")
    assert desk.ran == ["refund 1"]
    assert isinstance(driver.resume("t", approve(), by="bo", user="bo")[0], Completed)
    assert desk.ran == ["refund 1", "refund 2"]


@everywhere
def test_not_once_the_call_was_begun(saver: SQLCheckpointer) -> None:
    """A rejection would be told as "it did not run"; nobody knows, so a person is asked that."""
    ran: list[int] = []

    def refund(order: int) -> str:
        """Give the money back."""
        ran.append(order)
        raise KeyboardInterrupt

    model = ScriptedModel([asks(call("refund", order=1)), "end"])
    stack = [filters.approval({"refund": True}), filters.once("refund")]
    agent = Agent(model, tools=[refund], filters=stack, checkpointer=saver)
    paused = agent.invoke("go", thread="t")
    assert isinstance(paused, Paused)
    (one,) = paused.approvals
    saver.approvals.decide(one.id, approve(), by="ana")
    with pytest.raises(KeyboardInterrupt):
        agent.resume("t")
    with pytest.raises(DecisionError, match="was begun: it may have taken effect"):
        saver.approvals.withdraw(one.id, by="ana")
    asked = agent.resume("t")
    assert isinstance(asked, Paused)
    assert [approval.kind for approval in asked.approvals] == ["unknown_outcome"]
    assert ran == [1]
