"""Filters of memory and context over the real clients: what a provider is sent is valid, whoever cut or kept it."""

from __future__ import annotations

from typing import Any

import pytest
from langchain_core.caches import InMemoryCache

from scallion import Agent, SQLCheckpointer, filters

from .clients import PROTOCOLS, client
from .desk import Ledger, agent_over, ask, text_of
from .history import assert_valid, items_of
from .replies import CALLS, TEXT, stream
from .server import FakeProvider

over_every_protocol = pytest.mark.parametrize("protocol", PROTOCOLS)
in_every_colour = pytest.mark.parametrize("mode", ["invoke", "astream"])


@over_every_protocol
@in_every_colour
def test_a_conversation_from_the_cache_goes_on_with_the_provider(
    provider: FakeProvider, protocol: str, mode: str
) -> None:
    """The calls have other ids then, also in the blocks that the client sends back."""
    provider.play(stream(f"{protocol}-parallel"), stream(f"{protocol}-text"), stream(f"{protocol}-text", turn=2))
    ledger = Ledger()
    agent = agent_over(protocol, provider.url, ledger, filters=[filters.cache(InMemoryCache())])
    ask(agent, mode, "Refund 1042, please.", thread="first")
    asked = len(provider.bodies)
    result, events = ask(agent, mode, "Refund 1042, please.", thread="second")
    assert result.answer == TEXT  # type: ignore[union-attr]
    assert not events or text_of(events).endswith(TEXT)
    assert len(provider.bodies) == asked == 2
    assert len(ledger.calls) == 2 * len(CALLS)
    ask(agent, mode, "Sure?", thread="second")
    for body in provider.bodies:
        assert_valid(body)
    first, second = ({content for kind, content in items_of(body) if kind == "call"} for body in provider.bodies[1:])
    assert len(first) == len(second) == len(CALLS)
    assert not first & second


@over_every_protocol
def test_models_and_parameters_are_kept_apart(provider: FakeProvider, protocol: str) -> None:
    """And no key of the provider's is in the name."""
    store = InMemoryCache()
    provider.play(stream(f"{protocol}-text"), stream(f"{protocol}-text", turn=2))
    for temperature in (0.1, 0.9, 0.1):
        settings = {"temperature": temperature}
        agent = agent_over(protocol, provider.url, filters=[filters.cache(store)], settings=settings)
        agent.invoke("Where is order 1042?")
    assert len(provider.bodies) == 2


@over_every_protocol
@in_every_colour
@pytest.mark.parametrize(
    ("one", "asked"),
    [
        (lambda: filters.trim(max_messages=5), 4),
        (lambda: filters.trim(max_tokens=100, count=lambda messages: 20 * len(messages)), 4),
        (lambda: filters.summarise(max_messages=5), 5),
    ],
    ids=["messages", "tokens", "summary"],
)
def test_what_is_cut_is_valid(provider: FakeProvider, protocol: str, mode: str, one: Any, asked: int) -> None:
    """With parallel calls, and the summary written by the provider too."""
    text = f"{protocol}-text"
    provider.play(stream(f"{protocol}-parallel"), *(stream(text, turn=number) for number in range(1, asked)))
    agent = agent_over(protocol, provider.url, filters=[one()])
    for message in ("Refund 1042, please.", "Sure?", "And now?"):
        ask(agent, mode, message)
    for body in provider.bodies:
        assert_valid(body)
    assert len(items_of(provider.bodies[-1])) < len(agent.graph.get_state(place("t")).values["messages"])


def place(thread: str) -> Any:
    return {"configurable": {"thread_id": thread}}


@over_every_protocol
@in_every_colour
def test_what_is_remembered_is_valid(provider: FakeProvider, protocol: str, mode: str) -> None:
    """By an agent without a checkpointer, from a database."""
    provider.play(stream(f"{protocol}-parallel"), *(stream(f"{protocol}-text", turn=n) for n in (1, 2)))
    with SQLCheckpointer("sqlite://") as saver:
        stack = [filters.memory(saver.history), filters.usage()]
        agent = Agent(client(protocol, provider.url), tools=Ledger().tools(), filters=stack, system_prompt="A shop.")
        first, _ = ask(agent, mode, "Refund 1042, please.")
        ask(agent, mode, "Sure?")
    for body in provider.bodies:
        assert_valid(body)
    last, before = items_of(provider.bodies[-1]), items_of(provider.bodies[-2])
    assert last[: len(before)] == before
    ((name, row),) = first.filter_state["usage"]["models"].items()  # type: ignore[union-attr]
    assert name != "unknown"
    assert row["calls"] == 2
    assert row["input"] > 0
