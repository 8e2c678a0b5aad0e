"""`pii` in streams: what is delivered, however it is cut, is the redaction of the whole; and it is delivered soon."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from guardrails.canaries import ANSWERED, BIG, CALLED, in_values
from langchain_core.messages import AIMessage, AIMessageChunk
from langchain_core.tools import tool
from modes import Drive, delivered
from providers.clients import client
from providers.replies import stream
from providers.server import FakeProvider, Stream
from scenes import whole

from scallion import Agent, Completed, ModelError, ModelFinished, Reasoning, Token, ToolCallDelta, filters
from scallion.pii import Redaction, Rule
from scallion.pii.builtin import BUILTIN
from scallion.testing import BreaksOff, Chunks, ScriptedModel

VECTORS = Path(__file__).parents[3] / "shared" / "data" / "vectors" / "stream_redaction.jsonl"


def rows() -> list[Any]:
    """The rows of the shared vectors; a private key is one of the API keys."""
    text = VECTORS.read_text() if VECTORS.exists() else ""
    found = [json.loads(line) for line in text.replace('"private_key"', '"api_key"').splitlines()]
    return [row for row in found if set(row["kinds"]) <= BUILTIN.keys()]


def streamed(text: str, size: int, *types: str) -> tuple[list[Any], Completed]:
    """The events of an answer whose pieces have this size, and the result."""
    model = ScriptedModel([text], chunk_size=size)
    *events, result = Agent(model, filters=[filters.pii(*types)]).stream("Go")
    return events, result


@pytest.mark.shared
@pytest.mark.parametrize("row", rows(), ids=lambda row: row["id"])
def test_every_chunking_delivers_the_redaction_of_the_whole(row: Any) -> None:
    """STR-04: and no piece on its way shows a secret, not even its first half."""
    types = row["kinds"]
    whole = Redaction([Rule(one) for one in types]).redact(row["text"])[0]
    for size in (1, 3, 7, 64):
        events, result = streamed(row["text"], size, *types)
        assert delivered(events) == result.answer == whole
        assert not any(secret in delivered(events) for secret in row["secrets"])


@pytest.mark.parametrize("text", ["ass isting\n\n\t tokens  \r\n", " ", "\n\n", "a\u00a0b 🙂 ☃ e\u0301"])
def test_what_holds_nothing_is_delivered_byte_for_byte(drive: Drive, text: str) -> None:
    """STR-07, STR-08: spaces and all."""
    guard = filters.pii("email", "credit_card", "ip")
    result, events = drive(Agent(ScriptedModel([text], chunk_size=1), filters=[guard])).start("Go")
    assert result.answer == text
    assert events == [] or delivered(events) == text


def test_the_slowest_hold_decides() -> None:
    """STR-11: a card may still come where an e-mail address is decided, and nothing of it leaves before."""
    text = "to ana@example.com 4111 1111 1111 1111, and so on"
    events, _ = streamed(text, 1, "email", "credit_card")
    tokens = [one.text for one in events if isinstance(one, Token)]
    assert "".join(tokens) == "to [REDACTED_EMAIL] [REDACTED_CREDIT_CARD], and so on"
    assert not any("4" in one for one in tokens)


@pytest.mark.parametrize("first", ["hello", "I ask hello"])
def test_a_block_that_goes_on_with_a_word_waits_for_the_end(drive: Drive, first: str) -> None:
    """Each block is read by itself, too: what only one of them shows is not delivered before that is known."""
    blocks = [
        {"type": "text", "text": first, "index": 0},
        {"type": "text", "text": "4111 1111 1111 1111 ", "index": 1},
        {"type": "text", "text": "is it.", "index": 2},
    ]
    model = ScriptedModel([Chunks(*(AIMessageChunk([block]) for block in blocks))])
    result, events = drive(Agent(model, filters=[filters.pii("credit_card")])).start("Go")
    assert result.answer == f"{first}[REDACTED_CREDIT_CARD] is it."
    assert not any("4111 1111" in whole(event) for event in events)
    assert events == [] or delivered(events) == result.answer


def test_plain_words_leave_with_the_next_piece() -> None:
    """What cannot become anything is not held."""
    events, _ = streamed("one two three four five six", 4, "email", "credit_card", "ip")
    tokens = [one.text for one in events if isinstance(one, Token)]
    assert len(tokens) > 4


def test_nothing_held_leaves_after_an_error(drive: Drive) -> None:
    """The end flushes, an error does not."""
    model = ScriptedModel([BreaksOff(f"I ask {ANSWERED}", OSError("gone"), chunks=4)], chunk_size=4)
    driver = drive(Agent(model, filters=[filters.pii("email")]))
    events: list[Any] = []
    with pytest.raises(ModelError):
        _read(driver.agent, driver.mode, events)
    assert in_values(events) == []
    assert not any("canary" in whole(one) for one in events)


def _read(agent: Agent, mode: str, events: list[Any]) -> None:
    async def read() -> None:
        async for event in agent.astream("Go"):
            events.append(event)

    if mode == "astream":
        asyncio.run(read())
    elif mode == "ainvoke":
        asyncio.run(agent.ainvoke("Go"))
    elif mode == "invoke":
        agent.invoke("Go")
    else:
        for event in agent.stream("Go"):
            events.append(event)


def test_a_model_that_cannot_stream_is_masked_too(drive: Drive) -> None:
    """Its answer comes in one piece, with its calls."""
    call = {"name": "send", "args": {"to": CALLED, "n": BIG}, "id": "c"}
    model = ScriptedModel(
        [AIMessage(f"To {ANSWERED}", tool_calls=[call]), "Done"], chunk_size=1000, disable_streaming=True
    )
    guard = filters.pii("email", "credit_card")
    result, events = drive(Agent(model, tools=[send], filters=[guard])).start("Go")
    assert in_values([result, *events]) == []


@tool
def send(to: str, n: Any = None) -> str:
    """Send."""
    return "sent"


def anthropic() -> Stream:
    """Thinking, a text and a call, cut in the middle of what is to be found, one of them written with an escape."""

    def block(index: int, start: Any, *deltas: Any) -> list[Any]:
        begin = {"type": "content_block_start", "index": index, "content_block": start}
        middle = [{"type": "content_block_delta", "index": index, "delta": one} for one in deltas]
        return [begin, *middle, {"type": "content_block_stop", "index": index}]

    usage = {"input_tokens": 4, "output_tokens": 1}
    about = {"model": "claude-test", "id": "msg_1", "type": "message", "role": "assistant", "content": []}
    head = {"type": "message_start", "message": {**about, "stop_reason": None, "stop_sequence": None, "usage": usage}}
    thought = [
        {"type": "thinking_delta", "thinking": one} for one in ("Ask ", "canary.bob@raw-", "leak.example.org", "?")
    ]
    said = [{"type": "text_delta", "text": one} for one in ("I ask canary.bob@", "raw-leak.example.", "org", " now")]
    parts = ('{"to": "canary.cat\\u00', "40raw-leak.exa", 'mple.net", "n": 55555555', "55554444}")
    called = [{"type": "input_json_delta", "partial_json": one} for one in parts]
    return Stream(
        [
            head,
            *block(0, {"type": "thinking", "thinking": "", "signature": ""}, *thought),
            *block(1, {"type": "text", "text": ""}, *said),
            *block(2, {"type": "tool_use", "id": "toolu_1", "name": "send", "input": {}}, *called),
            {"type": "message_delta", "delta": {"stop_reason": "tool_use", "stop_sequence": None}, "usage": usage},
            {"type": "message_stop"},
        ]
    )


def openai() -> Stream:
    """The same of the chat protocol, without the thoughts."""

    def chunk(delta: Any, end: str | None = None) -> Any:
        about = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "gpt-test"}
        return {**about, "choices": [{"index": 0, "delta": delta, "finish_reason": end}], "usage": None}

    said = [chunk({"content": one}) for one in ("I ask canary.bob@", "raw-leak.example.", "org", " now")]
    function = {"name": "send", "arguments": ""}
    begin = chunk({"tool_calls": [{"index": 0, "id": "call_1", "type": "function", "function": function}]})
    parts = ('{"to": "canary.cat\\u00', "40raw-leak.exa", 'mple.net", "n": 55555555', "55554444}")
    called = [chunk({"tool_calls": [{"index": 0, "function": {"arguments": one}}]}) for one in parts]
    return Stream([chunk({"role": "assistant", "content": ""}), *said, begin, *called, chunk({}, "tool_calls")])


@pytest.mark.parametrize(("protocol", "first"), [("messages", anthropic), ("chat", openai)])
def test_real_clients(drive: Drive, protocol: str, first: Any) -> None:
    """Text, thoughts and arguments of a call: what is streamed is what is stored."""
    guard = filters.pii("email", "credit_card")
    with FakeProvider() as provider:
        provider.play(first(), stream(f"{protocol}-text"))
        agent = Agent(client(protocol, provider.url), tools=[send], filters=[guard])
        result, events = drive(agent).start("Go")
        bodies = provider.bodies
    assert in_values([result, *events, bodies]) == []
    message = result.messages[1]
    assert message.tool_calls[0]["args"] == {"to": "[REDACTED_EMAIL]", "n": "[REDACTED_CREDIT_CARD]"}
    assert message.text == "I ask [REDACTED_EMAIL] now"
    if not events:
        return
    call = next(one.call for one in events if isinstance(one, Token))
    tokens = [one.text for one in events if isinstance(one, Token) and one.call == call]
    assert "".join(tokens) == message.text
    deltas = [one.args or "" for one in events if isinstance(one, ToolCallDelta)]
    assert json.loads("".join(deltas)) == message.tool_calls[0]["args"]
    assert len([one for one in deltas if one]) > 2
    thoughts = "".join(one.text for one in events if isinstance(one, Reasoning))
    assert thoughts == ("Ask [REDACTED_EMAIL]?" if protocol == "messages" else "")
    assert next(one for one in events if isinstance(one, ModelFinished)).message.text == message.text
