"""What the clients raise becomes a ModelError of the right kind, and the thread stays usable."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

import pytest

from scallion import Completed, Paused, approve, filters
from scallion.errors import ModelError

from .clients import PROTOCOLS
from .desk import MODES, STREAMED, Ledger, agent_over, ask
from .history import assert_valid, results_of, users_of
from .replies import CALLS, TEXT, stream
from .server import FakeProvider, Status, Stream

over_every_protocol = pytest.mark.parametrize("protocol", PROTOCOLS)
in_every_mode = pytest.mark.parametrize("mode", MODES)
in_streams = pytest.mark.parametrize("mode", STREAMED)

FAILURE_EVENTS: dict[str, dict[str, Any]] = {
    "chat": {"error": {"message": "The server had an error", "type": "server_error", "code": None}},
    "responses": {"type": "error", "code": "server_error", "message": "The server had an error", "param": None},
    "messages": {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}},
}


@over_every_protocol
@in_streams
@pytest.mark.parametrize("broken", ["dropped", "reset", "quiet"])
def test_a_stream_that_breaks_off_is_transient_and_the_thread_goes_on(
    provider: FakeProvider, protocol: str, mode: str, broken: str
) -> None:
    provider.play(stream(f"{protocol}-text", cut=8, broken=broken), stream(f"{protocol}-text", turn=2))
    agent = agent_over(protocol, provider.url)
    with pytest.raises(ModelError) as caught:
        ask(agent, mode, "Where is order 1042?")
    assert caught.value.kind == "transient"
    result, _ = ask(agent, mode, "Are you there?")
    assert isinstance(result, Completed)
    assert result.answer == TEXT
    assert_valid(provider.bodies[1])
    assert "Are you there?" in str(users_of(provider.bodies[1])[-1])


@over_every_protocol
@in_streams
def test_a_call_whose_arguments_broke_off_never_runs(provider: FakeProvider, protocol: str, mode: str) -> None:
    provider.play(stream(f"{protocol}-parallel", cut=13, broken="quiet"))
    ledger = Ledger()
    with pytest.raises(ModelError):
        ask(agent_over(protocol, provider.url, ledger), mode, "Refund 1042, please.")
    assert ledger.calls == []


@over_every_protocol
@pytest.mark.parametrize("kind", ["text", "parallel"])
def test_a_client_that_streams_by_itself_hides_no_broken_stream(
    provider: FakeProvider, protocol: str, kind: str
) -> None:
    provider.play(stream(f"{protocol}-{kind}", cut=13, broken="quiet"))
    ledger = Ledger()
    agent = agent_over(protocol, provider.url, ledger, settings={"streaming": True})
    with pytest.raises(ModelError) as caught:
        ask(agent, "invoke", "Refund 1042, please.")
    assert caught.value.kind == "transient"
    assert ledger.calls == []


@pytest.mark.parametrize("streams_by_itself", [False, True])
@in_every_mode
def test_a_call_that_was_cut_at_the_token_limit_never_runs_with_half_its_arguments(
    provider: FakeProvider, mode: str, streams_by_itself: bool
) -> None:
    *start, _, usage = stream("chat-parallel").events[:6] + stream("chat-parallel").events[-2:]
    end = {**start[0], "choices": [{"index": 0, "delta": {}, "finish_reason": "length"}]}
    provider.play(Stream([*start, end, usage]), stream("chat-text"))
    ledger = Ledger()
    agent = agent_over("chat", provider.url, ledger, settings={"streaming": True} if streams_by_itself else {})
    result, _ = ask(agent, mode, "Refund 1042, please.")
    assert isinstance(result, Completed)
    assert ledger.calls == []
    assert_valid(provider.bodies[1])


@over_every_protocol
@in_every_mode
def test_a_connection_lost_after_the_tools_leaves_them_done(provider: FakeProvider, protocol: str, mode: str) -> None:
    broken = stream(f"{protocol}-text", cut=8)
    provider.play(stream(f"{protocol}-parallel"), broken, stream(f"{protocol}-text", turn=2))
    ledger = Ledger()
    agent = agent_over(protocol, provider.url, ledger)
    with pytest.raises(ModelError) as caught:
        ask(agent, mode, "Refund 1042, please.")
    assert caught.value.kind == "transient"
    result, _ = ask(agent, mode, "Did it work?")
    assert isinstance(result, Completed)
    assert len(ledger.calls) == len(CALLS)
    assert_valid(provider.bodies[-1])
    assert len(results_of(provider.bodies[-1])) == len(CALLS)


@over_every_protocol
def test_a_failure_event_within_the_stream_is_transient(provider: FakeProvider, protocol: str) -> None:
    provider.play(Stream([*stream(f"{protocol}-text").events[:6], FAILURE_EVENTS[protocol]]))
    with pytest.raises(ModelError) as caught:
        ask(agent_over(protocol, provider.url), "stream", "Where is order 1042?")
    assert caught.value.kind == "transient"
    assert caught.value.__cause__ is not None


@over_every_protocol
@in_every_mode
def test_too_many_requests_says_when_to_come_back(provider: FakeProvider, protocol: str, mode: str) -> None:
    provider.play(Status(429, retry_after=2.5, type="rate_limit_error"))
    with pytest.raises(ModelError) as caught:
        ask(agent_over(protocol, provider.url), mode, "Where is order 1042?")
    assert (caught.value.kind, caught.value.retry_after) == ("transient", 2.5)


@over_every_protocol
@pytest.mark.parametrize(
    ("code", "type", "kind"),
    [
        (400, "invalid_request_error", "semantic"),
        (401, "authentication_error", "environment"),
        (403, "permission_error", "environment"),
        (404, "not_found_error", "environment"),
        (408, "timeout_error", "transient"),
        (413, "request_too_large", "semantic"),
        (500, "api_error", "transient"),
        (503, "overloaded", "transient"),
        (529, "overloaded_error", "transient"),
    ],
)
def test_a_status_has_its_kind(provider: FakeProvider, protocol: str, code: int, type: str, kind: str) -> None:
    provider.play(Status(code, type=type))
    with pytest.raises(ModelError) as caught:
        ask(agent_over(protocol, provider.url), "invoke", "Where is order 1042?")
    assert caught.value.kind == kind


@pytest.mark.parametrize("protocol", ["chat", "responses"])
def test_a_used_up_quota_does_not_come_back_by_waiting(provider: FakeProvider, protocol: str) -> None:
    provider.play(Status(429, type="insufficient_quota"))
    with pytest.raises(ModelError) as caught:
        ask(agent_over(protocol, provider.url), "invoke", "Where is order 1042?")
    assert caught.value.kind == "environment"


@over_every_protocol
def test_nobody_listening_is_no_fault_of_the_request(protocol: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"http://127.0.0.1:{server.getsockname()[1]}"
    with pytest.raises(ModelError) as caught:
        ask(agent_over(protocol, url), "invoke", "Where is order 1042?")
    assert caught.value.kind in ("transient", "environment")


@over_every_protocol
def test_a_model_that_fails_after_the_approval_leaves_the_pause_resumable(
    provider: FakeProvider, protocol: str, tmp_path: Path
) -> None:
    provider.play(stream(f"{protocol}-parallel"), Status(529, type="overloaded_error"), stream(f"{protocol}-text"))
    ledger = Ledger()
    gate = filters.approval({"refund": True})
    agent = agent_over(
        protocol, provider.url, ledger, filters=[gate], checkpointer=f"sqlite:///{tmp_path / 'threads.db'}"
    )
    paused, _ = ask(agent, "stream", "Refund 1042, please.")
    assert isinstance(paused, Paused)
    with pytest.raises(ModelError):
        agent.resume("t", {paused.approvals[0].id: approve()})
    result = agent.resume("t")
    assert isinstance(result, Completed)
    assert result.answer == TEXT
    assert sorted(map(repr, ledger.calls)) == sorted(map(repr, CALLS))
    assert_valid(provider.bodies[-1])
