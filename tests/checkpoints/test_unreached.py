"""A question whose step was never stored: the graph does not stand there, and nobody decides what it will not take."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, TypedDict

import pytest
from checkpoints.databases import one_of_each
from checkpoints.foreign_graphs import CONFIG, statuses
from langgraph.graph import START, StateGraph
from langgraph.types import Interrupt, interrupt

from scallion import respond
from scallion.errors import DecisionError, NotSerializable
from scallion.sql.saver import SQLCheckpointer


class Strange:
    """What no saver stores."""


class State(TypedDict, total=False):
    city: str
    strange: Any
    paid: bool


def trips(saver: SQLCheckpointer, value: Any) -> Any:
    """Asks, makes a value that may be strange, and asks again behind it."""
    graph = StateGraph(State)
    graph.add_node("plan", lambda state: {"city": interrupt("Where to?"), "strange": value})
    graph.add_node("release", lambda state: {"paid": interrupt("Pay 396?")})
    graph.add_edge(START, "plan")
    graph.add_edge("plan", "release")
    return graph.compile(checkpointer=saver)


def refused(saver: SQLCheckpointer, *, is_async: bool) -> None:
    """Answer the first question, where what comes of it cannot be stored."""
    broken = trips(saver, Strange())
    broken.invoke({}, CONFIG)
    saver.approvals.decide(saver.approvals.list().items[0].id, respond("Oslo"))
    given = saver.command_for("t")
    run = (lambda: asyncio.run(broken.ainvoke(given, CONFIG))) if is_async else lambda: broken.invoke(given, CONFIG)
    with pytest.raises(NotSerializable):
        run()


def unreached(saver: SQLCheckpointer) -> Iterator[str]:
    """The ids of the open questions that the graph does not wait for."""
    waits = {one.id for one in trips(saver, None).get_state(CONFIG).interrupts}
    return (
        one.id
        for one in saver.approvals.list(None).items
        if one.status in ("pending", "decided") and one.id not in waits
    )


def ahead(saver: SQLCheckpointer) -> str:
    """The question of the step behind the one that the thread stands at, as where its checkpoint was refused."""
    at = {"thread_id": "t", "checkpoint_ns": "", "checkpoint_id": "f" * 36}
    saver.put_writes({"configurable": at}, [("__interrupt__", [Interrupt("Pay 396?", id="ahead")])], "task")
    return "ahead"


@one_of_each
@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
def test_the_inbox_has_what_the_graph_waits_for(saver: SQLCheckpointer, is_async: bool) -> None:
    """Whether the question behind the refused step was stored is a matter of luck."""
    refused(saver, is_async=is_async)
    waits = {one.id for one in trips(saver, None).get_state(CONFIG).interrupts}
    shown = [*saver.approvals.list().items, *saver.approvals.list("decided").items]
    assert {one.id for one in shown} == waits
    for id in unreached(saver):
        with pytest.raises(DecisionError, match="is not stored"):
            saver.approvals.decide(id, respond(True))


@one_of_each
def test_a_question_ahead_of_its_step_is_not_to_be_decided(saver: SQLCheckpointer) -> None:
    graph = trips(saver, "plain")
    graph.invoke({}, CONFIG)
    (first,) = saver.approvals.list().items
    id = ahead(saver)
    assert [one.id for one in saver.approvals.list().items] == [first.id]
    assert (saver.status("t"), saver.sessions.get("t").pending_count) == ("paused", 1)  # type: ignore[union-attr]
    with pytest.raises(DecisionError, match="is not stored"):
        saver.approvals.decide(id, respond(True))
    saver.approvals.decide(first.id, respond("Oslo"))
    graph.invoke(saver.command_for("t"), CONFIG)
    assert [one.description for one in saver.approvals.list().items] == ["Pay 396?"]


def test_a_thread_is_not_paused_by_it(saver: SQLCheckpointer) -> None:
    """Neither before its step is stored, nor as it fails; when the step comes, it is."""
    at = {"thread_id": "t", "checkpoint_ns": "", "checkpoint_id": "1"}
    saver.put_writes({"configurable": at}, [("__interrupt__", [Interrupt("Pay?", id="q")])], "task")
    assert (saver.status("t"), saver.approvals.list().items) == ("idle", [])
    saver.put_writes({"configurable": at}, [("__error__", "broken")], "other")
    assert saver.status("t") == "failed"
    step = {"v": 1, "id": "1", "ts": "now", "channel_values": {}, "channel_versions": {}, "versions_seen": {}}
    saver.put({"configurable": {"thread_id": "t", "checkpoint_ns": ""}}, step, {"source": "loop", "step": 1}, {})  # type: ignore[arg-type]
    assert (saver.status("t"), [one.id for one in saver.approvals.list().items]) == ("paused", ["q"])
    saver.approvals.decide("q", respond("yes"))
    assert statuses(saver) == ["decided"]


def test_the_doctor_closes_it(database: str) -> None:
    now = datetime(2030, 1, 1, tzinfo=UTC)
    with SQLCheckpointer(database, clock=lambda: now) as saver:
        trips(saver, "plain").invoke({}, CONFIG)
        id = ahead(saver)
        now += timedelta(minutes=2)
        (found,) = saver.doctor.examine("t")
        assert (found.kind, found.subject) == ("approval_without_pause", id)
        saver.doctor.repair("t")
        assert saver.doctor.examine("t") == []
        assert statuses(saver) == ["pending", "superseded"]
