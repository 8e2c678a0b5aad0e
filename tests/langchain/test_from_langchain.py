"""LangChain's own middleware in the onion: the same messages and model requests as in `create_agent`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from langchain.agents.middleware import (
    ClearToolUsesEdit,
    ContextEditingMiddleware,
    LLMToolEmulator,
    LLMToolSelectorMiddleware,
    ModelCallLimitMiddleware,
    ModelFallbackMiddleware,
    ModelRetryMiddleware,
    PIIMiddleware,
    SummarizationMiddleware,
    TodoListMiddleware,
    ToolCallLimitMiddleware,
    ToolErrorMiddleware,
    ToolRetryMiddleware,
)
from langchain_core.runnables import RunnableLambda
from tests.langchain.sides import Sides
from tests.scenes import asks, call

from scallion.testing import ScriptedModel

Both = Callable[..., Sides]
LATE = TimeoutError("late")


def look(order: int) -> str:
    """Look an order up."""
    return f"order {order} is here"


def weather(city: str) -> str:
    """Tell the weather."""
    return f"{city}: 7 degrees"


def test_pii(sides: Both) -> None:
    def make() -> Any:
        return PIIMiddleware("email", apply_to_output=True, apply_to_tool_results=True)

    def find(who: str) -> str:
        """Find an address."""
        return f"{who}@example.com"

    script = [asks(call("find", who="mira")), "It is mira@example.com.", "bye"]
    _, our = sides(make, script, [find]).same(
        "I am ana@example.com: what is Mira's address?", "thanks, ana@example.com"
    )
    assert our.messages[0].text.startswith("I am [REDACTED_EMAIL]")
    assert [one.text for one in our.messages if "example.com" in one.text] == []


def test_summarization(sides: Both) -> None:
    def make() -> Any:
        model = ScriptedModel(lambda messages: "They talked.")
        return SummarizationMiddleware(model, trigger=("messages", 5), keep=("messages", 2))

    script = ["one", asks(call("look", order=1)), "two", "three", "four"]
    _, our = sides(make, script, [look]).same("a", "b", "c", "d")
    assert "They talked." in our.messages[0].text
    assert len(our.messages) < 8


def test_todo(sides: Both) -> None:
    todos = [{"content": "look", "status": "pending"}]
    twice = asks(call("write_todos", "w1", todos=todos), call("write_todos", "w2", todos=[]))
    script = [twice, asks(call("write_todos", "w3", todos=todos), call("look", "l1", order=1)), "done"]
    their, our = sides(TodoListMiddleware, script, [look]).same("plan")
    assert our.filter_state["TodoListMiddleware"]["todos"] == their["todos"] == todos


def test_context_editing(sides: Both) -> None:
    def make() -> Any:
        return ContextEditingMiddleware(edits=[ClearToolUsesEdit(trigger=10, keep=1, clear_tool_inputs=True)])

    script = [asks(call("look", f"c{n}", order=n)) for n in range(4)]
    both = sides(make, [*script, "done"], [look])
    both.same("look")
    assert any(one.text == "[cleared]" for one in both.models[1].calls[-1])


@pytest.mark.parametrize("times", [1, 9], ids=["mended", "given_up"])
def test_tool_retry(sides: Both, times: int) -> None:
    def make() -> Any:
        return ToolRetryMiddleware(max_retries=2, initial_delay=0)

    tries = 2 if times == 1 else 3
    made: list[int] = []

    def pay(order: int) -> str:
        """Pay."""
        made.append(order)
        if (len(made) - 1) % tries < times:
            raise LATE
        return f"paid {order}"

    sides(make, [asks(call("pay", order=1)), "done"], [pay]).same("pay")
    assert len(made) == 2 * tries


@pytest.mark.parametrize("times", [1, 9], ids=["mended", "given_up"])
def test_model_retry(sides: Both, times: int) -> None:
    script = [LATE] * times + ["It is five."]
    _, our = sides(lambda: ModelRetryMiddleware(max_retries=2, initial_delay=0), script).same("2 + 3?")
    assert our.usage["model_calls"] == (2 if times == 1 else 3)


def test_model_fallback(sides: Both) -> None:
    sides(lambda: ModelFallbackMiddleware(ScriptedModel(["It is five."])), [LATE]).same("2 + 3?")


def test_model_call_limit(sides: Both) -> None:
    script = [asks(call("look", f"c{n}", order=n)) for n in range(9)]
    both = sides(lambda: ModelCallLimitMiddleware(run_limit=2, thread_limit=3), script, [look])
    both.same("look", "and on", "and on")
    assert len(both.models[1].calls) == 3


@pytest.mark.parametrize("exit", ["continue", "end"])
def test_tool_call_limit(sides: Both, exit: Any) -> None:
    def make() -> Any:
        return ToolCallLimitMiddleware(thread_limit=3, run_limit=2, exit_behavior=exit, tool_name="look")

    two = [
        asks(call("look", f"c{n}a", order=n), call("look", f"c{n}b", order=n), call("weather", f"w{n}", city="Oslo"))
        for n in range(2)
    ]
    both = sides(make, [*two, *(["so be it"] if exit == "continue" else []), *two[:1], "the end"], [look, weather])
    both.same("look", "and on")


def test_tool_selector(sides: Both) -> None:
    def make() -> Any:
        return LLMToolSelectorMiddleware(model=Chooses(), max_tools=1)

    both = sides(make, ["fine"], [look, weather])
    both.same("How is Oslo?")
    assert [tool.name for tool in both.models[1].bound[-1]] == ["weather"]


class Chooses(ScriptedModel):
    """A model whose structured output is the choice of one tool."""

    def with_structured_output(self, schema: Any, **kwargs: Any) -> Any:
        return RunnableLambda(lambda _: {"tools": ["weather"]})


def test_tool_errors_and_an_emulated_tool(sides: Both) -> None:
    def pay(order: int) -> str:
        """Pay."""
        raise LATE

    script = [asks(call("pay", order=1)), "done"]
    sides(lambda: ToolErrorMiddleware(lambda error, request: f"no: {error}"), script, [pay]).same("pay")
    sides(lambda: LLMToolEmulator(model=ScriptedModel(lambda _: "paid"), tools=["pay"]), script, [pay]).same("pay")
