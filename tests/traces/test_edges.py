"""Traces of turns that end otherwise than with an answer, and of those with more than is told."""

from __future__ import annotations

import asyncio
import gc
import logging
import time
import weakref
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from modes import Drive
from scenes import Desk, asks, call
from traces.drawings import drawn

from scallion import (
    Agent,
    Filter,
    FilterError,
    LimitExceeded,
    Limits,
    SQLCheckpointer,
    ThreadError,
    around_chat,
    around_tool,
    filters,
    reject,
)
from scallion.loop.invocation import invocation
from scallion.testing import Recording, ScriptedModel
from scallion.tracing import recorder
from scallion.tracing.recorder import SPANS


def test_a_layer_that_raises_is_named(drive: Drive, sql: SQLCheckpointer) -> None:
    """The part has the class of the error that left, the layer that of its own."""

    @around_chat
    def broken(request: Any, state: Any, next: Any) -> Any:
        next(request)
        raise KeyError("secret")

    agent = Agent(ScriptedModel(["x"]), filters=[Recording(), broken], checkpointer=sql)
    with pytest.raises(FilterError):
        drive(agent).start("?", thread="t")
    trace = agent.session("t").trace()
    assert (trace.status, trace.parts[0].error) == ("failed", "FilterError")
    assert drawn(trace)[1:] == [
        "  attempt 1 error KeyError",
        "    layer broken error KeyError [raised]",
        "      model scripted",
    ]


def test_a_layer_whose_error_is_ignored(drive: Drive) -> None:
    """The call goes on without it, and it says so."""

    def broken(request: Any, state: Any, next: Any) -> Any:
        raise KeyError("secret")

    layer = Filter("broken", around_chat=broken, on_error="ignore")
    result, _ = drive(Agent(ScriptedModel(["x"]), filters=[layer])).start("?")
    assert drawn(result.trace)[2:] == ["    layer broken [ignored_error]", "      model scripted"]


def test_a_limit_ends_a_turn(drive: Drive, sql: SQLCheckpointer) -> None:
    """The calls that were made are in its trace."""
    model = ScriptedModel([asks(call("refund", order=1)), asks(call("refund", order=2)), "no"])
    agent = Agent(model, tools=Desk().tools, checkpointer=sql, limits=Limits(model_calls=2))
    with pytest.raises(LimitExceeded):
        drive(agent).start("?", thread="t")
    trace = agent.session("t").trace()
    assert (trace.status, trace.parts[0].error) == ("failed", "LimitExceeded")
    assert [len(trace.of("model")), len(trace.of("tool"))] == [2, 2]


def test_a_rejected_call_did_not_run(drive: Drive, sql: SQLCheckpointer) -> None:
    """The gate says what was decided, and there is no tool in it."""
    model = ScriptedModel([asks(call("refund", order=1)), "no"])
    agent = Agent(model, tools=Desk().tools, filters=[filters.approval({"refund": True})], checkpointer=sql)
    drive(agent).start("?", thread="t")
    result, _ = drive(agent).resume("t", reject("never"))
    assert drawn(result.trace)[5:] == [
        "  attempt 1",
        "    layer approval [reject, short_circuit]",
        "    model scripted",
    ]


def test_a_rule_is_told(drive: Drive, sql: SQLCheckpointer) -> None:
    """What was said beforehand is as good as a decision."""
    sql.rules.add("refund", by="ana")
    model = ScriptedModel([asks(call("refund", order=1)), "done"])
    agent = Agent(model, tools=Desk().tools, filters=[filters.approval({"refund": True})], checkpointer=sql)
    result, _ = drive(agent).start("?", thread="t")
    assert [one.actions for one in result.trace.of("layer")] == [("allow_by_rule",)]


def test_guards_are_told(drive: Drive) -> None:
    """What they found and where, by type and number."""
    guard = filters.pii("email")
    result, _ = drive(Agent(ScriptedModel(["write to b@example.org"]), filters=[guard])).start("I am a@example.org")
    told = {(action, change) for one in result.trace.of("layer") for action in one.actions for change in one.change}
    assert ("redact", "input: email 1") in told
    assert ("redact", "output: email 1") in told


def test_a_tool_that_times_out(drive: Drive) -> None:
    """Its span ends when nobody waits any more."""

    async def slow(order: int) -> str:
        """Take long."""
        await asyncio.sleep(30)
        return "late"

    model = ScriptedModel([asks(call("slow", order=1)), "done"])
    result, _ = drive(Agent(model, tools=[slow], filters=[filters.timeout(0.05)])).start("?")
    [tool] = result.trace.of("tool")
    assert tool.status in ("cancelled", "error")
    assert tool.seconds < 10


async def test_a_cancelled_turn(sql: SQLCheckpointer) -> None:
    """An `ainvoke` that is cancelled leaves what it did so far."""
    begun = asyncio.Event()

    async def slow(order: int) -> str:
        """Take long, the first time."""
        if not begun.is_set():
            begun.set()
            await asyncio.sleep(30)
        return "late"

    agent = Agent(ScriptedModel([asks(call("slow", order=1)), "done"]), tools=[slow], checkpointer=sql)
    task = asyncio.ensure_future(agent.ainvoke("?", thread="t"))
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    trace = await agent.session("t").atrace()
    assert (trace.status, trace.parts[0].error) == ("cancelled", "CancelledError")
    assert [one.kind for one in trace.walk()][:2] == ["attempt", "model"]
    result = await agent.aresume("t")
    assert [part.status for part in result.trace.parts] == ["cancelled", "completed"]


def test_a_turn_that_is_cancelled_from_outside(sql: SQLCheckpointer) -> None:
    """It stops before its next call."""

    def stops(order: int) -> str:
        """Cancel the turn."""
        agent.cancel("t")
        return "ok"

    agent = Agent(ScriptedModel([asks(call("stops", order=1)), "done"]), tools=[stops], checkpointer=sql)
    with pytest.raises(ThreadError):
        agent.invoke("?", thread="t")
    trace = agent.session("t").trace()
    assert trace.status == "cancelled"
    assert [one.name for one in trace.of("tool")] == ["stops"]


def test_a_closed_stream(sql: SQLCheckpointer) -> None:
    """What was done until then is kept."""

    @around_chat
    def waits(request: Any, state: Any, next: Any) -> Any:
        """For the reader to leave: the turn does not wait for it."""
        here, end = invocation(), time.monotonic() + 20
        while request.messages[-1].type == "tool" and not here.cancelled and time.monotonic() < end:
            time.sleep(0.001)
        return next(request)

    model = ScriptedModel([asks(call("refund", order=1)), "done"])
    agent = Agent(model, tools=Desk().tools, filters=[waits], checkpointer=sql)
    for event in agent.stream("?", thread="t"):
        if type(event).__name__ == "ToolFinished":
            break
    del event
    gc.collect()
    trace = agent.session("t").trace()
    assert trace.status == "cancelled"
    assert [one.name for one in trace.of("tool")] == ["refund"]


def test_no_more_spans_than_a_part_may_have(drive: Drive) -> None:
    """The others are counted."""
    many = SPANS + 20

    @around_tool
    def often(request: Any, state: Any, next: Any) -> Any:
        for _ in range(many):
            reply = next(request)
        return reply

    model = ScriptedModel([asks(call("look", order=1)), "done"])
    result, _ = drive(Agent(model, tools=Desk().tools, filters=[often])).start("?")
    assert sum(1 for _ in result.trace.walk()) <= SPANS
    assert result.trace.parts[0].omitted == many + 4 - SPANS


def test_no_message_is_kept_alive() -> None:
    """A result that keeps only its trace keeps nothing else."""

    @around_chat
    def other(request: Any, state: Any, next: Any) -> Any:
        return next(request.replace(messages=[*request.messages, HumanMessage("more")]))

    seen: list[Any] = []

    def answers(messages: Any) -> AIMessage:
        message = AIMessage("x" * 1000)
        seen.extend(weakref.ref(one) for one in (*messages, message))
        return message

    trace = Agent(ScriptedModel([answers]), filters=[other]).invoke("?").trace
    gc.collect()
    assert trace.of("layer")
    assert [one() for one in seen if one() is not None] == []


def test_a_trace_that_fails_fails_no_turn(
    drive: Drive, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """What was recorded is there, and the log says that something is missing, without its text."""

    def broken(before: Any, after: Any) -> Any:
        raise RuntimeError("secret")

    monkeypatch.setattr(recorder, "difference", broken)

    @around_chat
    def other(request: Any, state: Any, next: Any) -> Any:
        return next(request.replace(messages=[*request.messages, HumanMessage("more")]))

    with caplog.at_level(logging.WARNING):
        result, _ = drive(Agent(ScriptedModel(["x"]), filters=[other])).start("?")
    assert result.answer == "x"
    assert [one.kind for one in result.trace.walk()] == ["attempt", "model"]
    assert "RuntimeError" in caplog.text
    assert "secret" not in caplog.text


def test_it_stands_beside_telemetry_and_recording(drive: Drive) -> None:
    """`otel` is told of the same layers as without a trace."""
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    retry, recording = filters.retry_model(max_retries=1, initial_delay=0), Recording()
    model = ScriptedModel([TimeoutError(), "x"])
    agent = Agent(model, filters=[filters.otel(tracer_provider=provider), retry, recording])
    result, _ = drive(agent).start("?")
    events = [event.attributes["scallion.action"] for span in exporter.get_finished_spans() for event in span.events]
    assert events == ["retry"]
    assert len(recording.chats) == 2
    assert [one.actions for one in result.trace.of("layer")] == [("retry",)]
