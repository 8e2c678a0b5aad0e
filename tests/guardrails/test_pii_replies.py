"""`pii` and the layers outside of it: what they, or people, make of a reply is clean before it is seen or kept."""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from guardrails.canaries import CALLED, CARD, EMAIL, FETCHED, in_error, in_files, in_values
from langchain_core.messages import HumanMessage, ToolMessage
from langchain_core.tools import tool
from modes import Drive
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from scenes import Desk, asks, call, heard, results

from scallion import Agent, Blocked, Filter, FilterError, Paused, SQLCheckpointer, edit, filters, reject, respond
from scallion.testing import ScriptedModel


def answered(model: ScriptedModel, *around: Filter, **options: Any) -> Agent:
    """An agent whose guard stands inside of these filters."""
    strategy = options.pop("strategy", "redact")
    return Agent(model, tools=Desk().tools, filters=[*around, filters.pii("email", strategy=strategy)], **options)


@filters.around_tool
def signs(request: Any, state: Any, next: Any) -> Any:
    """Adds an address to each result."""
    reply = next(request)
    return reply.replace(message=reply.message.model_copy(update={"content": f"by {FETCHED}", "artifact": [CALLED]}))


@filters.around_tool
def confirms(request: Any, state: Any, next: Any) -> Any:
    """Has a person look at each result."""
    reply = next(request)
    filters.pause("Fine?")
    return reply


@filters.around_chat
def edits(request: Any, state: Any, next: Any) -> Any:
    """Changes the thread in front of the answer, and answers a call of it, as a middleware may."""
    reply = next(request)
    if not reply.message.tool_calls:
        return reply
    stored = [HumanMessage(f"from {EMAIL}"), *request.stored]
    done = [ToolMessage(f"by {FETCHED}", tool_call_id=one["id"], name=one["name"]) for one in reply.message.tool_calls]
    return reply.replace(stored=stored, results=done)


def test_what_a_layer_changes_is_clean_in_the_journal_of_a_pause(
    drive: Drive, sql: SQLCheckpointer, tmp_path: Path
) -> None:
    """And for the layers that stand outside of it."""
    model = ScriptedModel([asks(call("look", order=1)), "Fine."])
    driver = drive(answered(model, confirms, signs, checkpointer=sql))
    paused, _ = driver.start("Look", thread="t")
    assert isinstance(paused, Paused)
    assert in_files(tmp_path) == []
    result, events = driver.resume("t", respond("yes"))
    assert results(result.messages) == ["by [REDACTED_EMAIL]"]
    assert in_values([result, *events, *model.calls]) == []
    assert in_files(tmp_path) == []


def test_what_a_layer_adds_to_thread_and_results_is_clean(drive: Drive, sql: SQLCheckpointer, tmp_path: Path) -> None:
    """`ChatReply.stored` and `ChatReply.results`."""
    model = ScriptedModel([asks(call("look", order=1)), "Fine."])
    result, events = drive(answered(model, edits, checkpointer=sql)).start("Look", thread="t")
    thread = heard(sql_messages(sql))
    assert thread[0] == ("human", "from [REDACTED_EMAIL]")
    assert ("tool", "by [REDACTED_EMAIL]") in thread
    assert in_values([result, *events, *model.calls]) == []
    assert in_files(tmp_path) == []


def sql_messages(sql: SQLCheckpointer) -> list[Any]:
    """The thread as it is stored."""
    return list(Agent(ScriptedModel([]), checkpointer=sql).session("t").messages)


@pytest.mark.parametrize("around", [signs, edits], ids=["tool", "chat"])
def test_what_a_layer_adds_may_be_blocked_and_leaves_no_dead_thread(
    drive: Drive, sql: SQLCheckpointer, tmp_path: Path, around: Filter
) -> None:
    """The next turn works."""
    model = ScriptedModel([asks(call("look", order=1)), "Fine."])
    driver = drive(answered(model, around, checkpointer=sql, strategy="block"))
    with pytest.raises(Blocked):
        driver.start("Look", thread="t")
    assert in_files(tmp_path) == []
    result, _ = driver.start("Again", thread="t")
    assert result.answer == "Fine."
    assert in_values([result, *model.calls]) == []


def test_a_history_that_is_older_than_the_guard_blocks_nothing(
    drive: Drive, sql: SQLCheckpointer, tmp_path: Path
) -> None:
    """What may not pass is taken out of it; what is new is stopped still."""
    Agent(ScriptedModel(["Hello."]), checkpointer=sql).invoke([HumanMessage(f"I am {EMAIL}", id="old")], thread="t")
    model = ScriptedModel(["Well?", "Fine."])
    driver = drive(answered(model, filters.trim(max_messages=50), checkpointer=sql, strategy="block"))
    result, _ = driver.start("Hi", thread="t")
    assert heard(result.messages)[0] == ("human", "I am [REDACTED_EMAIL]")
    assert in_values([result, *model.calls]) == []
    with pytest.raises(Blocked):
        driver.start(f"I am {EMAIL}", thread="t")
    with pytest.raises(Blocked):
        driver.start([HumanMessage(f"I am {EMAIL}", id="old")], thread="t")
    assert driver.start("Hi", thread="t")[0].answer == "Fine."


@dataclass
class Card:
    """Data of a tool that cannot be rebuilt without what is found in it."""

    mail: str

    def __post_init__(self) -> None:
        if "@" not in self.mail:
            raise ValueError("no address")


def deep() -> Any:
    """Lists in lists, deeper than can be walked."""
    value: Any = EMAIL
    for _ in range(2000):
        value = [value]
    return value


@pytest.mark.parametrize("made", [lambda: Card(EMAIL), deep], ids=["not to rebuild", "deep"])
def test_a_tool_that_ran_never_looks_as_if_it_had_not(drive: Drive, sql: SQLCheckpointer, made: Any) -> None:
    """Where the guard fails on what it gave, the model is not invited to call it again."""

    @tool(response_format="content_and_artifact")
    def charge() -> tuple[str, Any]:
        """Take money."""
        return "charged", made()

    agent = Agent(
        ScriptedModel([asks(call("charge"))]), tools=[charge], filters=[filters.pii("email")], checkpointer=sql
    )
    with pytest.raises(FilterError, match="filter 'pii' failed in detection") as caught:
        drive(agent).start("Go", thread="t")
    assert in_error(caught.value) == []
    (told,) = results(agent.session("t").messages)
    assert told.startswith("it ran; its result was withheld: filter 'pii' failed in detection")


def test_a_call_that_a_blocked_decision_is_about_did_not_run(drive: Drive, sql: SQLCheckpointer) -> None:
    """The thread says so."""
    for thread, decision in (("a", edit({"to": EMAIL})), ("b", reject(f"ask {EMAIL}"))):
        model = ScriptedModel([asks(call("mail", to="x")), "Fine."])
        agent = answered(model, filters.approval(default=True), checkpointer=sql, strategy="block")
        driver = drive(agent)
        driver.start("Write", thread=thread)
        with pytest.raises(Blocked):
            driver.resume(thread, decision)
        assert results(agent.session(thread).messages) == ["not run: guard 'pii' stopped the turn"]
        assert driver.start("Again", thread=thread)[0].answer == "Fine."


@pytest.mark.parametrize("is_first", [True, False])
def test_logs_and_traces_do_not_hold_what_a_person_typed(
    drive: Drive, sql: SQLCheckpointer, caplog: pytest.LogCaptureFixture, is_first: bool
) -> None:
    """New arguments of an edit, inside and outside of the layer that asks."""
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    watching = [filters.logging(), filters.otel(tracer_provider=provider, capture_content=True)]
    approval = [filters.approval(default=True)]
    stack = [*watching, *approval] if is_first else [*approval, *watching]
    model = ScriptedModel([asks(call("mail", to="x")), "Fine."])
    driver = drive(answered(model, *stack, checkpointer=sql))
    with caplog.at_level(logging.DEBUG):
        driver.start("Write", thread="t")
        driver.resume("t", edit({"to": EMAIL, "body": CARD}))
    spans = json.dumps([dict(one.attributes or {}) for one in exporter.get_finished_spans()], default=str)
    assert EMAIL not in spans + caplog.text
    assert CARD in spans  # which this guard does not look for
    assert CARD in caplog.text
