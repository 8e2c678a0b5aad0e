"""A reader who goes away in the middle of a real client's stream leaves a thread that takes the next message."""

from __future__ import annotations

import asyncio

import pytest

from scallion import Agent, Completed
from scallion.events import Token

from .clients import PROTOCOLS
from .desk import agent_over, ask
from .history import assert_valid, users_of
from .replies import TEXT, stream
from .server import FakeProvider

over_every_protocol = pytest.mark.parametrize("protocol", PROTOCOLS)


def agent_before_a_stall(provider: FakeProvider, protocol: str) -> Agent:
    provider.play(stream(f"{protocol}-text", cut=8, broken="stalled"), stream(f"{protocol}-text", turn=2))
    return agent_over(protocol, provider.url)


def assert_goes_on(agent: Agent, provider: FakeProvider) -> None:
    result, _ = ask(agent, "invoke", "Are you there?")
    assert isinstance(result, Completed)
    assert result.answer == TEXT
    assert_valid(provider.bodies[1])
    assert "Are you there?" in str(users_of(provider.bodies[1])[-1])


@over_every_protocol
def test_a_closed_stream(provider: FakeProvider, protocol: str) -> None:
    provider.play(stream(f"{protocol}-text"), stream(f"{protocol}-text", turn=2))
    agent = agent_over(protocol, provider.url)
    events = agent.stream("Where is order 1042?", thread="t")
    assert next(event.text for event in events if isinstance(event, Token)) == "Order"
    events.close()
    assert_goes_on(agent, provider)


@over_every_protocol
def test_a_closed_async_stream(provider: FakeProvider, protocol: str) -> None:
    agent = agent_before_a_stall(provider, protocol)

    async def read_one_token() -> None:
        events = agent.astream("Where is order 1042?", thread="t")
        async for event in events:
            if isinstance(event, Token):
                break
        await events.aclose()

    asyncio.run(read_one_token())
    assert_goes_on(agent, provider)


@over_every_protocol
@pytest.mark.parametrize("mode", ["ainvoke", "astream"])
def test_a_cancelled_task(provider: FakeProvider, protocol: str, mode: str) -> None:
    agent = agent_before_a_stall(provider, protocol)

    async def turn() -> None:
        if mode == "ainvoke":
            await agent.ainvoke("Where is order 1042?", thread="t")
        else:
            async for _ in agent.astream("Where is order 1042?", thread="t"):
                pass

    async def cancel_it() -> None:
        task = asyncio.create_task(turn())
        await asyncio.to_thread(provider.wait_until_stalled)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancel_it())
    assert_goes_on(agent, provider)
