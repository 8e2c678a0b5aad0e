"""A tool runs a graph that is not ours, and that graph asks: its questions are approvals of the agent's turn."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware
from langchain_core.messages import AIMessage
from modes import Drive

from scallion import Completed, InvalidDecision, Paused, approve, around_tool, edit, pause, reject
from scallion.agent import Agent
from scallion.testing import ScriptedModel

Gate = Literal["batched", "per_call"]
gates = pytest.mark.parametrize("gate", ["batched", "per_call"])


class Office:
    """An agent whose tool asks an accountant: an agent of LangChain with a gate, that pays twice."""

    def __init__(self, gate: Gate, saver: Any, *filters: Any) -> None:
        self.paid: list[int] = []
        middleware = HumanInTheLoopMiddleware({"pay": True}, interrupt_mode=gate)
        self._accountant = create_agent(ScriptedModel(self._accounting), [self.pay], middleware=[middleware])
        self.agent = Agent(
            ScriptedModel(self._asking), tools=[self.accountant], filters=list(filters), checkpointer=saver
        )

    def pay(self, euro: int) -> str:
        """Pay."""
        self.paid.append(euro)
        return f"paid {euro}"

    def accountant(self, wish: str) -> str:
        """Ask the accountant."""
        return str(self._accountant.invoke({"messages": [("user", wish)]})["messages"][-1].text)

    @staticmethod
    def _accounting(messages: Any) -> Any:
        results = [one.text for one in messages if one.type == "tool"]
        calls = [{"name": "pay", "args": {"euro": n}, "id": f"p{n}"} for n in (1, 2)]
        return " / ".join(sorted(results)) or AIMessage("", tool_calls=calls)

    @staticmethod
    def _asking(messages: Any) -> Any:
        if messages[-1].type == "tool":
            return messages[-1].text
        return AIMessage("", tool_calls=[{"name": "accountant", "args": {"wish": "pay"}, "id": "a1"}])


def by_euro(paused: Any) -> Mapping[int, str]:
    assert isinstance(paused, Paused)
    return {(one.args or {})["euro"]: one.id for one in paused.approvals if one.status == "pending"}


@gates
def test_its_calls_are_decided_one_by_one(gate: Gate, any_saver: Any, drive: Drive) -> None:
    office = Office(gate, any_saver)
    result, _ = drive(office.agent).start("go", thread="t")
    ids = by_euro(result)
    with pytest.raises(InvalidDecision):
        office.agent.resume(
            "t", {ids[1]: {"type": "edit", "edited_action": {"name": "accountant", "args": {"euro": 7}}}}
        )
    decisions = {ids[1]: edit({"euro": 7}), ids[2]: reject("no")}
    result, _ = drive(office.agent).resume("t", decisions)
    assert isinstance(result, Completed)
    assert office.paid == [7]
    assert "paid 7" in result.answer
    assert "reason: no" in result.answer


@gates
def test_some_now_and_some_later(gate: Gate, sql: Any, drive: Drive) -> None:
    office = Office(gate, sql)
    result, _ = drive(office.agent).start("go", thread="t")
    ids = by_euro(result)
    result, _ = drive(office.agent).resume("t", {ids[1]: approve()})
    assert by_euro(result) == {2: ids[2]}
    assert office.paid == ([1] if gate == "per_call" else [])
    result, _ = drive(office.agent).resume("t", {ids[2]: approve()})
    assert isinstance(result, Completed)
    assert sorted(office.paid) == [1, 2]
    assert result.answer == "paid 1 / paid 2"
    assert {one.status for one in sql.approvals.list(None).items} == {"used"}


@gates
def test_a_hook_asks_after_it(gate: Gate, sql: Any, drive: Drive) -> None:
    """What the graph did is done once, also when a filter around the tool has a question of its own."""

    @around_tool
    def review(request: Any, state: Any, next: Any) -> Any:
        reply = next(request)
        pause("Good?", allowed=("approve",))
        return reply

    office = Office(gate, sql, review)
    result, _ = drive(office.agent).start("go", thread="t")
    result, _ = drive(office.agent).resume("t", dict.fromkeys(by_euro(result).values(), approve()))
    assert isinstance(result, Paused)
    assert [one.description for one in result.approvals] == ["Good?"]
    result, _ = drive(office.agent).resume("t", approve())
    assert isinstance(result, Completed)
    assert sorted(office.paid) == [1, 2]
