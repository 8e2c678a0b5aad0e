"""Turns of an Agent over the real clients: texts, reasoning, parallel calls, refusals, in all four modes."""

from __future__ import annotations

import json
from collections import defaultdict

import pytest

from scallion import Completed
from scallion.events import Reasoning, ToolCallDelta, ToolFinished

from .clients import PROTOCOLS
from .desk import MODES, STREAMED, Ledger, agent_over, ask, text_of
from .history import assert_valid, items_of, results_of, users_of
from .replies import CALLS, REASONING, TEXT, stream
from .server import FakeProvider, Stream

over_every_protocol = pytest.mark.parametrize("protocol", PROTOCOLS)
where_reasoning_is_told = pytest.mark.parametrize("protocol", ["responses", "messages"])
in_every_mode = pytest.mark.parametrize("mode", MODES)
in_streams = pytest.mark.parametrize("mode", STREAMED)


@over_every_protocol
@in_every_mode
def test_the_answer_is_the_text_and_the_tokens_join_to_it(provider: FakeProvider, protocol: str, mode: str) -> None:
    provider.play(stream(f"{protocol}-text"))
    result, events = ask(agent_over(protocol, provider.url), mode, "Where is order 1042?")
    assert isinstance(result, Completed)
    assert result.answer == TEXT
    assert not events or text_of(events) == TEXT
    assert_valid(provider.bodies[0])
    assert [kind for kind, _ in items_of(provider.bodies[0])] == ["system", "user"]


@over_every_protocol
@in_streams
def test_a_streamed_turn_asks_the_provider_for_a_stream(provider: FakeProvider, protocol: str, mode: str) -> None:
    provider.play(stream(f"{protocol}-text"))
    ask(agent_over(protocol, provider.url), mode, "Where is order 1042?")
    assert provider.requests[0].streaming


@over_every_protocol
@in_streams
@pytest.mark.parametrize("setting", [{"disable_streaming": True}, {"streaming": False}], ids=str)
def test_a_client_that_must_not_stream_gives_its_answer_in_one_piece(
    provider: FakeProvider, protocol: str, mode: str, setting: dict[str, bool]
) -> None:
    provider.play(stream(f"{protocol}-parallel"), stream(f"{protocol}-text"))
    ledger = Ledger()
    result, events = ask(agent_over(protocol, provider.url, ledger, settings=setting), mode, "Refund 1042, please.")
    assert isinstance(result, Completed)
    assert result.answer == TEXT
    assert text_of(events).endswith(TEXT)
    assert len(ledger.calls) == len(CALLS)
    assert not any(request.streaming for request in provider.requests)


@where_reasoning_is_told
@in_streams
def test_reasoning_is_told_apart_from_the_answer(provider: FakeProvider, protocol: str, mode: str) -> None:
    provider.play(stream(f"{protocol}-reasoning"))
    result, events = ask(agent_over(protocol, provider.url), mode, "May I return it?")
    assert isinstance(result, Completed)
    assert text_of(events, Reasoning) == REASONING
    assert text_of(events) == result.answer == "Too late."


@where_reasoning_is_told
@in_every_mode
def test_reasoning_goes_back_to_the_provider_as_it_came(provider: FakeProvider, protocol: str, mode: str) -> None:
    provider.play(stream(f"{protocol}-reasoning-call"), stream(f"{protocol}-text"))
    ask(agent_over(protocol, provider.url, Ledger()), mode, "May I return it?")
    [block] = [block for kind, block in items_of(provider.bodies[1]) if kind == "reasoning"]
    kept = block["signature"] if protocol == "messages" else block["encrypted_content"]
    assert kept == ("c2lnbmF0dXJlLXR3bw==" if protocol == "messages" else "b3BhcXVl")


@where_reasoning_is_told
@in_every_mode
def test_reasoning_goes_back_without_tools_too(provider: FakeProvider, protocol: str, mode: str) -> None:
    provider.play(stream(f"{protocol}-reasoning"), stream(f"{protocol}-text", turn=2))
    thinking = {"thinking": {"type": "enabled", "budget_tokens": 1024}, "max_tokens": 4096}
    settings = thinking if protocol == "messages" else {}
    agent = agent_over(protocol, provider.url, tools=[], settings=settings)
    first, _ = ask(agent, mode, "May I return it?")
    assert isinstance(first, Completed)
    assert first.answer == "Too late."
    ask(agent, mode, "Why?")
    back = [kind for kind, _ in items_of(provider.bodies[1]) if kind not in ("system", "user", "assistant")]
    assert back == (["reasoning", "reasoning", "text"] if protocol == "messages" else ["reasoning", "text"])
    assert '"text": ""' not in json.dumps(provider.bodies[1])


@in_streams
def test_no_empty_text_goes_back_where_a_model_thinks_unasked(provider: FakeProvider, mode: str) -> None:
    events = [event for event in stream("messages-reasoning").events if event.get("index") != 1]
    provider.play(Stream(events), stream("messages-text", turn=2))
    agent = agent_over("messages", provider.url, tools=[])
    ask(agent, mode, "May I return it?")
    ask(agent, mode, "Why?")
    assert [content for kind, content in items_of(provider.bodies[1]) if kind == "text"] == ["Too late."]


@over_every_protocol
@in_every_mode
def test_parallel_calls_run_once_each_and_are_answered_once(provider: FakeProvider, protocol: str, mode: str) -> None:
    provider.play(stream(f"{protocol}-parallel"), stream(f"{protocol}-text"))
    ledger = Ledger()
    result, _ = ask(agent_over(protocol, provider.url, ledger), mode, "Refund 1042, please.")
    assert isinstance(result, Completed)
    assert result.answer == TEXT
    assert sorted(map(repr, ledger.calls)) == sorted(map(repr, CALLS))
    assert_valid(provider.bodies[1])
    assert len(results_of(provider.bodies[1])) == len(CALLS)


@over_every_protocol
@in_streams
def test_argument_deltas_assemble_to_the_arguments(provider: FakeProvider, protocol: str, mode: str) -> None:
    provider.play(stream(f"{protocol}-parallel"), stream(f"{protocol}-text"))
    _, events = ask(agent_over(protocol, provider.url), mode, "Refund 1042, please.")
    names: dict[object, str] = defaultdict(str)
    pieces: dict[object, str] = defaultdict(str)
    for delta in events:
        if isinstance(delta, ToolCallDelta):
            names[delta.index] += delta.name or ""
            pieces[delta.index] += delta.args or ""
    assert [(names[index], json.loads(pieces[index])) for index in pieces] == CALLS
    assert sum(isinstance(event, ToolFinished) for event in events) == len(CALLS)


@over_every_protocol
@in_every_mode
def test_a_refusal_ends_the_turn_and_not_the_thread(provider: FakeProvider, protocol: str, mode: str) -> None:
    provider.play(stream(f"{protocol}-refusal"), stream(f"{protocol}-text", turn=2))
    agent = agent_over(protocol, provider.url)
    refused, _ = ask(agent, mode, "Help me steal it.")
    assert isinstance(refused, Completed)
    assert refused.answer == ""
    answered, _ = ask(agent, mode, "Where is it, then?")
    assert isinstance(answered, Completed)
    assert answered.answer == TEXT
    assert_valid(provider.bodies[1])
    assert len(users_of(provider.bodies[1])) == 2


@over_every_protocol
@in_every_mode
def test_a_second_turn_sends_the_first_one_once(provider: FakeProvider, protocol: str, mode: str) -> None:
    provider.play(*(stream(f"{protocol}-{kind}", turn) for turn in (1, 2) for kind in ("parallel", "text")))
    ledger = Ledger()
    agent = agent_over(protocol, provider.url, ledger)
    ask(agent, mode, "Refund 1042, please.")
    ask(agent, mode, "And again, please.")
    for body in provider.bodies:
        assert_valid(body)
    assert len(ledger.calls) == len(results_of(provider.bodies[-1])) == 2 * len(CALLS)
    assert len(users_of(provider.bodies[-1])) == 2


@over_every_protocol
def test_usage_is_counted_over_all_calls(provider: FakeProvider, protocol: str) -> None:
    provider.play(stream(f"{protocol}-parallel"), stream(f"{protocol}-text"))
    result, _ = ask(agent_over(protocol, provider.url), "stream", "Refund 1042, please.")
    assert isinstance(result, Completed)
    assert (result.usage["input_tokens"], result.usage["output_tokens"]) == (80, 24)
