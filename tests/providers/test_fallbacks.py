"""From one provider to the other, with the real clients: what the other one is asked, and what it answers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from scallion import Completed, Paused, approve, filters

from .clients import PROTOCOLS, client
from .desk import MODES, Ledger, agent_over, ask
from .history import assert_valid
from .replies import CALLS, TEXT, stream
from .server import FakeProvider, Status
from .test_retries import QUICK, every_fault, failing, settings, standing

OTHER = {"chat": "messages", "responses": "messages", "messages": "chat"}
over_every_protocol = pytest.mark.parametrize("protocol", PROTOCOLS)
in_every_mode = pytest.mark.parametrize("mode", MODES)


def stack(protocol: str, url: str, *more: Any) -> list[Any]:
    """A fallback to a client of the other provider."""
    return [filters.fallback(client(OTHER[protocol], url)), *more]


def names(body: dict[str, Any]) -> list[str]:
    """The tools in a request of either provider."""
    return sorted(one.get("name") or one["function"]["name"] for one in body["tools"])


@over_every_protocol
@every_fault
def test_the_other_provider_answers_with_the_same_tools_and_prompt(
    provider: FakeProvider, protocol: str, mode: str, fault: str
) -> None:
    provider.play(failing(protocol, fault), stream(f"{OTHER[protocol]}-text"))
    agent = agent_over(protocol, provider.url, filters=stack(protocol, provider.url), settings=settings(fault))
    result, events = ask(agent, mode, "Where is order 1042?")
    assert isinstance(result, Completed)
    assert result.answer == TEXT
    assert names(provider.bodies[1]) == names(provider.bodies[0]) == ["look_up", "refund"]
    assert "You serve a shop." in str(provider.bodies[1])
    assert result.message.response_metadata["model_provider"] == ("openai" if protocol == "messages" else "anthropic")
    if events:
        assert standing(events) == TEXT


@over_every_protocol
@in_every_mode
def test_a_key_that_is_refused_falls_back_without_a_retry(provider: FakeProvider, protocol: str, mode: str) -> None:
    provider.play(Status(401, type="authentication_error"), stream(f"{OTHER[protocol]}-text"))
    agent = agent_over(protocol, provider.url, filters=stack(protocol, provider.url, filters.retry_model(**QUICK)))
    result, _ = ask(agent, mode, "Where is order 1042?")
    assert result.answer == TEXT


@over_every_protocol
def test_each_is_tried_again_before_the_next_one_is_asked(provider: FakeProvider, protocol: str) -> None:
    busy = Status(529, type="overloaded_error")
    provider.play(busy, busy, busy, stream(f"{OTHER[protocol]}-text"))
    agent = agent_over(protocol, provider.url, filters=stack(protocol, provider.url, filters.retry_model(1, **QUICK)))
    result, _ = ask(agent, "astream", "Where is order 1042?")
    assert result.answer == TEXT
    paths = [one.path for one in provider.requests]
    assert paths[0] == paths[1] != paths[2] == paths[3]


@over_every_protocol
def test_it_takes_over_in_the_middle_of_a_conversation_and_behind_a_pause(
    provider: FakeProvider, protocol: str, tmp_path: Path
) -> None:
    """The history of one provider, with its calls and results, is what the other one goes on from."""
    ledger = Ledger()
    provider.play(stream(f"{protocol}-parallel"), failing(protocol, "reset"), stream(f"{OTHER[protocol]}-text"))
    around = [filters.approval({"refund": True}), *stack(protocol, provider.url)]
    saver = f"sqlite:///{tmp_path / 'threads.db'}"
    agent = agent_over(protocol, provider.url, ledger, filters=around, checkpointer=saver)
    paused, _ = ask(agent, "stream", "Refund 1042, please.")
    assert isinstance(paused, Paused)
    result = agent.resume("t", approve())
    assert isinstance(result, Completed)
    assert result.answer == TEXT
    assert len(ledger.calls) == len(CALLS)
    assert_valid(provider.bodies[-1])
