"""LangChain's HumanInTheLoopMiddleware in the onion: its questions are approvals of our inbox, in both of its modes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from langchain.agents.middleware import HumanInTheLoopMiddleware
from langgraph.types import Command
from tests.langchain.sides import THREAD, Sides
from tests.scenes import asks, call

from scallion import (
    Agent,
    ConfigurationError,
    Inbox,
    InvalidDecision,
    PauseChanged,
    Paused,
    SQLCheckpointer,
    approve,
    edit,
    filters,
    reject,
    respond,
)
from scallion.testing import ScriptedModel

Both = Callable[..., Sides]
GATED = {"refund": True, "mail": {"allowed_decisions": ["approve", "reject"]}}
DECIDED = {"c1": edit({"order": 2}), "c2": reject("Call her."), "c3": respond("done by hand")}
THEIRS = {
    "c1": {"type": "edit", "edited_action": {"name": "refund", "args": {"order": 2}}},
    "c2": {"type": "reject", "message": "Call her."},
    "c3": {"type": "respond", "message": "done by hand"},
}
BATCH = asks(
    call("refund", "c1", order=1),
    call("mail", "c2", to="mira"),
    call("refund", "c3", order=3),
    call("look", "c4", order=4),
)
SCRIPT = [BATCH, asks(call("refund", "c5", order=5)), "All done."]


class Till:
    """Tools that write down what they did."""

    def __init__(self) -> None:
        self.ran: list[str] = []

    def tools(self) -> list[Any]:
        def refund(order: int) -> str:
            """Give money back."""
            self.ran.append(f"refund {order}")
            return f"refunded {order}"

        def mail(to: str) -> str:
            """Write."""
            self.ran.append(f"mail {to}")
            return f"sent to {to}"

        def look(order: int) -> str:
            """Look."""
            self.ran.append(f"look {order}")
            return f"order {order} is here"

        return [refund, mail, look]


@pytest.fixture
def till() -> Till:
    return Till()


def gate(mode: str) -> HumanInTheLoopMiddleware:
    return HumanInTheLoopMiddleware(GATED, interrupt_mode=mode)  # type: ignore[arg-type]


def their_answers(result: Any, kind: str) -> Any:
    asked = result["__interrupt__"]
    if kind == "per_call":
        return {one.id: THEIRS.get(one.value["tool_call_id"], {"type": "approve"}) for one in asked}
    orders = [one["args"] for one in asked[0].value["action_requests"]]
    return {"decisions": list(THEIRS.values()) if len(orders) > 1 else [{"type": "approve"}]}


@pytest.mark.parametrize("kind", ["batched", "per_call"])
def test_its_questions_are_approvals_and_it_goes_on_as_in_create_agent(
    sides: Both, till: Till, sql: SQLCheckpointer, tmp_path: Path, kind: str
) -> None:
    both = sides(lambda: gate(kind), SCRIPT, till.tools(), saver=sql)
    their = both.their_turn("do it")
    while "__interrupt__" in their:
        their = both.their_turn(Command(resume=their_answers(their, kind)))
    theirs_ran, till.ran[:] = sorted(till.ran), []

    paused, _ = both.ours.start("do it", thread=THREAD)
    inbox = Inbox(f"sqlite:///{tmp_path}/agent.db")
    asked = inbox.approvals.list(thread=THREAD).items
    assert isinstance(paused, Paused)
    assert [one.kind for one in asked] == ["tool_call"] * 3
    by_call = {(one.tool, str(one.args)): one for one in asked}
    in_order = [by_call[call["name"], str(call["args"])] for call in BATCH.tool_calls[:3]]
    assert [one.id for one in in_order] == [one.id for one in paused.approvals]
    assert in_order[1].allowed == ("approve", "reject")
    for one, decision in zip(in_order, DECIDED.values(), strict=True):
        inbox.approvals.decide(one.id, decision, by="ana")
    paused, _ = both.ours.resume(THREAD)
    assert isinstance(paused, Paused)
    our, _ = both.ours.resume(THREAD, {paused.approvals[0].id: approve()})
    both.check(their, our)
    assert sorted(till.ran) == theirs_ran
    assert len(both.models[1].calls) == 3
    inbox.close()


@pytest.mark.parametrize("kind", ["batched", "per_call"])
def test_a_gate_that_is_gone_at_the_resume_lets_nothing_run(till: Till, sql: SQLCheckpointer, kind: str) -> None:
    """In create_agent the call that a person rejects runs, or is dropped without a word."""
    script = [asks(call("refund", "c1", order=1)), "Fine."]

    def agent(*gates: Any) -> Agent:
        return Agent(ScriptedModel(script), tools=till.tools(), filters=gates, checkpointer=sql)

    paused = agent(filters.from_langchain(gate(kind))).invoke("refund", thread=THREAD)
    assert isinstance(paused, Paused)
    with pytest.raises(PauseChanged):
        agent().resume(THREAD, reject("no"))
    assert till.ran == []
    result = agent(filters.from_langchain(gate(kind))).resume(THREAD)
    assert till.ran == []
    assert "rejected" in result.messages[2].text


def test_a_batch_is_decided_as_a_whole(till: Till, sql: SQLCheckpointer) -> None:
    """Nothing runs before all of it is decided: the middleware asks about all in one question."""
    agent = Agent(
        ScriptedModel(SCRIPT), tools=till.tools(), filters=[filters.from_langchain(gate("batched"))], checkpointer=sql
    )
    paused = agent.invoke("do it", thread=THREAD)
    first, *_ = paused.approvals
    left = agent.resume(THREAD, {first.id: approve()})
    assert isinstance(left, Paused)
    assert till.ran == []
    with pytest.raises(InvalidDecision):
        agent.resume(THREAD, {left.approvals[1].id: edit({"to": "x"})})


def test_without_a_checkpointer_it_is_refused(till: Till) -> None:
    with pytest.raises(ConfigurationError, match="checkpointer"):
        Agent(ScriptedModel(SCRIPT), tools=till.tools(), filters=[filters.from_langchain(gate("batched"))])
