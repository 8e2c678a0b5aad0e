"""Some of several pauses are decided: the others stay as they were, and nothing that had finished is done again."""

from __future__ import annotations

from typing import Any

import pytest
from langgraph.types import Command, interrupt
from modes import MODES, Driver, Mode
from scenes import asks, call

from scallion import Agent, Filter, SQLCheckpointer, approve, around_tool, pause, respond
from scallion.testing import ScriptedModel


class Till:
    """A tool that writes down what it did, and an agent that calls it for each of some orders at once."""

    def __init__(self, *layers: Filter, orders: int = 2) -> None:
        self.ran: list[int] = []
        self.orders = orders
        self.layers = layers

    def refund(self, order: int) -> str:
        """Refund an order."""
        self.ran.append(order)
        return f"refunded {order}"

    def agent(self, saver: Any) -> Agent:
        """Anew, as another process would make it."""
        calls = asks(*(call("refund", f"c{n}", order=n) for n in range(self.orders)))
        model = ScriptedModel(lambda messages: "Done." if messages[-1].type == "tool" else calls)
        return Agent(model, tools=[self.refund], filters=list(self.layers), checkpointer=saver)


@around_tool
def shown(request: Any, state: Any, next: Any) -> Any:
    """What the tool gave is shown to a person before the model sees it."""
    reply = next(request)
    pause("fine?", allowed=("approve",))
    return reply


@around_tool(name="shown")
async def ashown(request: Any, state: Any, next: Any) -> Any:
    reply = await next(request)
    pause("fine?", allowed=("approve",))
    return reply


@around_tool(name="shown")
def natively(request: Any, state: Any, next: Any) -> Any:
    reply = next(request)
    interrupt({"question": "fine?"})
    return reply


@around_tool
def twice(request: Any, state: Any, next: Any) -> Any:
    """Two questions, with something that ran before each."""
    next(request)
    pause("once more?", allowed=("approve",))
    reply = next(request)
    pause("fine?", allowed=("approve",))
    return reply


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("layer", [shown, ashown, natively], ids=["def", "async def", "interrupt"])
def test_a_tool_whose_pause_is_not_decided_does_not_run_again(mode: Mode, layer: Filter, sql: SQLCheckpointer) -> None:
    till, decision = Till(layer, orders=3), respond("yes") if layer is natively else approve()
    paused, _ = Driver(till.agent(sql), mode).start("refund", thread="t")
    for left in (2, 1):
        one = paused.approvals[0]
        paused, _ = Driver(till.agent(sql), mode).resume("t", {one.id: decision})
        assert len(paused.approvals) == left
        assert sorted(till.ran) == [0, 1, 2]
    done, _ = Driver(till.agent(sql), mode).resume("t", decision)
    assert done.answer == "Done."
    assert sorted(till.ran) == [0, 1, 2]


@pytest.mark.parametrize("mode", MODES)
def test_a_second_question_of_a_call_neither(mode: Mode, sql: SQLCheckpointer) -> None:
    """However often the others are decided meanwhile, each call runs once before each of its questions."""
    till = Till(twice)
    paused, _ = Driver(till.agent(sql), mode).start("refund", thread="t")
    first = paused.approvals[0].call_id
    while paused.approvals[0].call_id == first:  # all that the first one asks, while the second one waits
        paused, _ = Driver(till.agent(sql), mode).resume("t", {paused.approvals[0].id: approve()})
    assert sorted(till.ran) == [0, 0, 1]
    paused, _ = Driver(till.agent(sql), mode).resume("t", approve())
    assert sorted(till.ran) == [0, 0, 1, 1]
    done, _ = Driver(till.agent(sql), mode).resume("t", approve())
    assert done.answer == "Done."
    assert sorted(till.ran) == [0, 0, 1, 1]


def test_in_the_bare_graph_too(sql: SQLCheckpointer) -> None:
    till = Till(shown)
    config: Any = {"configurable": {"thread_id": "t"}}
    asked = till.agent(sql).graph.invoke({"messages": [("user", "refund")]}, config)["__interrupt__"]
    for one in asked:
        values = till.agent(sql).graph.invoke(Command(resume={one.id: {"type": "approve"}}), config)
        assert sorted(till.ran) == [0, 1]
    assert values["messages"][-1].text == "Done."
