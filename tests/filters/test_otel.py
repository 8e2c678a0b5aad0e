"""`otel`: a tree of spans by the conventions, with what layers did, and without what was said."""

from __future__ import annotations

import json
import logging
import sys
from typing import Any

import pytest
from langchain_core.messages import AIMessage
from modes import Drive
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode
from scenes import Desk, asks, call

from scallion import Agent, ConfigurationError, ModelError, SQLCheckpointer, around_chat, filters
from scallion.testing import ScriptedModel


class Traces:
    """What was exported, in the order in which it ended."""

    def __init__(self) -> None:
        self._exporter = InMemorySpanExporter()
        self.provider = TracerProvider()
        self.provider.add_span_processor(SimpleSpanProcessor(self._exporter))

    @property
    def spans(self) -> list[ReadableSpan]:
        return list(self._exporter.get_finished_spans())

    def named(self, name: str) -> ReadableSpan:
        (found,) = [span for span in self.spans if span.name == name]
        return found

    def acted(self, name: str) -> list[tuple[Any, Any]]:
        found = [event for span in self.spans if span.name == name for event in span.events]
        return [(event.attributes["scallion.filter"], event.attributes["scallion.action"]) for event in found]


@pytest.fixture
def traces() -> Traces:
    return Traces()


class Named(ScriptedModel):
    """A model that tells whose it is."""

    def _get_ls_params(self, stop: Any = None, **kwargs: Any) -> Any:
        return {"ls_provider": "acme", "ls_model_name": "acme-1", "ls_temperature": 0.5, "ls_model_type": "chat"}


USED = {
    "input_tokens": 10,
    "output_tokens": 2,
    "total_tokens": 12,
    "input_token_details": {"cache_read": 4},
}


def test_the_tree_of_a_turn(drive: Drive, traces: Traces, caplog: Any) -> None:
    meta = {"model_name": "acme-1-2026", "finish_reason": "stop", "id": "r-1"}
    model = Named([asks(call("look", order=1)), AIMessage("Here.", usage_metadata=USED, response_metadata=meta)])
    one = filters.otel(agent="desk", tracer_provider=traces.provider)
    with caplog.at_level(logging.WARNING):
        result, _ = drive(Agent(model, tools=Desk().tools, filters=[one])).start("Where is it?", thread="t")
    assert [span.name for span in traces.spans] == [
        "chat acme-1", "execute_tool look", "chat acme-1", "invoke_agent desk",
    ]  # fmt: skip
    first, tool, second, turn = traces.spans
    assert {span.parent.span_id for span in (first, tool, second)} == {turn.context.span_id}
    assert [first.kind, tool.kind, turn.kind] == [SpanKind.CLIENT, SpanKind.INTERNAL, SpanKind.INTERNAL]
    assert dict(second.attributes or {}) == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "acme",
        "gen_ai.request.model": "acme-1",
        "gen_ai.request.temperature": 0.5,
        "gen_ai.conversation.id": "t",
        "gen_ai.response.model": "acme-1-2026",
        "gen_ai.response.id": "r-1",
        "gen_ai.response.finish_reasons": ("stop",),
        "gen_ai.usage.input_tokens": 10,
        "gen_ai.usage.output_tokens": 2,
        "gen_ai.usage.cache_read.input_tokens": 4,
    }
    assert dict(tool.attributes or {}) == {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "look",
        "gen_ai.tool.call.id": "c1",
        "gen_ai.tool.type": "function",
        "gen_ai.conversation.id": "t",
    }
    assert turn.attributes is not None
    assert turn.attributes["gen_ai.operation.name"] == "invoke_agent"
    assert turn.attributes["gen_ai.conversation.id"] == "t"
    assert turn.attributes["scallion.turn"] == result.turn
    assert turn.attributes["gen_ai.usage.input_tokens"] == result.usage["input_tokens"]
    assert not caplog.records


def test_what_layers_did_is_told(drive: Drive, traces: Traces) -> None:
    """A request or reply that is changed, an answer without the model, a second try."""

    @around_chat
    def quiet(request: Any, state: Any, next: Any) -> Any:
        return next(request)

    @around_chat
    def shortens(request: Any, state: Any, next: Any) -> Any:
        return next(request.replace(messages=request.messages[-1:]))

    @around_chat
    def polishes(request: Any, state: Any, next: Any) -> Any:
        return next(request).replace(message=AIMessage("Polished."))

    @around_chat
    def twice(request: Any, state: Any, next: Any) -> Any:
        next(request)
        return next(request)

    stack = [filters.otel(tracer_provider=traces.provider), quiet, shortens, polishes, twice]
    drive(Agent(Named(["a", "b"]), filters=stack)).start("?")
    assert traces.acted("chat acme-1") == [
        ("twice", "retry"),
        ("polishes", "changed_reply"),
        ("shortens", "changed_request"),
    ]
    assert traces.acted("invoke_agent agent") == []


def test_decisions_and_refusals_are_told(drive: Drive, traces: Traces, sql: SQLCheckpointer) -> None:
    gate = filters.approval({"refund": True})
    model = Named([asks(call("refund", order=1)), "Done."])
    stack = [filters.otel(tracer_provider=traces.provider), gate]
    drive(Agent(model, tools=Desk().tools, filters=stack, checkpointer=sql)).finish("Refund.", thread="t")
    asked, ran = [span for span in traces.spans if span.name == "execute_tool refund"]
    before, after = [span for span in traces.spans if span.name == "invoke_agent agent"]
    for span in (asked, before):
        assert span.attributes["scallion.paused"] is True  # type: ignore[index]
        assert span.status.status_code is StatusCode.UNSET
    for span in (ran, after):
        assert span.attributes["scallion.resumed"] is True  # type: ignore[index]
    assert before.attributes["scallion.turn"] == after.attributes["scallion.turn"]  # type: ignore[index]
    assert ("approval", "approve") in traces.acted("execute_tool refund")


def test_errors_are_told_by_kind(drive: Drive, traces: Traces) -> None:
    model = Named([asks(call("fails", "c1")), ValueError("a secret")])

    def fails() -> str:
        """Fail."""
        raise OSError("a secret")

    agent = Agent(model, tools=[fails], filters=[filters.otel(tracer_provider=traces.provider)])
    with pytest.raises(ModelError):
        drive(agent).start("a secret")
    tool, turn = traces.named("execute_tool fails"), traces.named("invoke_agent agent")
    assert tool.status.status_code is turn.status.status_code is StatusCode.ERROR
    assert turn.attributes["error.type"] == "ModelError"  # type: ignore[index]
    assert "secret" not in "".join(span.to_json() for span in traces.spans)


def test_content_is_told_where_you_ask_for_it(drive: Drive, traces: Traces) -> None:
    model = Named([asks(call("look", order=7)), "Here."])
    one = filters.otel(capture_content=True, tracer_provider=traces.provider)
    drive(Agent(model, tools=Desk().tools, filters=[one])).start("Where is 7?")
    _, tool, second, turn = traces.spans
    assert tool.attributes is not None
    assert tool.attributes["gen_ai.tool.call.arguments"] == '{"order": 7}'
    assert tool.attributes["gen_ai.tool.call.result"] == '"order 7 is here"'
    read = json.loads(str(second.attributes["gen_ai.input.messages"]))  # type: ignore[index]
    assert read == [
        {"role": "user", "parts": [{"type": "text", "content": "Where is 7?"}]},
        {"role": "assistant", "parts": [{"type": "tool_call", "id": "c1", "name": "look", "arguments": {"order": 7}}]},
        {"role": "tool", "parts": [{"type": "tool_call_response", "id": "c1", "response": "order 7 is here"}]},
    ]
    said = json.loads(str(turn.attributes["gen_ai.output.messages"]))  # type: ignore[index]
    assert said == [{"role": "assistant", "parts": [{"type": "text", "content": "Here."}]}]


def test_nothing_of_what_is_said_by_default(traces: Traces) -> None:
    model = Named([asks(call("look", order=424242), text="a secret"), "a secret"])
    agent = Agent(model, tools=Desk().tools, filters=[filters.otel(tracer_provider=traces.provider)])
    agent.invoke("a secret", system_prompt="a secret")
    told = "".join(span.to_json() for span in traces.spans)
    assert "secret" not in told
    assert "424242" not in told


def test_without_an_sdk_nothing_is_recorded_and_all_works(drive: Drive) -> None:
    result, _ = drive(Agent(Named(["Hello."]), filters=[filters.otel()])).start("Hi")
    assert result.answer == "Hello."


def test_without_the_extra_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.trace", None)
    with pytest.raises(
        ConfigurationError, match=r"filter 'otel' needs opentelemetry-api: pip install 'scallion\[otel\]'"
    ):
        filters.otel()


def test_what_is_no_provider_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="filter 'spans': tracer_provider is a TracerProvider, not 5"):
        filters.otel(tracer_provider=5, name="spans")
