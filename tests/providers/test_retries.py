"""Retries fire on what the real clients really raise, in all modes; the clients' own retries are off."""

from __future__ import annotations

from typing import Any

import pytest

from scallion import Completed, filters
from scallion.errors import ModelError
from scallion.events import Retracted, Token

from .clients import PROTOCOLS
from .desk import MODES, Ledger, agent_over, ask
from .replies import CALLS, TEXT, stream
from .server import FakeProvider, Status, Stream

QUICK: dict[str, Any] = {"initial_delay": 0.001, "max_delay": 0.002}
STATUSES = {
    "429": Status(429, retry_after=0.02, type="rate_limit_error"),
    "500": Status(500, type="api_error"),
    "529": Status(529, type="overloaded_error"),
}
BREAKS = ("dropped", "reset", "quiet", "garbled", "stalled")

over_every_protocol = pytest.mark.parametrize("protocol", PROTOCOLS)
in_every_mode = pytest.mark.parametrize("mode", MODES)
every_fault = pytest.mark.parametrize(
    ("mode", "fault"),
    [("invoke", one) for one in (*STATUSES, *BREAKS) if one != "quiet"]  # a body that is not streamed has no quiet end
    + [("astream", one) for one in (*STATUSES, *BREAKS)],
)


def failing(protocol: str, fault: str, kind: str = "text", cut: int = 8) -> Status | Stream:
    """A status, or a stream that is cut after some text."""
    return STATUSES.get(fault) or stream(f"{protocol}-{kind}", cut=cut, broken=fault)


def settings(fault: str) -> dict[str, Any]:
    """A client that gives up where nothing more comes."""
    return {"timeout": 0.1} if fault == "stalled" else {}


def standing(events: list[Any]) -> str:
    """What a reader holds at the end."""
    gone = {one.call for one in events if isinstance(one, Retracted)}
    return "".join(one.text for one in events if isinstance(one, Token) and one.call not in gone)


@over_every_protocol
@every_fault
def test_it_is_tried_again_and_the_reader_holds_the_answer_once(
    provider: FakeProvider, protocol: str, mode: str, fault: str
) -> None:
    provider.play(failing(protocol, fault), stream(f"{protocol}-text", turn=2))
    agent = agent_over(protocol, provider.url, filters=[filters.retry_model(**QUICK)], settings=settings(fault))
    result, events = ask(agent, mode, "Where is order 1042?")
    assert isinstance(result, Completed)
    assert result.answer == TEXT
    assert result.usage["model_calls"] == 2
    assert provider.bodies[0] == provider.bodies[1]
    if events:
        assert standing(events) == TEXT


@over_every_protocol
@in_every_mode
def test_a_retry_behind_the_tools_repeats_no_tool(provider: FakeProvider, protocol: str, mode: str) -> None:
    ledger, broken = Ledger(), failing(protocol, "reset")
    provider.play(stream(f"{protocol}-parallel"), broken, stream(f"{protocol}-text", turn=2))
    agent = agent_over(protocol, provider.url, ledger, filters=[filters.retry_model(**QUICK)])
    result, _ = ask(agent, mode, "Refund 1042, please.")
    assert (result.answer, len(ledger.calls)) == (TEXT, len(CALLS))


@over_every_protocol
def test_when_all_attempts_are_used_up_the_last_error_is_the_providers(provider: FakeProvider, protocol: str) -> None:
    provider.play(STATUSES["500"], STATUSES["529"], STATUSES["429"])
    agent = agent_over(protocol, provider.url, filters=[filters.retry_model(2, **QUICK)])
    with pytest.raises(ModelError) as caught:
        ask(agent, "invoke", "Where is order 1042?")
    assert caught.value.retry_after == 0.02
    assert "429" in str(caught.value)


@over_every_protocol
@pytest.mark.parametrize(("code", "type"), [(400, "invalid_request_error"), (401, "authentication_error")])
def test_a_wrong_request_or_key_is_not_sent_again(provider: FakeProvider, protocol: str, code: int, type: str) -> None:
    provider.play(Status(code, type=type))
    agent = agent_over(protocol, provider.url, filters=[filters.retry_model(**QUICK)])
    with pytest.raises(ModelError):
        ask(agent, "ainvoke", "Where is order 1042?")
