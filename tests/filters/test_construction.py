"""A mistake in a list of filters is found where the Agent is built, with a message that names the filter."""

from __future__ import annotations

import operator
import threading
from typing import Annotated, Any, TypedDict

import pytest
from langgraph.checkpoint.memory import InMemorySaver

from scallion import Agent, ConfigurationError, Filter, Policy, TokenTransform, around_chat, compose, filters
from scallion.testing import ScriptedModel


def good(request: Any, state: Any, next: Any) -> Any:
    return next(request)


def generator(request: Any, state: Any, next: Any) -> Any:
    yield next(request)


async def async_generator(request: Any, state: Any, next: Any) -> Any:
    yield await next(request)


def step(token: Any, state: Any) -> Any:
    return [token], state


class Whole(Filter):
    name = "whole"

    def around_chat(self, request: Any, state: Any, next: Any) -> Any:
        return next(request)


class NoSelf(Filter):
    name = "no_self"

    def around_chat(request: Any, state: Any, next: Any) -> Any:
        return next(request)


MISTAKES = {
    "two filters of one name": ([Filter("twin", around_chat=good), Filter("twin", around_tool=good)], "'twin'"),
    "too few arguments": ([Filter("thin", around_chat=lambda request, next: None)], "'thin'.*around_chat"),
    "too many arguments": ([Filter("fat", around_tool=lambda a, b, c, d: None)], "'fat'.*around_tool"),
    "keyword arguments only": ([Filter("shy", around_turn=lambda *, request, state, next: None)], "'shy'"),
    "a method without self": ([NoSelf()], "'no_self'"),
    "a generator": ([Filter("gen", around_chat=generator)], "'gen'.*generator"),
    "an async generator": ([Filter("agen", around_chat=async_generator)], "'agen'.*generator"),
    "a step for a transform": ([Filter("tok", token_transform=step)], "'tok'.*TokenTransform"),
    "a step of one argument": ([Filter("tok", token_transform=TokenTransform(lambda token: [token]))], "'tok'.*step"),
    "a flush of two": ([Filter("tok", token_transform=TokenTransform(step, flush=step))], "'tok'.*flush"),
    "no step": ([Filter("tok", token_transform=TokenTransform(None))], "'tok'.*step"),  # type: ignore[arg-type]
    "an init that cannot be copied": (
        [Filter("tok", token_transform=TokenTransform(step, init=threading.Lock()))],
        "'tok'.*init.*copied",
    ),
    "a class for an instance": ([Whole], "Whole"),
    "a plain function": ([good], r"filters\[0\].*around_chat"),
    "a text": (["logging"], r"filters\[0\]"),
    "None": ([Whole(), None], r"filters\[1\]"),
    "one filter without brackets": (Whole(), "whole"),
    "no name": ([Filter(around_chat=good)], "name"),
    "an empty name": ([Filter("", around_chat=good)], "name"),
    "an unhashable name": ([Filter(["list"], around_chat=good)], "list"),  # type: ignore[arg-type]
    "a number as a name": ([Filter(3, around_chat=good)], "3"),  # type: ignore[arg-type]
    "no hook": ([Filter("empty")], "'empty'"),
    "a hook that is not callable": ([Filter("dead", around_chat="good")], "'dead'.*around_chat"),  # type: ignore[arg-type]
    "init that is no mapping": ([Filter("init", around_chat=good, init=[1])], "'init'"),  # type: ignore[arg-type]
    "init that is no JSON": ([Filter("init", around_chat=good, init={"x": object()})], "'init'"),
    "init with a set": ([Filter("init", around_chat=good, init={"x": {1}})], "'init'"),
    "a key of init that is no text": ([Filter("init", around_chat=good, init={1: 1})], "'init'"),  # type: ignore[dict-item]
    "NaN in init": ([Filter("init", around_chat=good, init={"x": float("nan")})], "'init'"),
    "a bad scope": ([Filter("scope", around_chat=good, scope="session")], "'scope'.*scope"),  # type: ignore[arg-type]
    "a bad on_error": ([Filter("err", around_chat=good, on_error="skip")], "'err'.*on_error"),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("mistake", MISTAKES)
@pytest.mark.parametrize("built", ["Agent", "compose"])
def test_it_fails_where_it_is_built(mistake: str, built: str) -> None:
    given, message = MISTAKES[mistake]
    with pytest.raises(ConfigurationError, match=message):
        Agent(ScriptedModel(), filters=given) if built == "Agent" else compose(given, "chat", lambda r: r)


def test_a_coroutine_that_nobody_called_is_refused_and_closed() -> None:
    """No warning about a coroutine that was never awaited."""

    async def make() -> Any: ...

    with pytest.raises(ConfigurationError, match=r"filters\[0\].*coroutine"):
        Agent(ScriptedModel(), filters=[make()])


def test_a_schema_that_cannot_be_read_names_the_filter() -> None:
    """A name in an annotation that does not exist."""

    class Schema(TypedDict):
        n: Annotated[Missing, operator.add]  # type: ignore[name-defined]  # noqa: F821

    with pytest.raises(ConfigurationError, match="'typed'"):
        Agent(ScriptedModel(), filters=[Filter("typed", around_chat=good, state_schema=Schema)])


def test_a_filter_that_pauses_needs_a_checkpointer() -> None:
    """The message names the filter and what to give."""
    with pytest.raises(ConfigurationError, match=r"'approval'.*checkpointer"):
        Agent(ScriptedModel(), filters=[filters.approval(default=True)])
    Agent(ScriptedModel(), filters=[filters.approval(default=True)], checkpointer=InMemorySaver())


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        ({"allowed": ("aprove",)}, "aprove"),
        ({"allowed": "approve"}, "approve"),
        ({"allowed": ()}, "allowed"),
        ({"quorum": 0}, "quorum"),
        ({"quorum": 2, "deciders": ["ana"]}, "quorum"),
        ({"on_expire": "aprove"}, "on_expire"),
    ],
)
def test_a_policy_with_a_typing_mistake_is_refused(policy: dict[str, Any], message: str) -> None:
    """A mistake there must not open a gate."""
    with pytest.raises(ConfigurationError, match=message):
        Policy(**policy)


@pytest.mark.parametrize("verdict", ["yes", 1, {"allowed": ["approve"]}, ["approve"]])
def test_a_verdict_is_true_false_or_a_policy(verdict: Any) -> None:
    with pytest.raises(ConfigurationError, match="refund"):
        filters.approval({"refund": verdict})
    with pytest.raises(ConfigurationError, match="default"):
        filters.approval(default=verdict)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (good, "decorate it with @around_chat"),
        (filters.logging, r"call it, filters\.logging\(\.\.\.\)"),
        (filters.tool_search([]), "unpack it"),
        (Whole, r"give an instance, Whole\(\)"),
    ],
)
def test_what_is_not_a_filter_is_told_how_to_become_one(given: Any, told: str) -> None:
    with pytest.raises(ConfigurationError, match=told):
        Agent(ScriptedModel(), filters=[given])


def test_a_generator_of_filters_is_read_once() -> None:
    """An iterable that is used up by reading keeps all of its filters."""
    agent = Agent(ScriptedModel(), filters=(one for one in [Whole(), around_chat(good, name="second")]))
    assert agent.layers["chat"] == ["whole", "second"]


def test_filters_can_be_shared_by_two_agents() -> None:
    one = Whole()
    assert Agent(ScriptedModel(), filters=[one]).layers == Agent(ScriptedModel(), filters=[one]).layers
