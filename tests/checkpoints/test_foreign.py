"""LangChain's gate on our saver: an approval for each call, decided one by one, carried back by `command_for`."""

from __future__ import annotations

from typing import Any, Literal

import pytest
from checkpoints.databases import everywhere, sync_kinds
from checkpoints.foreign_graphs import CONFIG, START_WITH, Desk, run, run_in, statuses
from langchain_core.messages import HumanMessage
from langgraph.types import Command
from modes import MODES, Mode
from pydantic import ValidationError

from scallion import Inbox, approve, edit, reject, respond
from scallion.errors import AlreadyDecided, DecisionError, InvalidDecision, NotPaused, UnknownApproval
from scallion.sql.saver import SQLCheckpointer
from scallion.values import Approval

Gate = Literal["batched", "per_call"]
GATES: tuple[Gate, ...] = ("batched", "per_call")
gates = pytest.mark.parametrize("gate", GATES)


def asked(saver: SQLCheckpointer) -> dict[str, Approval]:
    """What waits, by tool."""
    return {one.tool or "": one for one in saver.approvals.list(thread="t").items}


@gates
@sync_kinds
def test_each_call_is_an_approval(saver: SQLCheckpointer, gate: Gate) -> None:
    ids = run(Desk(gate=gate).graph(saver), START_WITH)
    found = asked(saver)
    pay, mail = found["pay"], found["mail"]
    assert {one.kind for one in found.values()} == {"tool_call"}
    assert (pay.args, pay.allowed) == ({"euro": 1}, ("approve", "edit", "reject", "respond"))
    assert (mail.args, mail.allowed) == ({"to": "mira"}, ("approve", "reject"))
    assert "Tool: pay" in pay.description
    assert (pay.thread, pay.status) == ("t", "pending")
    if gate == "batched":
        assert [pay.id, mail.id] == [f"{ids[0]}:0", f"{ids[0]}:1"]
    else:
        assert {pay.id, mail.id} == set(ids)
        assert (pay.call_id, mail.call_id) == ("c0", "c1")
    session = saver.sessions.get("t")
    assert session is not None
    assert (session.status, session.pending_count) == ("paused", 2)


@gates
def test_a_single_call_has_the_id_of_its_interrupt(saver: SQLCheckpointer, gate: Gate) -> None:
    desk = Desk([("pay", {"euro": 3})], gate)
    (id,) = run(desk.graph(saver), START_WITH)
    saver.approvals.decide(id, approve())
    assert run(desk.graph(saver), saver.command_for("t")) == []
    assert desk.done == [("pay", 3)]


@gates
@pytest.mark.parametrize("database", ["file", "postgresql"], indirect=True)
@pytest.mark.parametrize("mode", MODES)
async def test_decisions_reach_their_calls(saver: SQLCheckpointer, gate: Gate, mode: Mode) -> None:
    desk = Desk(gate=gate)
    graph = desk.graph(saver)
    await run_in(mode, graph, START_WITH)
    found = asked(saver)
    with Inbox(saver.database.url) as inbox:
        inbox.approvals.decide(found["mail"].id, reject("I call her."), by="ana")
        inbox.approvals.decide(found["pay"].id, edit({"euro": 2}), by="bo")
        command = inbox.command_for("t")
    assert await run_in(mode, graph, command) == []
    assert desk.done == [("pay", 2)]
    assert "I call her." in desk.answer(graph)
    assert "paid 2" in desk.answer(graph)
    assert (statuses(saver), saver.status("t")) == (["used", "used"], "idle")
    with pytest.raises(NotPaused):
        await saver.acommand_for("t")
    await saver.aclose()


@gates
def test_a_response_stands_in_for_the_tool(saver: SQLCheckpointer, gate: Gate) -> None:
    desk = Desk([("pay", {"euro": 1}), ("pay", {"euro": 2})], gate)
    graph = desk.graph(saver)
    run(graph, START_WITH)
    first, second = sorted(saver.approvals.list().items, key=lambda one: str(one.args))
    saver.approvals.decide_all({first.id: respond("paid by hand"), second.id: reject()})
    run(graph, saver.command_for("t"))
    assert desk.done == []
    assert desk.answer(graph).startswith("paid by hand / User rejected the tool call")


@gates
@pytest.mark.parametrize(
    ("tool", "decision", "told"),
    [
        ("mail", edit({"to": "x"}), "'edit' is not allowed here; allowed: approve, reject"),
        ("mail", respond("x"), "'respond' is not allowed here"),
        ("pay", {"type": "edit", "edited_action": {"name": "mail", "args": {"to": "x"}}}, "an edit keeps the tool"),
        ("pay", {"type": "edit"}, "an edit needs the whole new arguments"),
        ("pay", {"type": "edit", "args": [1]}, "the arguments of an edit are a mapping"),
        ("pay", respond(None), "a response needs a message"),
        ("pay", respond({"paid": 1}), "the response does not fit"),
        ("pay", {"type": "reject", "message": 5}, "the reason of a rejection is a text"),
        ("pay", {"type": "ignore"}, "a decision is"),
    ],
)
def test_what_langchain_would_refuse_is_not_stored(
    saver: SQLCheckpointer, gate: Gate, tool: str, decision: Any, told: str
) -> None:
    run(Desk(gate=gate).graph(saver), START_WITH)
    with pytest.raises(InvalidDecision, match=told):
        saver.approvals.decide(asked(saver)[tool].id, decision)
    assert statuses(saver) == ["pending", "pending"]


def test_an_edit_fits_the_schema_of_the_tool(saver: SQLCheckpointer) -> None:
    run(Desk(gate="per_call").graph(saver), START_WITH)
    pay = asked(saver)["pay"]
    assert pay.args_schema is not None
    assert pay.args_schema["required"] == ["euro"]
    for wrong in ({"euro": "many"}, {}, {"euro": 1, "dollar": 2}):
        with pytest.raises(InvalidDecision):
            saver.approvals.decide(pay.id, edit(wrong))
    saver.approvals.decide(pay.id, edit({"euro": 2, "to": "bo"}))


def test_a_batch_goes_on_when_all_of_it_is_decided(saver: SQLCheckpointer) -> None:
    desk = Desk()
    graph = desk.graph(saver)
    run(graph, START_WITH)
    found = asked(saver)
    with pytest.raises(DecisionError, match=r"'t' waits for 2 decision"):
        saver.command_for("t")
    saver.approvals.decide(found["mail"].id, approve())
    with pytest.raises(DecisionError, match=r"'t' waits for 1 decision"):
        saver.command_for("t")
    saver.approvals.decide(found["pay"].id, reject("no"))
    (given,) = saver.approvals.answers("t").values()
    assert given == {"decisions": [{"type": "reject", "message": "no"}, {"type": "approve"}]}


def test_per_call_goes_on_with_what_is_decided(saver: SQLCheckpointer) -> None:
    desk = Desk(gate="per_call")
    graph = desk.graph(saver)
    run(graph, START_WITH)
    found = asked(saver)
    saver.approvals.decide(found["mail"].id, approve())
    assert run(graph, saver.command_for("t")) == [found["pay"].id]
    assert desk.done == [("mail", "mira")]
    assert saver.approvals.get(found["mail"].id).status == "used"
    assert saver.status("t") == "paused"
    saver.approvals.decide(found["pay"].id, approve())
    assert run(graph, saver.command_for("t")) == []
    assert desk.done == [("mail", "mira"), ("pay", 1)]


@gates
@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
def test_no_durability_loses_an_approval(saver: SQLCheckpointer, gate: Gate, durability: str) -> None:
    desk = Desk(gate=gate)
    graph = desk.graph(saver)
    run(graph, START_WITH, durability=durability)
    for one in saver.approvals.list().items:
        saver.approvals.decide(one.id, approve())
    assert run(graph, saver.command_for("t"), durability=durability) == []
    assert sorted(desk.done) == [("mail", "mira"), ("pay", 1)]
    assert (statuses(saver), saver.status("t")) == (["used", "used"], "idle")


@everywhere
async def test_in_one_loop(saver: SQLCheckpointer) -> None:
    desk = Desk()
    graph = desk.graph(saver)
    await graph.ainvoke(START_WITH, CONFIG)
    with pytest.raises(DecisionError):
        await saver.acommand_for("t")
    for one in (await saver.approvals.alist()).items:
        await saver.approvals.adecide(one.id, approve())
    await graph.ainvoke(await saver.acommand_for("t"), CONFIG)
    assert sorted(desk.done) == [("mail", "mira"), ("pay", 1)]
    with pytest.raises(NotPaused):
        await saver.acommand_for("t")
    await saver.aclose()


def test_turns_follow_each_other(saver: SQLCheckpointer) -> None:
    desk = Desk([("pay", {"euro": 1})])
    graph = desk.graph(saver)
    seen: set[str] = set()
    for turn in range(1, 4):
        desk.done.clear()
        saver.delete_thread("other")
        fresh = {"configurable": {"thread_id": f"t{turn}"}}
        graph.invoke(START_WITH, fresh)
        (one,) = saver.approvals.list(thread=f"t{turn}").items
        seen.add(one.id)
        saver.approvals.decide(one.id, approve())
        graph.invoke(saver.command_for(f"t{turn}"), fresh)
        assert desk.done == [("pay", 1)]
    assert len(seen) == 3


# What races and people do.


@gates
def test_a_raw_command_uses_the_approvals(saver: SQLCheckpointer, gate: Gate) -> None:
    desk = Desk(gate=gate)
    graph = desk.graph(saver)
    ids = run(graph, START_WITH)
    first, second = saver.approvals.list().items
    saver.approvals.decide(first.id, reject("no"), by="ana")
    batch = {"decisions": [{"type": "approve"}] * 2}
    run(graph, Command(resume={id: batch if gate == "batched" else {"type": "approve"} for id in ids}))
    assert statuses(saver) == ["used", "used"]
    assert len(desk.done) == 2
    with pytest.raises(AlreadyDecided) as late:
        saver.approvals.decide(second.id, approve())
    assert (late.value.status, late.value.by) == ("used", None)
    with pytest.raises(NotPaused):
        saver.command_for("t")


@gates
def test_a_new_message_supersedes(saver: SQLCheckpointer, gate: Gate) -> None:
    graph = Desk(gate=gate).graph(saver)
    run(graph, START_WITH)
    first, _ = saver.approvals.list().items
    saver.approvals.decide(first.id, approve())
    run(graph, {"messages": [HumanMessage("never mind")]})
    old = [one for one in saver.approvals.list(None).items if one.id == first.id]
    assert [one.status for one in old] == ["superseded"]
    with pytest.raises(AlreadyDecided):
        saver.approvals.decide(first.id, reject())
    with pytest.raises((NotPaused, DecisionError)):
        saver.command_for("t")


@gates
def test_the_second_decision_and_the_way_back(saver: SQLCheckpointer, gate: Gate) -> None:
    graph = Desk(gate=gate).graph(saver)
    run(graph, START_WITH)
    first, second = saver.approvals.list().items
    saver.approvals.decide_all({first.id: approve(), second.id: approve()}, by="ana")
    with pytest.raises(AlreadyDecided, match="by ana"):
        saver.approvals.decide(first.id, reject(), by="bo")
    assert saver.approvals.withdraw(first.id).status == "pending"
    saver.approvals.decide(first.id, reject("no"), by="bo")
    assert {"type": "reject", "message": "no"} in _flat(saver.approvals.answers("t"))


def _flat(values: dict[str, Any]) -> list[Any]:
    return [one for value in values.values() for one in value.get("decisions", [value])]


@gates
def test_a_copy_is_decided_by_itself(saver: SQLCheckpointer, gate: Gate) -> None:
    desk = Desk(gate=gate)
    graph = desk.graph(saver)
    run(graph, START_WITH)
    first, second = saver.approvals.list().items
    saver.copy_thread("t", "copy")
    with pytest.raises(UnknownApproval):
        saver.approvals.decide(first.id, approve())
    saver.approvals.decide_all({first.id: approve(), second.id: reject()}, thread="copy")
    with pytest.raises(DecisionError):
        saver.command_for("t")
    graph.invoke(saver.command_for("copy"), {"configurable": {"thread_id": "copy"}})
    assert len(desk.done) == 1
    assert (statuses(saver, "copy"), statuses(saver)) == (["used", "used"], ["pending", "pending"])


@gates
def test_an_owner_answers_for_what_is_his(saver: SQLCheckpointer, gate: Gate) -> None:
    graph = Desk(gate=gate).graph(saver)
    graph.invoke(START_WITH, CONFIG | {"metadata": {"owner": "u1"}})
    his, theirs = saver.approvals.for_owner("u1"), saver.approvals.for_owner("u2")
    his.decide_all({one.id: approve() for one in his.list().items})
    assert his.answers("t")
    with pytest.raises(NotPaused):
        theirs.answers("t")


def test_a_failed_tool_leaves_the_decision(saver: SQLCheckpointer) -> None:
    """What the schema does not say, the tool's own validation does: the answer is not saved, and another one is."""
    desk = Desk([("pay", {"euro": 1})], "per_call")
    graph = desk.graph(saver)
    (id,) = run(graph, START_WITH)
    with pytest.raises(ValidationError):
        run(graph, Command(resume={id: {"type": "edit", "edited_action": {"name": "pay", "args": {"euro": "x"}}}}))
    assert (statuses(saver), saver.status("t")) == (["pending"], "paused")
    saver.approvals.decide(id, approve())
    assert run(graph, saver.command_for("t")) == []
    assert desk.done == [("pay", 1)]
