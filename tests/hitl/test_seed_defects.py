"""What went wrong in others, where no other file here has it: gates beside tools that ask, and agents in tools.

The rest of these: a gate that crashes in `approvals/test_gate.py`, a failing resume in `approvals/test_binding.py`,
state over a pause in `turn/test_hooks.py`, streamed resumes in `agent/test_streaming.py`.
"""

from __future__ import annotations

from typing import Any

import pytest
from langchain_core.messages import AIMessage
from langchain_core.tools import StructuredTool
from modes import Drive
from scenes import Desk, asks, call, results

from scallion import Agent, Completed, Filter, FilterError, Paused, approve, edit, filters, pause, reject, respond
from scallion.testing import ScriptedModel


def ask_someone(desk: Desk) -> StructuredTool:
    def consult(question: str) -> str:
        """Ask a person."""
        answer = pause(question).message
        desk.ran.append(f"consult {question}")
        return f"{question} {answer}"

    return StructuredTool.from_function(consult)


@pytest.mark.parametrize("gated_first", [True, False])
def test_a_gate_holds_beside_a_tool_that_asks(drive: Drive, any_saver: Any, gated_first: bool) -> None:
    desk = Desk()
    calls = [call("refund", "r", order=1), call("consult", "q", question="why?")]
    script = [asks(*(calls if gated_first else reversed(calls))), "end"]
    tools, gate = [*desk.tools, ask_someone(desk)], filters.approval({"refund": True})
    driver = drive(Agent(ScriptedModel(script), tools=tools, filters=[gate], checkpointer=any_saver))
    paused, _ = driver.start("go", thread="t")
    assert isinstance(paused, Paused)
    by_call = {one.call_id: one.id for one in paused.approvals}
    paused, _ = driver.resume("t", {by_call["q"]: respond("because")})
    assert isinstance(paused, Paused)
    assert desk.ran == ["consult why?"]
    result, _ = driver.resume("t", {by_call["r"]: reject("no")})
    assert isinstance(result, Completed)
    assert desk.ran == ["consult why?"]
    assert sorted(results(result.messages))[1] == "why? because"


def test_an_approval_function_that_crashes_runs_nothing(drive: Drive, memory: Any) -> None:
    """A check of one's own, around the tool: the turn fails by its name, and the thread goes on."""
    desk = Desk()

    def check(request: Any, state: Any, next: Any) -> Any:
        if request.call["args"]["order"] in None:  # type: ignore[operator]
            raise AssertionError
        return next(request)

    model = ScriptedModel([asks(call("refund", order=1)), "later"])
    driver = drive(Agent(model, tools=desk.tools, filters=[Filter("check", around_tool=check)], checkpointer=memory))
    with pytest.raises(FilterError, match="check"):
        driver.start("go", thread="t")
    assert desk.ran == []
    result, _ = driver.start("again", thread="t")
    assert (result.answer, desk.ran) == ("later", [])


def test_what_was_approved_is_recorded(drive: Drive, any_saver: Any) -> None:
    """The result and the history of the turn hold the call that a person approved, as it ran, beside the others."""
    desk = Desk()
    script = [asks(call("look", "l", order=1), call("refund", "r", order=1)), "end"]
    gate = filters.approval({"refund": True})
    driver = drive(Agent(ScriptedModel(script), tools=desk.tools, filters=[gate], checkpointer=any_saver))
    driver.start("go", thread="t")
    result, _ = driver.resume("t", edit({"order": 2}))
    assert isinstance(result, Completed)
    assert [(one["name"], one["args"]) for one in result.tool_calls] == [
        ("look", {"order": 1}),
        ("refund", {"order": 2}),
    ]
    assert results(result.messages)[0] == "order 1 is here"
    assert results(result.messages)[1].endswith("refunded 2")


@pytest.mark.parametrize(("decision", "paid"), [(approve(), [1]), (edit({"euro": 7}), [7]), (reject("no"), [])])
def test_an_agent_in_a_tool_asks_through_the_one_around_it(
    drive: Drive, sql: Any, decision: Any, paid: list[int]
) -> None:
    ran: list[int] = []

    def pay(euro: int) -> str:
        """Pay."""
        ran.append(euro)
        return f"paid {euro}"

    inner_model = ScriptedModel([asks(call("pay", "p", euro=1)), "inner end"])
    inner = Agent(inner_model, tools=[pay], filters=[filters.approval({"pay": True})], checkpointer=sql)

    def accountant(wish: str) -> str:
        """Ask the accountant."""
        return str(inner.graph.invoke({"messages": [("user", wish)]})["messages"][-1].text)

    model = ScriptedModel([AIMessage("", tool_calls=[call("accountant", "a", wish="pay")]), "end"])
    driver = drive(Agent(model, tools=[accountant], checkpointer=sql))
    paused, _ = driver.start("go", thread="t")
    assert isinstance(paused, Paused)
    assert [(one.tool, one.thread) for one in sql.approvals.list().items] == [("pay", "t")]
    assert ran == []
    result, _ = driver.resume("t", decision)
    assert isinstance(result, Completed)
    assert ran == paid
    assert results(result.messages) == ["inner end"]
