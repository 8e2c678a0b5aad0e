"""What LangChain's middleware of the same names does with these turns, and what ours does."""

from __future__ import annotations

from typing import Any

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import (
    ModelCallLimitMiddleware,
    ModelFallbackMiddleware,
    ModelRetryMiddleware,
    ToolRetryMiddleware,
)
from langchain_core.messages import AIMessageChunk, HumanMessage
from langchain_core.tools import BaseTool, StructuredTool
from modes import delivered
from tests.scenes import asks, call

from scallion import Agent, LimitExceeded, ModelError, filters
from scallion.testing import BreaksOff, ScriptedModel

QUICK = {"initial_delay": 0.001, "max_delay": 0.002}
INPUT = {"messages": [HumanMessage("2 + 3?")]}
LATE = TimeoutError("late")


def theirs(model: ScriptedModel, *middleware: Any, tools: Any = ()) -> Any:
    return create_agent(model, tools=list(tools), middleware=list(middleware))


def breaking() -> ScriptedModel:
    """A model whose first stream breaks off."""
    return ScriptedModel([BreaksOff("It is six", LATE, chunks=1), "It is five."])


def spare() -> ScriptedModel:
    return ScriptedModel(["It is five."])


@pytest.mark.parametrize(
    ("middleware", "ours"),
    [
        (lambda: ModelRetryMiddleware(initial_delay=0), lambda: filters.retry_model(**QUICK)),
        (lambda: ModelFallbackMiddleware(spare()), lambda: filters.fallback(spare())),
    ],
)
def test_the_text_of_a_stream_that_broke_off_is_taken_back(middleware: Any, ours: Any) -> None:
    parts = theirs(breaking(), middleware()).stream(INPUT, stream_mode="messages")
    read = "".join(str(part.text) for part, _ in parts if isinstance(part, AIMessageChunk))
    assert read != "It is five."
    assert delivered(list(Agent(breaking(), filters=[ours()]).stream("2 + 3?"))) == "It is five."


def test_a_request_that_is_wrong_is_sent_once_and_no_answer_is_made_up() -> None:
    model = ScriptedModel([ValueError("bad")] * 9)
    result = theirs(model, ModelRetryMiddleware(initial_delay=0)).invoke(INPUT)
    assert (len(model.calls), "failed" in result["messages"][-1].text) == (3, True)
    model = ScriptedModel([ValueError("bad")] * 9)
    with pytest.raises(ModelError):
        Agent(model, filters=[filters.retry_model(2, **QUICK)]).invoke("2 + 3?")
    assert len(model.calls) == 1


def test_a_limit_of_model_calls_holds_for_retries() -> None:
    model = ScriptedModel([LATE] * 9)
    both = ModelCallLimitMiddleware(run_limit=2), ModelRetryMiddleware(max_retries=5, initial_delay=0)
    theirs(model, *both).invoke(INPUT)
    assert len(model.calls) == 6
    model = ScriptedModel([LATE] * 9)
    with pytest.raises(LimitExceeded):
        Agent(model, filters=[filters.limit_calls(2), filters.retry_model(5, **QUICK)]).invoke("2 + 3?")
    assert len(model.calls) == 2


def test_a_tool_with_effects_is_not_run_again_unless_it_is_named() -> None:
    paid: list[int] = []

    def tool() -> BaseTool:
        def pay(order: int) -> str:
            """Pay."""
            paid.append(order)
            raise LATE

        return StructuredTool.from_function(pay, metadata={"sensitive": True})

    script = [asks(call("pay", order=1)), "Sorry."]
    theirs(ScriptedModel(script), ToolRetryMiddleware(initial_delay=0), tools=[tool()]).invoke(INPUT)
    assert paid == [1, 1, 1]
    paid.clear()
    Agent(ScriptedModel(script), tools=[tool()], filters=[filters.retry_tool(**QUICK)]).invoke("pay")
    assert paid == [1]
