"""The conformance kit: the catalogue passes it, and each kind of mistake is found by the test that is for it."""

from __future__ import annotations

import itertools
import time
from typing import Any

import pytest
from langchain_core.caches import InMemoryCache

from scallion import (
    Completed,
    ConfigurationError,
    Filter,
    around_chat,
    around_tool,
    around_turn,
    filters,
    token_transform,
)
from scallion.testing import FilterConformance, check_filter

CATALOGUE: dict[str, Any] = {
    "cache": lambda: filters.cache(InMemoryCache()),
    "hold_release": lambda: filters.hold_release(lambda text: True),
    "moderation": lambda: filters.moderation(lambda text: False),
    "pii": lambda: filters.pii("email", "credit_card"),
    "retry_tool": filters.retry_tool,
    "review_answer": filters.review_answer,
    "safeguard": lambda: filters.safeguard(["bomb"]),
    "todo": filters.todo,
    "usage": filters.usage,
    "validate_answer": lambda: filters.validate_answer(lambda answer: answer == "done"),
}


@pytest.mark.parametrize("name", CATALOGUE)
def test_the_catalogue_passes(name: str) -> None:
    check_filter(CATALOGUE[name])


@around_turn
def catches_all(request, state, next):
    try:
        return next(request)
    except BaseException:
        return next(request)


@around_tool
async def catches_all_too(request, state, next):
    try:
        return await next(request)
    except BaseException:
        raise ValueError("no") from None


def counts_in_itself() -> Filter:
    """The number is in the object, where another process does not find it."""
    numbers = itertools.count()

    @around_chat(init={"n": 0})
    def counts(request, state, next):
        return next(request), {"n": next_number()}

    def next_number() -> int:
        return next(numbers)

    return counts


def asks_before_it_counts() -> Filter:
    """Code before `next` is run again on a resume; what it did there outside of its state is done twice."""
    seen: list[Any] = []

    @around_tool(init={"n": 0})
    def counts(request, state, next):
        seen.append(request)
        reply = next(request)
        return reply, {"n": len(seen)}

    return counts


def knows_the_stream() -> Filter:
    """It changes the answer, but only where nobody reads a stream."""
    from scallion.loop.invocation import current_invocation

    @around_turn
    def changes(request, state, next):
        result = next(request)
        here = current_invocation.get()
        if here is not None and here.emit is not None:
            return result
        return result.replace(message=result.message.model_copy(update={"content": "changed"}))

    return changes


@around_tool
def runs_twice(request, state, next):
    next(request)
    return next(request)


@around_tool
def empties(request, state, next):
    reply = next(request)
    return reply.replace(message=reply.message.model_copy(update={"content": ""}))


@around_turn
def forgets(request, state, next):
    result = next(request)
    return result.replace(messages=[one for one in result.messages if one.type != "tool"])


@around_chat
def asks_twice(request, state, next):
    next(request)
    return next(request)


@around_tool
async def holds_the_loop(request, state, next):
    time.sleep(0.01)
    return await next(request)


def tells_of_others() -> Filter:
    """What was streamed before is in the object, and comes out in the next turn."""
    seen: list[str] = []

    @token_transform
    def tells(token, state):
        seen.append(token.text)
        return ["".join(seen)], state

    return tells


SHARED = asks_before_it_counts()


@pytest.mark.parametrize(
    ("make", "test", "told"),
    [
        (lambda: Filter("empty"), "test_it_can_be_built", "has no hook"),
        (lambda: catches_all, "test_it_can_be_built", "a new filter each time"),
        (
            lambda: catches_all,
            "test_a_pause_inside_passes_and_goes_on_elsewhere",
            "around_turn of filter 'catches_all' lost a pause",
        ),
        (
            lambda: catches_all_too,
            "test_a_pause_inside_passes_and_goes_on_elsewhere",
            "around_tool of filter 'catches_all_too' lost a pause",
        ),
        (counts_in_itself, "test_a_pause_inside_passes_and_goes_on_elsewhere", "what a pause around the chat"),
        (counts_in_itself, "test_its_state_is_its_own", "the state of a second thread"),
        (counts_in_itself, "test_many_threads_at_once", "one of many turns at once"),
        (lambda: SHARED, "test_a_pause_inside_passes_and_goes_on_elsewhere", "what a pause around the t"),
        (lambda: runs_twice, "test_a_call_runs_once_and_its_result_is_kept", "look ran 2 times for one call"),
        (lambda: empties, "test_a_call_runs_once_and_its_result_is_kept", "the result of look is not in"),
        (lambda: forgets, "test_a_call_runs_once_and_its_result_is_kept", "the result of look is not in"),
        (lambda: asks_twice, "test_a_call_runs_once_and_its_result_is_kept", "the model was asked the same twice"),
        (lambda: holds_the_loop, "test_each_mode_ends_the_same", "time.sleep holds all other turns in ainvoke"),
        (tells_of_others, "test_its_state_is_its_own", "what a second thread delivers"),
        (knows_the_stream, "test_each_mode_ends_the_same", "what stream ends with, beside invoke"),
    ],
)
def test_a_mistake_is_found(make: Any, test: str, told: str) -> None:
    kit = type("Kit", (FilterConformance,), {"make": lambda self: make()})()
    with pytest.raises((AssertionError, ConfigurationError), match=told):
        getattr(kit, test)()


class TestApproval(FilterConformance):
    """As a filter of somebody else would be tested: the methods are collected. It pauses by itself."""

    def make(self) -> Filter:
        return filters.approval({"look": True})


class TestLimitCalls(FilterConformance):
    """Its state holds the seconds of the turn, which differ."""

    def make(self) -> Filter:
        return filters.limit_calls(model=10, tools=10)

    def seen(self, result: Completed, name: str) -> Any:
        seen = super().seen(result, name)
        del seen["state"]["time"]
        return seen


MEANT = [(runs_twice, "repeats"), (asks_twice, "repeats"), (empties, "withholds"), (forgets, "withholds")]


@pytest.mark.parametrize(("make", "says"), MEANT)
def test_what_is_meant_is_said(make: Filter, says: str) -> None:
    kit = type("Kit", (FilterConformance,), {"make": lambda self: make, says: True})()
    kit.test_a_call_runs_once_and_its_result_is_kept()


def test_a_synchronous_hook_may_sleep() -> None:
    """It cannot wait otherwise."""

    @around_tool
    def sleeps(request, state, next):
        time.sleep(0.01)
        return next(request)

    type("Kit", (FilterConformance,), {"make": lambda self: sleeps})().test_each_mode_ends_the_same()


def test_make_has_to_be_defined() -> None:
    with pytest.raises(NotImplementedError, match="define make"):
        FilterConformance().make()
