"""`usage`: every call that was made counts once, by the model that answered, at its price."""

from __future__ import annotations

from typing import Any

import pytest
from langchain_core.messages import AIMessage
from modes import Drive
from scenes import Desk, call

from scallion import Agent, ChatReply, ConfigurationError, ModelError, SQLCheckpointer, around_chat, filters
from scallion.testing import ScriptedModel

PRICES = {"small": {"input": 1, "output": 10, "cached": 0.1}, "large": {"input": 5, "output": 50, "cache_write": 6}}


def said(text: str, model: str, read: int, wrote: int, *, cached: int = 0, written: int = 0, **more: Any) -> AIMessage:
    usage = {
        "input_tokens": read,
        "output_tokens": wrote,
        "total_tokens": read + wrote,
        "input_token_details": {"cache_read": cached, "cache_creation": written},
    }
    return AIMessage(text, usage_metadata=usage, response_metadata={"model_name": model}, **more)


def totals(result: Any, name: str = "usage") -> Any:
    return result.filter_state[name]


def test_tokens_and_cost_by_model(drive: Drive) -> None:
    first = said("", "small-2026-01-31", 1000, 100, cached=400, tool_calls=[call("look", order=1)])
    model = ScriptedModel([first, said("Here.", "large", 2000, 10, written=500)])
    agent = Agent(model, tools=Desk().tools, filters=[filters.usage(PRICES)])
    result, _ = drive(agent).start("Where is it?")
    small = {"calls": 1, "input": 1000, "output": 100, "cached": 400, "cache_write": 0, "cost": 0.00164}
    large = {"calls": 1, "input": 2000, "output": 10, "cached": 0, "cache_write": 500, "cost": 0.011}
    assert totals(result)["models"] == {"small-2026-01-31": pytest.approx(small), "large": pytest.approx(large)}
    assert totals(result)["cost"] == pytest.approx(0.01264)
    assert totals(result)["unpriced"] == 0


def test_each_attempt_counts_wherever_the_filter_stands(drive: Drive) -> None:
    """A filter in front of a retry sees one reply of the two that were paid for."""

    @around_chat
    def again(request: Any, state: Any, next: Any) -> Any:
        next(request)
        return next(request)

    model = ScriptedModel([said("a", "small", 10, 1), said("b", "small", 10, 1)])
    result, _ = drive(Agent(model, filters=[filters.usage(PRICES), again])).start("?")
    assert totals(result)["models"]["small"]["calls"] == 2
    assert result.usage["total_tokens"] == 22


def test_what_a_layer_answers_costs_nothing() -> None:
    @around_chat
    def knows(request: Any, state: Any, next: Any) -> Any:
        return ChatReply(said("known", "small", 1000, 1000))

    result = Agent(ScriptedModel(), filters=[filters.usage(PRICES), knows]).invoke("?")
    assert totals(result) == {"models": {}, "cost": 0, "unpriced": 0}


def test_by_thread_and_by_turn(sql: SQLCheckpointer) -> None:
    model = ScriptedModel([said(f"{n}", "small", 100, 0) for n in range(3)])
    both = [filters.usage(PRICES, scope="thread", name="ever"), filters.usage(PRICES)]
    agent = Agent(model, filters=both, checkpointer=sql)
    for _ in range(3):
        result = agent.invoke("?", thread="t")
    assert totals(result, "ever")["models"]["small"]["input"] == 300
    assert totals(result)["models"]["small"]["input"] == 100
    assert totals(result, "ever")["cost"] == pytest.approx(0.0003)


def test_a_model_without_a_price_is_told_of() -> None:
    """Its tokens are counted; a sum that leaves it out does not look whole. Another model's price is not its price."""
    result = Agent(ScriptedModel([said("a", "small-mini", 10, 1)]), filters=[filters.usage(PRICES)]).invoke("?")
    assert totals(result)["unpriced"] == 1
    assert totals(result)["cost"] == 0
    assert "cost" not in totals(result)["models"]["small-mini"]


def test_a_model_that_names_itself_nowhere() -> None:
    result = Agent(ScriptedModel(["one two"]), filters=[filters.usage()]).invoke("one")
    assert totals(result)["models"] == {
        "scripted": {"calls": 1, "input": 1, "output": 2, "cached": 0, "cache_write": 0}
    }


def test_a_failed_turn_leaves_the_thread_usable(sql: SQLCheckpointer) -> None:
    model = ScriptedModel([ValueError("no"), said("a", "small", 10, 1)])
    agent = Agent(model, filters=[filters.usage(scope="thread")], checkpointer=sql)
    with pytest.raises(ModelError):
        agent.invoke("?", thread="t")
    assert totals(agent.invoke("?", thread="t"))["models"]["small"]["calls"] == 1


@pytest.mark.parametrize(
    "prices",
    [7, {"a": 1}, {"a": {"input": 1}}, {"a": {"input": 1, "output": "2"}}, {"a": {"input": 1, "output": 2, "x": 3}},
     {"a": {"input": -1, "output": 2}}],
)  # fmt: skip
def test_prices_that_cannot_be_read_are_refused(prices: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"filter 'bill'.*price"):
        filters.usage(prices, name="bill")


def test_a_scope_that_there_is_not_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="filter 'bill': scope is \"turn\" or \"thread\", not 'foo'"):
        filters.usage(scope="foo", name="bill")  # type: ignore[arg-type]
