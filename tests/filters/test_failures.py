"""Whose failure it is: a filter's own is named after it, the model's and the chain's pass as they are."""

from __future__ import annotations

import logging
from collections.abc import Generator
from typing import Any

import pytest
from langchain_core.messages import HumanMessage
from modes import Drive
from scenes import REQUESTS, Desk, asks, call, layer, reply, results, text_of

from scallion import Agent, Blocked, Filter, FilterActed, FilterError, LimitExceeded, Limits, ModelError, compose
from scallion.testing import ScriptedModel

CHAINS = ("turn", "chat", "tool")
chains = pytest.mark.parametrize("chain", CHAINS)
colours = pytest.mark.parametrize("colour", ["def", "async"])


def crashing(where: str) -> Any:
    def hook(request: Any, state: Any) -> Generator[Any, Any, Any]:
        if where == "before":
            raise KeyError("bug")
        out = yield request
        if where == "after":
            raise KeyError("bug")
        return out

    return hook


def passes(request: Any, state: Any) -> Generator[Any, Any, Any]:
    return (yield request)


@chains
@colours
@pytest.mark.parametrize("where", ["before", "after"])
def test_a_filter_that_crashes_fails_the_turn_under_its_name(drive: Drive, chain: str, colour: str, where: str) -> None:
    """With the cause, though other filters of the other colour stand around it."""
    desk = Desk()
    model = ScriptedModel([asks(call("look", order=1)), "end"])
    stack = [
        layer("outer", chain, passes, "async" if colour == "def" else "def"),
        layer("buggy", chain, crashing(where), colour),
        layer("inner", chain, passes, colour),
    ]
    with pytest.raises(FilterError, match=r"'buggy' failed in around_") as caught:
        drive(Agent(model, tools=desk.tools, filters=stack)).start("go")
    assert (caught.value.filter, caught.value.hook) == ("buggy", f"around_{chain}")
    assert isinstance(caught.value.__cause__, KeyError)


@colours
def test_the_models_error_passes_unwrapped(drive: Drive, colour: str) -> None:
    """With its kind, and the provider's exception as its cause."""

    class RateLimitError(Exception):
        status_code = 429

    model = ScriptedModel([RateLimitError("slow down")])
    stack = [layer("turn", "turn", passes, colour), layer("one", "chat", passes, colour), layer("two", "chat", passes)]
    with pytest.raises(ModelError) as caught:
        drive(Agent(model, filters=stack)).start("go")
    assert caught.value.kind == "transient"
    assert isinstance(caught.value.__cause__, RateLimitError)


@colours
def test_a_filter_that_raises_the_providers_exception_is_blamed_itself(drive: Drive, colour: str) -> None:
    def unwraps(request: Any, state: Any) -> Generator[Any, Any, Any]:
        try:
            return (yield request)
        except ModelError as error:
            raise (error.__cause__ or error) from None

    with pytest.raises(FilterError) as caught:
        drive(Agent(ScriptedModel([OSError("x")]), filters=[layer("unwraps", "chat", unwraps, colour)])).start("go")
    assert caught.value.filter == "unwraps"
    assert isinstance(caught.value.__cause__, OSError)


@chains
@colours
@pytest.mark.parametrize("on_loop", [False, True])
@pytest.mark.parametrize("kind", [OSError, TimeoutError, StopAsyncIteration])
async def test_what_next_raised_is_not_blamed_on_the_layer(
    chain: str, colour: str, on_loop: bool, kind: type[Exception]
) -> None:
    """The error of an innermost call passes every layer as the same object."""
    error = kind("inside")

    async def fails(request: Any) -> Any:
        raise error

    composed = compose([layer("a", chain, passes, colour), layer("b", chain, passes, colour)], chain, fails)
    with pytest.raises(kind) as caught:
        await composed.acall(REQUESTS[chain]) if on_loop else composed(REQUESTS[chain])
    assert caught.value is error


def test_an_inner_filters_error_keeps_its_name_through_outer_filters(drive: Drive) -> None:
    """The one that caught and raised it again is not blamed."""

    def again(request: Any, state: Any) -> Generator[Any, Any, Any]:
        try:
            return (yield request)
        except FilterError:
            raise

    stack = [layer("again", "chat", again), layer("buggy", "chat", crashing("before"))]
    with pytest.raises(FilterError) as caught:
        drive(Agent(ScriptedModel(["x"]), filters=stack)).start("go")
    assert caught.value.filter == "buggy"


def test_errors_that_scallion_raises_on_purpose_pass(drive: Drive) -> None:
    """A guard stops the turn with Blocked, not with a FilterError."""

    def guard(request: Any, state: Any, next: Any) -> Any:
        raise Blocked("guard", {"card": 1})

    with pytest.raises(Blocked) as caught:
        drive(Agent(ScriptedModel(["x"]), filters=[Filter("guard", around_chat=guard)])).start("go")
    assert caught.value.findings == {"card": 1}


def test_a_limit_that_a_retry_reaches_passes(drive: Drive) -> None:
    def greedy(request: Any, state: Any) -> Generator[Any, Any, Any]:
        for _ in range(9):
            yield request

    model = ScriptedModel(["x"] * 9)
    with pytest.raises(LimitExceeded) as caught:
        drive(Agent(model, filters=[layer("greedy", "chat", greedy)], limits=Limits(model_calls=3))).start("go")
    assert caught.value.limit == "model_calls"
    assert len(model.calls) == 3


@colours
def test_a_tools_failure_is_a_value_for_filters(drive: Drive, colour: str) -> None:
    """Kind and exception, and a filter may try again."""
    seen: list[Any] = []
    attempts: list[int] = []

    def flaky(order: int) -> str:
        """Fails at first."""
        attempts.append(order)
        if len(attempts) == 1:
            raise ConnectionError("reset")
        return "fine"

    def retries(request: Any, state: Any) -> Generator[Any, Any, Any]:
        out = yield request
        seen.append(out.error)
        return (yield request) if out.error else out

    model = ScriptedModel([asks(call("flaky", order=1)), "end"])
    result, _ = drive(Agent(model, tools=[flaky], filters=[layer("retry", "tool", retries, colour)])).start("go")
    assert results(result.messages) == ["fine"]
    assert seen[0].kind == "transient"
    assert isinstance(seen[0].exception, ConnectionError)


def test_a_tool_filter_that_crashes_closes_the_gate(drive: Drive, any_saver: Any) -> None:
    """The call does not run, its sibling keeps its result, and the thread stays usable."""
    desk = Desk()

    def guard(request: Any, state: Any, next: Any) -> Any:
        if request.call["name"] == "refund":
            raise KeyError("bug in the guard")
        return next(request)

    model = ScriptedModel([asks(call("refund", "c1", order=1), call("look", "c2", order=2)), "later"])
    driver = drive(Agent(model, tools=desk.tools, filters=[Filter("guard", around_tool=guard)], checkpointer=any_saver))
    with pytest.raises(FilterError, match="guard"):
        driver.start("go", thread="t")
    assert desk.ran == ["look 2"]
    result, _ = driver.start("again", thread="t")
    assert result.answer == "later"
    assert desk.ran == ["look 2"]


class TestIgnoredErrors:
    """`on_error="ignore"`: the turn goes on as if the filter were not there, and somebody reads of it."""

    @chains
    @colours
    @pytest.mark.parametrize("where", ["before", "after"])
    def test_the_turn_goes_on(self, drive: Drive, chain: str, colour: str, where: str, caplog: Any) -> None:
        desk = Desk()
        model = ScriptedModel([asks(call("look", order=1)), "end"])
        hook = layer("x", chain, crashing(where), colour).hook(chain)
        stack = [Filter("metrics", **{"around_" + chain: hook}, on_error="ignore")]
        driver = drive(Agent(model, tools=desk.tools, filters=stack))
        with caplog.at_level(logging.WARNING, "scallion.filters"):
            result, events = driver.start("go")
        assert result.answer == "end"
        assert desk.ran == ["look 1"]
        assert len(model.calls) == 2
        assert "metrics" in caplog.text
        assert "bug" not in caplog.text
        if driver.streams:
            assert FilterActed("metrics", f"around_{chain}", "ignored_error") in events

    @chains
    def test_a_reply_of_the_wrong_type_is_ignored_too(self, chain: str) -> None:
        """The commonest mistake of a logging filter: it forgets to return."""

        def forgets(request: Any, state: Any, next: Any) -> None:
            next(request)

        calls: list[Any] = []

        def last(request: Any) -> Any:
            calls.append(request)
            return reply(chain)

        stack = [Filter("log", **{"around_" + chain: forgets}, on_error="ignore")]
        assert text_of(compose(stack, chain, last)(REQUESTS[chain])) == "done"
        assert len(calls) == 1

    @chains
    def test_what_next_raised_is_not_hidden_nor_done_again(self, chain: str) -> None:
        """A filter that stumbles over the model's error does not make a second call."""

        def stumbles(request: Any, state: Any, next: Any) -> Any:
            try:
                return next(request)
            except ModelError as error:
                raise AttributeError("error.code") from error

        calls: list[Any] = []

        def last(request: Any) -> Any:
            calls.append(request)
            raise ModelError("transient", "down")

        stack = [Filter("log", **{"around_" + chain: stumbles}, on_error="ignore")]
        with pytest.raises(ModelError, match="down"):
            compose(stack, chain, last)(REQUESTS[chain])
        assert len(calls) == 1

    def test_what_it_changed_before_it_failed_does_not_count(self) -> None:
        """The inner layers get the request as it came."""
        seen: list[Any] = []

        def fails(request: Any, state: Any, next: Any) -> Any:
            request = request.replace(messages=[HumanMessage("changed")])
            raise KeyError("bug")

        def last(request: Any) -> Any:
            seen.append(request.messages[0].text)
            return reply("chat")

        compose([Filter("f", around_chat=fails, on_error="ignore")], "chat", last)(REQUESTS["chat"])
        assert seen == ["hi"]
