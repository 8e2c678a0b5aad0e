"""Our filters in `create_agent`: the same messages and model requests as in an Agent, and what cannot be is refused."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware, ModelRetryMiddleware
from langchain.agents.structured_output import ToolStrategy
from langchain_core.caches import InMemoryCache
from langchain_core.documents import Document
from langchain_core.messages import HumanMessage
from langchain_core.retrievers import BaseRetriever
from langgraph.checkpoint.memory import InMemorySaver
from pydantic import BaseModel
from tests.langchain.sides import CONFIG, told
from tests.scenes import asks, call, heard

from scallion import (
    Agent,
    ConfigurationError,
    FilterError,
    LimitExceeded,
    SQLCheckpointer,
    approve,
    around_chat,
    filters,
    pause,
    token_transform,
)
from scallion.filters import Filter
from scallion.testing import ScriptedModel
from scallion.tools import tool_search

LATE = TimeoutError("late")
QUICK = {"initial_delay": 0.001, "max_delay": 0.002}
Make = Callable[[], Filter]


@pytest.fixture(params=["invoke", "ainvoke"])
def colour(request: pytest.FixtureRequest) -> str:
    return request.param


def run(agent: Any, given: Any, colour: str, config: Any = CONFIG) -> Any:
    if colour == "ainvoke":
        return asyncio.run(agent.ainvoke(given, config))
    return agent.invoke(given, config)


def look(order: int) -> str:
    """Look an order up."""
    return f"order {order} is here"


class Flaky:
    """A tool that fails every other time."""

    def __init__(self) -> None:
        self.calls = 0

    def tool(self) -> Any:
        def pay(order: int) -> str:
            """Pay."""
            self.calls += 1
            if self.calls % 2:
                raise LATE
            return f"paid {order}"

        return pay


class Found(BaseRetriever):
    """Finds the same always."""

    def _get_relevant_documents(self, query: str, *, run_manager: Any) -> list[Document]:
        return [Document(f"about {query}")]


def search() -> Filter:
    return tool_search([look])[1]


@filters.before_turn
def begins(request: Any) -> Any:
    return filters.end_turn("Not about bananas.") if "bananas" in request.messages[-1].text else None


@filters.after_turn
def ends(reply: Any, state: Any) -> Any:
    return filters.replace_answer(reply.answer.upper()), {"seen": 1}


@filters.after_turn
def asks_again(reply: Any) -> Any:
    return filters.ask_model_again("Shorter.") if len(reply.answer) > 4 else None


@filters.filter_input
def edited(conversation: Any) -> None:
    conversation.replace("secret", "xxx")


@filters.before_chat
def counted(request: Any, state: Any) -> Any:
    return request.replace(messages=[HumanMessage(f"call {state.get('n', 0)}"), *request.messages]), {
        "n": state.get("n", 0) + 1
    }


LOOKS = [asks(call("look", f"c{n}", order=n)) for n in range(3)]
CASES: dict[str, tuple[Make, list[Any], list[str]]] = {
    "retry_model": (lambda: filters.retry_model(2, **QUICK), [LATE, "one"], ["go"]),
    "fallback": (lambda: filters.fallback(ScriptedModel(["two"])), [LATE], ["go"]),
    "retry_tool": (lambda: filters.retry_tool(2, **QUICK), [asks(call("pay", order=1)), "one"], ["go"]),
    "timeout": (lambda: filters.timeout(5), [*LOOKS, "one"], ["go"]),
    "trim": (lambda: filters.trim(max_messages=2), ["one", "two", "three"], ["a", "b", "c"]),
    "summarise": (lambda: filters.summarise(max_messages=3), ["one", "They talked.", "two", "three"], ["a", "b", "c"]),
    "limit_calls": (lambda: filters.limit_calls(2, exit="finish"), [*LOOKS, "one"], ["go"]),
    "limit_tools": (
        lambda: filters.limit_calls(tools={"look": 1}, exit="finish"),
        [asks(call("look", "a", order=1), call("look", "b", order=2)), "one"],
        ["go"],
    ),
    "todo": (filters.todo, [asks(call("write_todos", todos=[{"content": "a", "status": "pending"}])), "one"], ["go"]),
    "tool_search": (search, [asks(call("tool_search", query="order")), "one"], ["go"]),
    "usage": (filters.usage, [*LOOKS, "one"], ["go"]),
    "logging": (filters.logging, [*LOOKS, "one"], ["go"]),
    "cache": (lambda: filters.cache(InMemoryCache()), ["one"], ["go"]),
    "state": (lambda: counted, [*LOOKS, "one", "two"], ["go", "on"]),
    "before_turn": (lambda: begins, ["one"], ["go", "bananas"]),
    "after_turn": (lambda: ends, ["one", "two"], ["go", "on"]),
    "ask_model_again": (lambda: asks_again, ["too long", "one"], ["go"]),
    "validate_answer": (
        lambda: filters.validate_answer(lambda answer: answer == "five"),
        ["six", *LOOKS[:1], "seven", "five", "five"],
        ["go", "and on"],
    ),
    "retrieve": (lambda: filters.retrieve(Found()), [*LOOKS[:1], "one", "two"], ["go", "on"]),
    "filter_input": (lambda: edited, ["one"], ["my secret"]),
}


@pytest.mark.parametrize("case", CASES)
def test_a_filter_does_in_create_agent_what_it_does_in_an_agent(case: str, colour: str) -> None:
    make, script, inputs = CASES[case]
    models = ScriptedModel(script), ScriptedModel(script)
    tools = [look, Flaky().tool()] if case == "retry_tool" else [look]
    agent = Agent(models[0], tools=tools, filters=[make()], checkpointer=InMemorySaver())
    tools = [look, Flaky().tool()] if case == "retry_tool" else [look]
    graph = create_agent(
        models[1], tools=tools, middleware=[filters.as_langchain(make())], checkpointer=InMemorySaver()
    )
    for text in inputs:
        ours, theirs = agent.invoke(text, thread="t"), run(graph, {"messages": text}, colour)
    kept = agent.graph.get_state(CONFIG).values["messages"]
    assert told(theirs["messages"]) == told(kept)
    assert list(map(told, models[1].calls)) == list(map(told, models[0].calls))
    state = graph.get_state(CONFIG).values.get(f"scallion_{make().name}") or {"filters": {make().name: {}}}
    assert state["filters"][make().name].keys() <= ours.filter_state[make().name].keys()
    assert f"scallion_{make().name}" not in theirs


def test_what_the_model_and_tools_raise_is_the_providers_own(colour: str) -> None:
    @around_chat
    def watches(request: Any, state: Any, next: Any) -> Any:
        return next(request)

    model = ScriptedModel([LATE, "one"])
    outer = ModelRetryMiddleware(retry_on=(TimeoutError,), initial_delay=0)
    graph = create_agent(model, middleware=[outer, filters.as_langchain(watches)])
    assert run(graph, {"messages": "go"}, colour)["messages"][-1].text == "one"
    graph = create_agent(
        ScriptedModel([asks(call("pay", order=1))]),
        tools=[Flaky().tool()],
        middleware=[filters.as_langchain(filters.retry_tool(2, retry_on="semantic", **QUICK))],
    )
    with pytest.raises(TimeoutError, match="late"):
        run(graph, {"messages": "go"}, colour)


def test_limits_and_filters_that_fail_are_ours(colour: str) -> None:
    @around_chat
    def crashes(request: Any, state: Any, next: Any) -> Any:
        raise KeyError("x")

    with pytest.raises(FilterError, match="crashes"):
        run(
            create_agent(ScriptedModel(["one"]), middleware=[filters.as_langchain(crashes)]), {"messages": "go"}, colour
        )
    limit = filters.as_langchain(filters.limit_calls(1))
    with pytest.raises(LimitExceeded):
        run(create_agent(ScriptedModel(LOOKS), tools=[look], middleware=[limit]), {"messages": "go"}, colour)


class Answer(BaseModel):
    """A number."""

    value: int


def test_structured_output_stays(colour: str) -> None:
    made = asks(call("Answer", value=5))
    graph = create_agent(
        ScriptedModel([LATE, made]),
        middleware=[filters.as_langchain(filters.retry_model(2, **QUICK)), filters.as_langchain(counted)],
        response_format=ToolStrategy(Answer),
    )
    assert run(graph, {"messages": "2 + 3?"}, colour)["structured_response"] == Answer(value=5)


class Drops:
    """A message filter."""

    def filter(self, message: Any) -> Any:
        """The message itself."""
        return message


@token_transform
def tokens(token: Any, state: Any) -> Any:
    return [token], state


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda: filters.approval({"look": True}), "asks people.*HumanInTheLoop"),
        (lambda: filters.once("look"), "asks people|ledger"),
        (lambda: filters.redact_tokens("x", "y"), "transforms tokens"),
        (lambda: filters.pii("email"), "masks|held|transforms"),
        (lambda: tokens, "transforms tokens"),
        (lambda: filters.filter_output(lambda conversation: None), "held"),
        (lambda: filters.from_langchain(ModelRetryMiddleware()), "already"),
        (lambda: ModelRetryMiddleware(), "not a Filter"),
        (lambda: filters.filter_input(Drops), "made of a class|class"),
    ],
)
def test_what_cannot_work_is_refused_with_the_reason(make: Any, reason: str) -> None:
    with pytest.raises(ConfigurationError, match=reason):
        filters.as_langchain(make())


def test_tools_are_checked_where_they_are_known(colour: str) -> None:
    limit = filters.as_langchain(filters.limit_calls(tools={"lok": 1}))
    with pytest.raises(ConfigurationError, match="lok"):
        run(create_agent(ScriptedModel(["one"]), tools=[look], middleware=[limit]), {"messages": "go"}, colour)


def test_pause_is_refused_where_it_is_called(colour: str) -> None:
    @around_chat
    def careful(request: Any, state: Any, next: Any) -> Any:
        pause("Really?")
        return next(request)

    graph = create_agent(
        ScriptedModel(["one"]), middleware=[filters.as_langchain(careful)], checkpointer=InMemorySaver()
    )
    with pytest.raises(ConfigurationError, match="Agent"):
        run(graph, {"messages": "go"}, colour)


def test_a_turn_hook_goes_on_over_a_pause_in_another_process(colour: str, sql: SQLCheckpointer) -> None:
    """What it had decided before is not asked again: the rejected answer and the feedback leave the thread."""
    script = iter(["six", asks(call("look", order=1)), "seven", "five"])
    model = ScriptedModel(lambda _: next(script))
    judged: list[str] = []

    def check(answer: str) -> bool:
        judged.append(answer)
        return answer == "five"

    def graph() -> Any:
        both = [filters.as_langchain(filters.validate_answer(check)), HumanInTheLoopMiddleware({"look": True})]
        return create_agent(model, tools=[look], middleware=both, checkpointer=sql)

    run(graph(), {"messages": "2 + 3?"}, colour)
    (asked,) = sql.approvals.list().items
    sql.approvals.decide(asked.id, approve())
    result = run(graph(), sql.command_for("t"), colour)
    assert [text for _, text in heard(result["messages"])] == ["2 + 3?", "", "order 1 is here", "five"]
    assert judged[-1] == "five"
    assert len(model.calls) == 4
