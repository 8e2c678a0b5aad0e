"""The ledger follows the interrupts of a real graph, whatever happens to them."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from checkpoints.databases import sync_kinds
from checkpoints.graphs_that_ask import Broken, Loop
from langchain_core.messages import HumanMessage
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import Command, interrupt

from scallion import values
from scallion.approvals.payload import payload
from scallion.errors import (
    AlreadyDecided,
    ApprovalExpired,
    DecisionError,
    InvalidDecision,
    UnknownApproval,
)
from scallion.sql.saver import SQLCheckpointer

CONFIG = {
    "configurable": {"thread_id": "t", "api_key": "secret"},
    "metadata": {"owner": "u1", "agent": "desk", "user": "bo"},
}


def ask(saver: SQLCheckpointer, **options: str) -> tuple[Loop, list[str]]:
    loop = Loop(saver)
    result = loop.graph.invoke({"messages": [HumanMessage("pay them")]}, CONFIG, **options)
    return loop, [one.id for one in result["__interrupt__"]]


def counted(saver: SQLCheckpointer) -> dict[str, int]:
    return dict(Counter(one.status for one in saver.approvals.list(None).items))


@sync_kinds
def test_a_pause_is_listed(saver: SQLCheckpointer) -> None:
    _, ids = ask(saver)
    pending = saver.approvals.list()
    assert {one.id for one in pending.items} == set(ids)
    assert {one.description for one in pending.items} == {"pay c0?", "pay c1?"}
    first = pending.items[0]
    assert (first.thread, first.owner, first.requested_by, first.kind) == ("t", "u1", "bo", "question")
    assert first.created_at is not None
    assert first.created_at.utcoffset() is not None
    session = saver.sessions.get("t")
    assert session is not None
    assert (session.status, session.pending_count, session.message_count) == ("paused", 2, 2)
    assert (session.owner, session.agent, session.title) == ("u1", "desk", "pay them")
    assert saver.status("t") == "paused"


@sync_kinds
def test_a_second_question_replaces_the_first(saver: SQLCheckpointer) -> None:
    loop, _ = ask(saver)
    first = next(one for one in saver.approvals.list().items if one.description == "pay c0?")
    loop.graph.invoke(Command(resume={first.id: "yes"}), CONFIG)
    assert saver.approvals.get(first.id).status == "used"
    assert {one.description for one in saver.approvals.list().items} == {"pay c1?", "really?"}


@sync_kinds
def test_an_error_after_the_answer_leaves_it_open(saver: SQLCheckpointer) -> None:
    loop, _ = ask(saver)
    loop.broken = True
    saver.approvals.decide_all({one.id: values.respond("yes") for one in saver.approvals.list().items})
    open_ids = {one.id for one in saver.approvals.list("decided").items if one.description == "pay c1?"}
    with pytest.raises(Broken):
        loop.graph.invoke(Command(resume=dict.fromkeys(open_ids, "yes")), CONFIG)
    assert counted(saver) == {"decided": 2}
    assert saver.status("t") == "paused"
    loop.broken = False
    loop.graph.invoke(None, CONFIG)
    assert {one.description for one in saver.approvals.list("used").items} == {"pay c1?"}


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
def test_the_whole_way(saver: SQLCheckpointer, durability: str) -> None:
    loop, ids = ask(saver, durability=durability)
    while ids:
        result = loop.graph.invoke(Command(resume=dict.fromkeys(ids, "yes")), CONFIG, durability=durability)
        ids = [one.id for one in result.get("__interrupt__", ())]
    assert result["messages"][-1].content == "done"
    assert counted(saver) == {"used": 3}
    session = saver.sessions.get("t")
    assert session is not None
    assert (session.status, session.pending_count, session.preview) == ("idle", 0, "done")


def test_a_new_message_supersedes(saver: SQLCheckpointer) -> None:
    loop, _ = ask(saver)
    loop.graph.invoke({"messages": [HumanMessage("forget it")]}, CONFIG)
    assert counted(saver) == {"superseded": 2, "pending": 2}


def test_an_update_of_the_state_supersedes(saver: SQLCheckpointer) -> None:
    loop, _ = ask(saver)
    loop.graph.update_state(CONFIG, {"messages": [HumanMessage("no")]}, as_node="chat")
    assert counted(saver) == {"superseded": 2}


async def test_the_async_graph_keeps_the_same_ledger(saver: SQLCheckpointer) -> None:
    loop = Loop(saver)
    result = await loop.graph.ainvoke({"messages": [HumanMessage("pay")]}, CONFIG)
    ids = [one.id for one in result["__interrupt__"]]
    assert {one.id for one in (await saver.approvals.alist()).items} == set(ids)
    while ids:
        result = await loop.graph.ainvoke(Command(resume=dict.fromkeys(ids, "yes")), CONFIG)
        ids = [one.id for one in result.get("__interrupt__", ())]
    assert await saver.astatus("t") == "idle"
    assert counted(saver) == {"used": 3}


@sync_kinds
def test_the_first_decision_counts(saver: SQLCheckpointer) -> None:
    _, (first, second) = ask(saver)
    decided = saver.approvals.decide(first, values.respond("yes"), by="ana")
    assert (decided.status, decided.decided_by, decided.decision) == ("decided", "ana", values.respond("yes"))
    with pytest.raises(AlreadyDecided) as refused:
        saver.approvals.decide(first, {"type": "respond", "message": "no"}, by="bo")
    assert (refused.value.by, refused.value.at, refused.value.decision) == ("ana", decided.decided_at, decided.decision)
    assert saver.approvals.withdraw(first).status == "pending"
    with pytest.raises(DecisionError):
        saver.approvals.withdraw(second)
    saver.approvals.decide(first, values.respond("no"), by="bo")
    assert saver.approvals.get(first).decided_by == "bo"


@sync_kinds
def test_none_is_stored_when_one_is_bad(saver: SQLCheckpointer) -> None:
    _, (first, second) = ask(saver)
    with pytest.raises(InvalidDecision):
        saver.approvals.decide_all({first: values.respond("yes"), second: values.approve()})
    with pytest.raises(UnknownApproval):
        saver.approvals.decide_all({first: values.respond("yes"), "nobody": values.respond("yes")})
    assert counted(saver) == {"pending": 2}


def test_an_owner_sees_only_what_is_his(saver: SQLCheckpointer) -> None:
    _, (first, _) = ask(saver)
    theirs, his = saver.approvals.for_owner("u2"), saver.approvals.for_owner("u1")
    assert theirs.list().items == []
    assert len(his.list().items) == 2
    with pytest.raises(UnknownApproval):
        theirs.decide(first, values.respond("yes"))
    assert theirs.close("t", "cancelled") == 0
    assert saver.sessions.for_owner("u2").get("t") is None
    saver.sessions.for_owner("u2").delete("t")
    assert saver.sessions.get("t") is not None


def test_closing_ends_the_pause(saver: SQLCheckpointer) -> None:
    ask(saver)
    assert saver.approvals.close("t", "cancelled") == 2
    assert counted(saver) == {"cancelled": 2}
    assert saver.status("t") == "running"


@sync_kinds
def test_what_a_checkpoint_answers_is_used(saver: SQLCheckpointer) -> None:
    loop, (first, second) = ask(saver)
    saver.approvals.decide(first, values.respond("yes"))
    answering = CONFIG | {"metadata": CONFIG["metadata"] | {"answered": first}}
    loop.graph.invoke({"messages": [HumanMessage("go on")]}, answering)
    assert (saver.approvals.get(first).status, saver.approvals.get(second).status) == ("used", "superseded")
    assert all("answered" not in found.metadata for found in saver.list(CONFIG))


def test_only_what_was_decided_is_answered(saver: SQLCheckpointer) -> None:
    loop, (first, _) = ask(saver)
    answering = CONFIG | {"metadata": CONFIG["metadata"] | {"answered": first}}
    loop.graph.invoke({"messages": [HumanMessage("go on")]}, answering)
    assert saver.approvals.get(first).status == "superseded"


def test_copies_are_told_apart_by_their_thread(saver: SQLCheckpointer) -> None:
    _, (first, _) = ask(saver)
    saver.copy_thread("t", "copy")
    with pytest.raises(UnknownApproval):
        saver.approvals.decide(first, values.respond("yes"))
    assert saver.approvals.decide(first, values.respond("yes"), thread="copy").thread == "copy"
    assert saver.approvals.get(first, thread="t").status == "pending"
    assert saver.approvals.withdraw(first, thread="copy").status == "pending"


def test_pages_follow_each_other(saver: SQLCheckpointer) -> None:
    for n in range(3):
        Loop(saver).graph.invoke({"messages": [HumanMessage("pay")]}, {"configurable": {"thread_id": f"t{n}"}})
    seen, after = [], None
    while True:
        page = saver.approvals.list(limit=2, after=after)
        seen += [one.id for one in page.items]
        if (after := page.next) is None:
            break
    assert len(seen) == len(set(seen)) == 6
    assert [one.thread for one in saver.sessions.list(limit=2).items] == ["t2", "t1"]
    rest = saver.sessions.list(limit=2, after=saver.sessions.list(limit=2).next)
    assert ([one.thread for one in rest.items], rest.next) == (["t0"], None)


def test_expiry_is_checked_by_the_clock(database: str) -> None:
    from datetime import UTC, datetime, timedelta

    from sqlalchemy import update

    from scallion.approvals import payload
    from scallion.approvals.questions import Question
    from scallion.sql.asking import Place
    from scallion.sql.asking import ask as record
    from scallion.sql.clock import to_micros
    from scallion.sql.sessions import claim

    now = datetime(2030, 1, 1, tzinfo=UTC)
    with SQLCheckpointer(database, clock=lambda: now) as saver:
        value = payload.payload("question", "?", ("respond",), expires_in=5)
        t = saver.database.tables

        def write(conn: object) -> None:
            session = claim(conn, t, "t", 0)  # type: ignore[arg-type]
            conn.execute(update(t.sessions).values(head="c"))  # type: ignore[attr-defined]
            record(conn, t, session.no, Place("", "c", "c", "task"), [Question("q", value)], to_micros(now))  # type: ignore[arg-type]

        saver.database.run(write, write=True)
        assert saver.approvals.get("q").expires_at == now + timedelta(seconds=5)
        now += timedelta(seconds=6)
        with pytest.raises(ApprovalExpired):
            saver.approvals.decide("q", values.respond("late"))
        assert saver.approvals.get("q").status == "expired"
        assert [one.status for one in saver.approvals.list("expired").items] == ["expired"]
        assert saver.approvals.list().items == []


def test_secrets_stay_out_of_the_metadata(saver: SQLCheckpointer) -> None:
    ask(saver)
    assert all("api_key" not in found.metadata for found in saver.list(CONFIG))
    kept = SQLCheckpointer("sqlite://", metadata_keys=("tenant",))
    config = {"configurable": {"thread_id": "t", "checkpoint_ns": "", "tenant": "x", "api_key": "secret"}}
    from langgraph.checkpoint.base import empty_checkpoint

    kept.put(config, empty_checkpoint(), {"source": "input", "step": -1, "parents": {}}, {})
    assert dict(kept.get_tuple(config).metadata) == {"source": "input", "step": -1, "parents": {}, "tenant": "x"}  # type: ignore[union-attr]
    kept.close()


@sync_kinds
@pytest.mark.parametrize("problem", ["'yes' is no decision", None])
def test_what_is_asked_again_is_superseded(saver: SQLCheckpointer, problem: str | None) -> None:
    def node(state: MessagesState) -> dict[str, Any]:
        interrupt(payload("question", "Pay?", ("approve",)))
        interrupt(payload("question", "Pay?", ("approve",), problem=problem))
        return {"messages": []}

    builder = StateGraph(MessagesState)
    builder.add_node("node", node)
    builder.add_edge(START, "node")
    graph = builder.compile(checkpointer=saver)
    first = graph.invoke({"messages": []}, CONFIG)["__interrupt__"][0].id
    second = graph.invoke(Command(resume="yes"), CONFIG)["__interrupt__"][0].id
    assert saver.approvals.get(first).status == ("superseded" if problem else "used")
    assert [one.id for one in saver.approvals.list().items] == [second]
    graph.invoke(Command(resume={"type": "approve"}), CONFIG)
    assert saver.approvals.get(second).status == "used"
    assert saver.status("t") == "idle"
