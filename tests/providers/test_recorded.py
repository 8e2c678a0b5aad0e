"""The recorded provider streams of the shared folder, replayed over HTTP to the real clients of an Agent."""

from __future__ import annotations

from itertools import cycle
from typing import Any

import pytest
from langchain_core.tools import StructuredTool

from scallion import Completed
from scallion.errors import ModelError
from scallion.events import ModelFinished, ModelStarted, Token

from .desk import STREAMED, agent_over, ask
from .history import assert_valid, results_of
from .replies import SHARED, TEXT, recorded, stream
from .server import FakeProvider, Stream
from .wire import calls_of, protocol_of, text_of

pytestmark = pytest.mark.shared

FOLDERS = ("openai/src/chat", "openai/src/responses", "openai-compatible", "deepseek", "groq", "xai", "anthropic")
# The client itself fails on these: it takes the `context_management` of the last event for an object that it is not.
CLIENT_FAILS = {"anthropic-clear-thinking.1", "anthropic-clear-tool-uses.1", "anthropic-combined-context-editing.1"}
CLIENT_FAILS |= {"anthropic-compaction.1"}
BROKEN = {"spliced-message-start", "openai-error.1", "parallel-tool-call-wrapper.1"}  # the last one is no JSON


def _paths() -> list[str]:
    found = (path for folder in FOLDERS for path in (SHARED / folder).rglob("*.chunks.txt"))
    return sorted(str(path.relative_to(SHARED)) for path in found)


def _name(path: str) -> str:
    return path.rsplit("/", 1)[-1].removesuffix(".chunks.txt")


PATHS = _paths()
WHOLE = [path for path in PATHS if _name(path) not in CLIENT_FAILS | BROKEN]


@pytest.mark.parametrize(("path", "mode"), list(zip(WHOLE, cycle(STREAMED))), ids=_name)
def test_a_recorded_answer_comes_out_as_it_was_sent(provider: FakeProvider, path: str, mode: str) -> None:
    for number, events in enumerate(recorded(path)):
        protocol = protocol_of(events)
        provider.play(Stream(events), stream(f"{protocol}-text"))
        agent = agent_over(protocol, provider.url)
        result, told = ask(agent, mode, "hello", f"t-{number}")
        assert isinstance(result, Completed)
        first = next(event.call for event in told if isinstance(event, ModelStarted))
        tokens = "".join(event.text for event in told if isinstance(event, Token) and event.call == first)
        assert tokens == text_of(events)

        message = next(event.message for event in told if isinstance(event, ModelFinished))
        calls = [(call["name"], call["args"]) for call in message.tool_calls]
        assert calls == calls_of(events)
        if not message.tool_calls:
            assert result.answer == text_of(events)
            ask(agent, mode, "and then?", f"t-{number}")
        assert_valid(provider.bodies[-1])
        assert len(results_of(provider.bodies[-1])) == len(message.tool_calls)
    assert len(provider.requests) == 2 * (number + 1)


@pytest.mark.parametrize("path", [path for path in PATHS if _name(path) in CLIENT_FAILS], ids=_name)
def test_a_fault_of_the_client_is_a_model_error(provider: FakeProvider, path: str) -> None:
    provider.play(Stream(recorded(path)[0]), stream("messages-text"))
    agent = agent_over("messages", provider.url)
    with pytest.raises(ModelError):
        ask(agent, "stream", "hello")
    result, _ = ask(agent, "stream", "and now?")
    assert isinstance(result, Completed)
    assert result.answer == TEXT


@pytest.mark.parametrize("path", [path for path in PATHS if _name(path) == "openai-error.1"], ids=_name)
def test_a_recorded_failure_for_want_of_quota_is_of_the_environment(provider: FakeProvider, path: str) -> None:
    provider.play(Stream(recorded(path)[0]))
    with pytest.raises(ModelError) as caught:
        ask(agent_over("responses", provider.url), "stream", "hello")
    assert caught.value.kind == "environment"


@pytest.mark.parametrize("path", [path for path in PATHS if _name(path) == "spliced-message-start"], ids=_name)
def test_half_a_call_before_a_second_start_never_runs(provider: FakeProvider, path: str) -> None:
    [events] = recorded(path)
    provider.play(Stream(events), stream("messages-text"))
    ran: list[Any] = []

    def test_tool(**arguments: Any) -> str:
        ran.append(arguments)
        return "done"

    schema = {"type": "object", "properties": {"value": {"type": "string"}}}
    tool = StructuredTool(name="test-tool", description="A tool.", func=test_tool, args_schema=schema)
    agent = agent_over("messages", provider.url, tools=[tool])
    with pytest.raises(ModelError, match="started twice"):
        ask(agent, "stream", "hello")
    assert ran == []
    result, _ = ask(agent, "stream", "and now?")
    assert result.answer == TEXT
    assert_valid(provider.bodies[-1])
