"""What the real clients make of the streams, without an Agent: the ground on which the model node stands."""

from __future__ import annotations

import json
from functools import reduce
from operator import add
from typing import Any

import pytest
from langchain_core.messages import AIMessage, AIMessageChunk
from langchain_core.runnables import Runnable
from langchain_core.tools import tool

from .clients import PROTOCOLS, client
from .replies import CALLS, REASONING, TEXT, stream
from .server import FakeProvider, Status

over_every_protocol = pytest.mark.parametrize("protocol", PROTOCOLS)


@tool
def look_up(order: int) -> str:
    """Look an order up."""
    raise NotImplementedError


def model_of(protocol: str, provider: FakeProvider) -> Runnable[Any, AIMessage]:
    return client(protocol, provider.url).bind_tools([look_up])


def streamed(model: Runnable[Any, AIMessage]) -> AIMessageChunk:
    return reduce(add, model.stream("hello"))


def calls_of(message: AIMessage) -> list[tuple[str, dict[str, Any]]]:
    return [(call["name"], call["args"]) for call in message.tool_calls]


@over_every_protocol
def test_a_stream_and_its_folded_body_say_the_same(provider: FakeProvider, protocol: str) -> None:
    provider.play(stream(f"{protocol}-text"), stream(f"{protocol}-text"))
    model = model_of(protocol, provider)
    whole, pieces = model.invoke("hello"), streamed(model)
    assert [request.streaming for request in provider.requests] == [False, True]
    assert whole.text == pieces.text == TEXT
    assert whole.usage_metadata == pieces.usage_metadata


@over_every_protocol
def test_parallel_calls_arrive_whole_either_way(provider: FakeProvider, protocol: str) -> None:
    provider.play(stream(f"{protocol}-parallel"), stream(f"{protocol}-parallel"))
    model = model_of(protocol, provider)
    assert calls_of(model.invoke("hello")) == calls_of(streamed(model)) == CALLS


@pytest.mark.parametrize("protocol", ["responses", "messages"])
def test_reasoning_arrives_as_blocks_either_way(provider: FakeProvider, protocol: str) -> None:
    provider.play(stream(f"{protocol}-reasoning"), stream(f"{protocol}-reasoning"))
    model = model_of(protocol, provider)
    for message in (model.invoke("hello"), streamed(model)):
        blocks = [block for block in message.content_blocks if block["type"] == "reasoning"]
        assert [block["reasoning"] for block in blocks] == [REASONING]


@over_every_protocol
@pytest.mark.parametrize("broken", ["dropped", "reset"])
def test_a_broken_stream_raises(provider: FakeProvider, protocol: str, broken: str) -> None:
    provider.play(stream(f"{protocol}-text", cut=8, broken=broken))
    with pytest.raises(Exception, match=r"[Cc]onnection"):
        streamed(model_of(protocol, provider))


@over_every_protocol
def test_a_stream_that_ends_early_in_silence_looks_whole_but_has_no_end_mark(
    provider: FakeProvider, protocol: str
) -> None:
    provider.play(stream(f"{protocol}-text", cut=8, broken="quiet"))
    message = streamed(model_of(protocol, provider))
    assert message.chunk_position == "last"
    assert message.response_metadata.keys().isdisjoint({"finish_reason", "stop_reason", "status"})


def test_half_arguments_are_repaired_to_wrong_ones(provider: FakeProvider) -> None:
    provider.play(stream("messages-parallel", cut=13, broken="quiet"))
    message = streamed(model_of("messages", provider))
    assert calls_of(message) == [("look_up", {"order": 10})]
    with pytest.raises(json.JSONDecodeError):
        json.loads(message.tool_call_chunks[0]["args"] or "")


@over_every_protocol
def test_a_status_carries_its_retry_after(provider: FakeProvider, protocol: str) -> None:
    provider.play(Status(429, retry_after=2.5))
    with pytest.raises(Exception, match="scripted failure") as caught:
        streamed(model_of(protocol, provider))
    assert caught.value.response.headers["retry-after"] == "2.5"  # type: ignore[attr-defined]
