"""`validate_schema` over the real clients: the provider's own structured output, beside tools, in all four modes."""

from __future__ import annotations

import json
from typing import Any

import pytest
from langchain_core.tools import tool

from scallion import Agent, Completed, ModelError, filters

from .clients import PROTOCOLS, client
from .desk import MODES, Ledger, ask
from .history import assert_valid
from .replies import stream
from .server import FakeProvider, Stream

over_every_protocol = pytest.mark.parametrize("protocol", PROTOCOLS)
in_every_mode = pytest.mark.parametrize("mode", MODES)

SCHEMA = {
    "title": "Order",
    "type": "object",
    "properties": {"order": {"type": "integer"}, "state": {"type": "string", "enum": ["open", "delivered"]}},
    "required": ["order", "state"],
}
GOOD = '{"order": 1042, "state": "delivered"}'
BAD = '{"order": 1042, "state": "Tuesday"}'


def saying(protocol: str, text: str, turn: int = 1) -> Stream:
    """The recorded text answer of that protocol, with other words in it."""
    events = [json.loads(json.dumps(one)) for one in stream(f"{protocol}-text", turn).events]
    left = [text]
    for event in events:
        _say(event, left, text)
    return Stream(events)


def _say(event: dict[str, Any], left: list[str], whole: str) -> None:
    """Put the text into the first piece of text, nothing into the others, and the whole wherever that is repeated."""
    for choice in event.get("choices", ()):
        if choice["delta"].get("content"):
            choice["delta"]["content"] = left.pop() if left else ""
    delta = event.get("delta")
    if isinstance(delta, dict) and delta.get("type") == "text_delta":
        delta["text"] = left.pop() if left else ""
    if event.get("type") == "response.output_text.delta":
        event["delta"] = left.pop() if left else ""
    if event.get("type", "").startswith("response."):
        _replace_texts(event, whole)


def _replace_texts(value: Any, whole: str) -> None:
    if isinstance(value, list):
        for one in value:
            _replace_texts(one, whole)
    elif isinstance(value, dict):
        if value.get("type") in ("output_text", "response.output_text.done") and value.get("text"):
            value["text"] = whole
        for one in value.values():
            _replace_texts(one, whole)


def schema_of(body: dict[str, Any]) -> dict[str, Any] | None:
    """The schema that a request asks the provider for."""
    if "response_format" in body:
        return body["response_format"]["json_schema"]["schema"]
    form = body.get("text", {}).get("format") or body.get("output_config", {}).get("format")
    return form["schema"] if form and form["type"] == "json_schema" else None


def agent_of(protocol: str, url: str, tools: Any, **settings: Any) -> Agent:
    """An agent whose model's profile has structured output."""
    model = client(protocol, url, profile={"structured_output": True}, **settings)
    return Agent(model, tools=tools, filters=[filters.validate_schema(SCHEMA)], checkpointer="sqlite://")


@over_every_protocol
@in_every_mode
def test_the_form_is_asked_for_beside_tools(provider: FakeProvider, protocol: str, mode: str) -> None:
    """The tools are called first; what is not valid all the same goes back."""
    calls = stream(f"{protocol}-parallel")
    provider.play(calls, saying(protocol, BAD, 2), saying(protocol, GOOD, 3))
    ledger = Ledger()
    result, _ = ask(agent_of(protocol, provider.url, ledger.tools()), mode, "Where is it?")
    assert isinstance(result, Completed)
    assert len(ledger.calls) == 3
    assert (result.parsed, result.attempts) == ({"order": 1042, "state": "delivered"}, 2)
    for body in provider.bodies:
        assert schema_of(body)["properties"].keys() == SCHEMA["properties"].keys()
        assert len(body["tools"]) == 2
        assert_valid(body)
    assert '/state: must be one of "open", "delivered"; it is "Tuesday"' in json.dumps(provider.bodies[2]).replace(
        '\\"', '"'
    )


@over_every_protocol
@in_every_mode
def test_the_form_is_asked_for_without_tools(provider: FakeProvider, protocol: str, mode: str) -> None:
    """And the answer is data, streamed or not."""
    provider.play(saying(protocol, GOOD))
    result, _ = ask(agent_of(protocol, provider.url, []), mode, "Where is it?")
    assert result.parsed == {"order": 1042, "state": "delivered"}
    assert schema_of(provider.bodies[0]) is not None


@over_every_protocol
@in_every_mode
def test_a_refusal_is_not_asked_again(provider: FakeProvider, protocol: str, mode: str) -> None:
    """The provider refuses in its own way, and the clients pass that on in theirs."""
    provider.play(stream(f"{protocol}-refusal"))
    result, _ = ask(agent_of(protocol, provider.url, []), mode, "Help me steal it.")
    assert (result.attempts, result.parsed) == (1, None)


@tool
def find(words: str, limit: int = 10) -> str:
    """Find orders; the client of Chat Completions would make `limit` required beside a form."""
    return f"{words} {limit}"


@over_every_protocol
def test_a_tool_that_would_change_beside_a_form_is_left_as_it_is(provider: FakeProvider, protocol: str) -> None:
    """Then the form is checked here only."""
    provider.play(saying(protocol, GOOD))
    result, _ = ask(agent_of(protocol, provider.url, [find]), "invoke", "Where is it?")
    assert result.parsed == {"order": 1042, "state": "delivered"}
    (body,) = provider.bodies
    assert (schema_of(body) is None) is (protocol == "chat")
    sent = body["tools"][0].get("function") or body["tools"][0]
    parameters = sent.get("parameters") or sent["input_schema"]
    assert parameters["required"] == ["words"]


@over_every_protocol
def test_a_client_without_a_profile_is_not_asked(provider: FakeProvider, protocol: str) -> None:
    """Nobody knows whether it can."""
    provider.play(saying(protocol, GOOD))
    agent = Agent(client(protocol, provider.url), filters=[filters.validate_schema(SCHEMA)])
    assert agent.invoke("Where is it?").parsed == {"order": 1042, "state": "delivered"}
    assert schema_of(provider.bodies[0]) is None


@pytest.mark.parametrize("protocol", ["responses", "messages", "chat"])
@in_every_mode
def test_an_answer_that_was_cut_off(provider: FakeProvider, protocol: str, mode: str) -> None:
    """It is not valid, and the model is asked again; the client of Chat Completions raises."""
    cut = saying(protocol, GOOD[:20])
    text = json.dumps(cut.events).replace('"stop_reason": "end_turn"', '"stop_reason": "max_tokens"')
    cut = Stream(json.loads(text.replace('"finish_reason": "stop"', '"finish_reason": "length"')))
    agent = agent_of(protocol, provider.url, [])
    if protocol == "chat":
        provider.play(cut)
        with pytest.raises(ModelError) as failure:
            ask(agent, mode, "Where is it?")
        assert failure.value.kind == "semantic"
        return
    provider.play(cut, saying(protocol, GOOD, 2))
    result, _ = ask(agent, mode, "Where is it?")
    assert (result.parsed["order"], result.attempts) == (1042, 2)
