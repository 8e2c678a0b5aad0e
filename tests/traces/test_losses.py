"""What a trace keeps where there is too much of it, a value cannot be compared, or a row cannot be read."""

from __future__ import annotations

import asyncio
import copy
import json
from datetime import UTC, datetime
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from modes import Drive
from scenes import Desk, asks, call
from sqlalchemy import update
from traces.drawings import drawn

from scallion import (
    Agent,
    Completed,
    Limits,
    Paused,
    SQLCheckpointer,
    StorageError,
    ToolReply,
    approve,
    around_chat,
    around_tool,
    filters,
)
from scallion.testing import ScriptedModel
from scallion.tracing import Part, Span
from scallion.tracing.compact import BYTES, dump, load
from scallion.tracing.recorder import SPANS

_NOW = datetime(2026, 1, 1, tzinfo=UTC)
PRICES = {"scripted": {"input": 1e6, "output": 1e6}}


class Odd:
    """A value that cannot be compared, as an array."""

    def __eq__(self, other: object) -> bool:
        raise ValueError("ambiguous")

    __hash__ = None  # type: ignore[assignment]


def gated(saver: SQLCheckpointer, **options: Any) -> Agent:
    """An agent whose tool asks a person."""
    model = ScriptedModel([asks(call("refund", order=1)), "Done.", "More."])
    gate = filters.approval({"refund": True})
    return Agent(model, tools=Desk().tools, filters=[gate], checkpointer=saver, **options)


def test_what_began_last_is_left_out_and_its_tokens_are_told(drive: Drive) -> None:
    """The attempt stands around its calls; tokens and costs of calls without a span are in the sums."""
    calls = [call("refund", f"c{number}", order=number) for number in range(SPANS + 20)]
    model = ScriptedModel([asks(*calls), "Done."])

    @around_chat
    def names(request: Any, state: Any, next: Any) -> Any:
        return next(request.replace(settings={"stop": ["x"]}))

    agent = Agent(model, tools=Desk().tools, filters=[names, filters.usage(PRICES)], limits=Limits(tool_calls=5000))
    trace = drive(agent).start("?")[0].trace
    assert [one.name for one in trace.of("attempt")] == ["1"]
    assert len(trace.of("model")) == 1
    assert trace.tokens["output"] > trace.of("model")[0].tokens["output"]
    assert trace.cost == sum(trace.tokens.values())
    assert sum(1 for _ in trace.walk()) == SPANS


def test_a_cut_by_bytes_keeps_the_sums() -> None:
    """And the ids of what was asked do not take the place of spans."""
    inside = [Span("model", "m" * 90, 0.0, 0.0, tokens={"input": 2, "output": 1}, cost=0.5) for _ in range(400)]
    asked = [f"{number:032}" for number in range(2_500)]
    part = load(dump(Part(_NOW, 1.0, "paused", [Span("attempt", "1", 0.0, 1.0, inside=inside)] * 2, asked=asked)))
    assert list(part.asked) == asked
    kept = [one for each in part.spans for one in each.walk() if one.kind == "model"]
    assert len(kept) > 200
    assert part.omitted == 802 - sum(1 for each in part.spans for _ in each.walk())
    assert part.tokens["input"] == 2 * (800 - len(kept))
    assert part.cost == 0.5 * (800 - len(kept))
    assert len(dump(part)) <= BYTES + len(json.dumps(asked, separators=(",", ":")))


def test_what_cannot_be_compared_loses_nothing(drive: Drive) -> None:
    """A layer that rebuilds a message around such a value changed the reply; the calls in it have their spans."""

    @around_chat
    def odd(request: Any, state: Any, next: Any) -> Any:
        reply = next(request)
        return reply.replace(message=reply.message.model_copy(update={"response_metadata": {"logprobs": Odd()}}))

    again = copy.copy(odd)
    again.name = "again"

    @around_tool
    def copies(request: Any, state: Any, next: Any) -> Any:
        reply = next(request)
        return reply.replace(message=reply.message.model_copy(update={"artifact": Odd()}))

    model = ScriptedModel([asks(call("refund", order=1)), "Done."])
    stack = [again, odd, copies, filters.usage(PRICES)]
    trace = drive(Agent(model, tools=Desk().tools, filters=stack)).start("?")[0].trace
    assert [len(trace.of("model")), len(trace.of("tool"))] == [2, 1]
    assert trace.cost == sum(trace.tokens.values()) > 0
    assert {one.name for one in trace.of("layer")} >= {"odd", "again"}


async def test_a_layer_that_does_not_wait_is_told() -> None:
    """One that gives its `next` up and answers itself has answered, and not done nothing."""

    @around_tool
    async def hurried(request: Any, state: Any, next: Any) -> Any:
        task = asyncio.ensure_future(next(request))
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])
        return ToolReply(ToolMessage("too slow", tool_call_id=request.call["id"]))

    async def refund(order: int) -> str:
        """Refund an order."""
        await asyncio.sleep(60)
        return "done"

    model = ScriptedModel([asks(call("refund", order=1)), "Done."])
    trace = (await Agent(model, tools=[refund], filters=[hurried]).ainvoke("?")).trace
    assert [(one.name, list(one.actions)) for one in trace.of("layer")] == [("hurried", ["short_circuit"])]


def test_categories_of_a_model_are_counted(drive: Drive, sql: SQLCheckpointer) -> None:
    """A judge that is a model may write anything there; those of a program's check are named, and cut."""
    said = json.dumps([{"flagged": True, "categories": ["Bob Miller, 4 Elm St"]}])
    judge = filters.llm_judge("be nice", model=ScriptedModel([said] * 3))
    trace = drive(Agent(ScriptedModel(["x"]), filters=[filters.moderation(judge)])).start("?")[0].trace
    assert [list(one.change) for one in trace.of("layer")] == [["input: flagged 1"]]
    check = filters.moderation(lambda text: filters.Verdict(True, ["x" * 3_000]))
    trace = drive(Agent(ScriptedModel(["x"]), filters=[check])).start("?")[0].trace
    assert all(len(change) <= 120 for one in trace.of("layer") for change in one.change)


@pytest.mark.parametrize(
    "data", [b'[2,0,0,"paused",null,[],0,[]]', b"xx", b'[1,0,0,"paused",null,[],0,[["other","x",0,0,{},[]]]]']
)
def test_a_row_that_cannot_be_read_fails_no_turn(drive: Drive, sql: SQLCheckpointer, data: bytes) -> None:
    """The answer comes, the thread is free; who asks for the trace is told which one it is."""
    agent = gated(sql)
    drive(agent).start("Refund 1", thread="t")
    rows = sql.database.tables.traces
    sql.database.run(lambda conn: conn.execute(update(rows).values(data=data)), write=True)
    result, _ = drive(agent).resume("t", approve())
    assert (result.answer, len(result.trace.parts)) == ("Done.", 1)
    assert sql.sessions.get("t").holder is None
    with pytest.raises(StorageError, match=result.turn):
        agent.session("t").trace(result.turn)


@pytest.mark.parametrize(
    "spans",
    [
        '[["model","x",0,0,{"tokens":"abc"},[]]]',
        '[["model","x",0,0,{"cost":"abc"},[]]]',
        '[["model","x",NaN,0,{},[]]]',
        '[["model","x",0,0,{"error":{}},[]]]',
        '[["layer","x",0,0,{"change":5},[]]]',
        '[["layer","x",0,0,{},' * 100 + "[]" + "]]" * 100,
    ],
    ids=["tokens", "cost", "seconds", "error", "change", "depth"],
)
def test_what_could_not_be_shown_is_no_part(spans: str) -> None:
    """It is refused where it is read, so that nothing fails later."""
    with pytest.raises((ValueError, TypeError)):
        load(f'[1,0,0,"paused",null,[],0,{spans}]'.encode())
    for head in ('[{"a":1}],0', '[],"x"'):
        with pytest.raises((ValueError, TypeError)):
            load(f'[1,0,0,"paused",null,{head},[]]'.encode())


def test_a_decision_is_in_the_trace_where_the_question_is_not(drive: Drive, sql: SQLCheckpointer) -> None:
    """A part that was asked without a trace; the one that goes on knows what it was answered."""
    drive(gated(sql, trace=False)).start("Refund 1", thread="t")
    model = ScriptedModel(["Done."])
    agent = Agent(model, tools=Desk().tools, filters=[filters.approval({"refund": True})], checkpointer=sql)
    result, _ = drive(agent).resume("t", approve())
    assert [one.tool for one in result.trace.approvals] == ["refund"]
    assert agent.session("t").trace(result.turn) == result.trace


def test_a_pause_that_stays_has_its_trace(drive: Drive, sql: SQLCheckpointer) -> None:
    """Nothing is decided yet: what comes back is the pause of that turn, with what was recorded of it."""
    agent = gated(sql)
    paused, _ = drive(agent).start("Refund 1", thread="t")
    same, _ = drive(agent).resume("t")
    assert isinstance(same, Paused)
    assert (same.turn, same.trace) == (paused.turn, paused.trace)
    session = agent.session("t")
    result = session.resume(approve())
    assert isinstance(result, Completed)
    assert session.trace() == result.trace


def test_an_id_that_is_a_text_is_not_told(drive: Drive) -> None:
    """A model may put anything in the place of a call's id."""
    asked = AIMessage("", tool_calls=[{"name": "refund", "args": {"order": 1}, "id": "Bob <bob@example.org>"}])
    trace = drive(Agent(ScriptedModel([asked, "Done."]), tools=Desk().tools)).start("?")[0].trace
    assert [one.call_id for one in trace.of("tool")] == [None]
    assert len(drawn(trace)) == 5


@pytest.mark.parametrize("what", ["rewind", "cancel", "update"])
def test_the_turn_that_the_thread_goes_on_from_keeps_it(sql: SQLCheckpointer, what: str) -> None:
    """Also where another checkpoint was put behind it; a second pruning changes nothing, and other turns have none."""
    agent = gated(sql)
    session = agent.session("t")
    turn = agent.invoke("Refund 1", thread="t").turn
    if what == "cancel":
        agent.cancel("t")
    else:
        turn = agent.resume("t", approve()).turn
    if what == "update":
        agent.graph.update_state({"configurable": {"thread_id": "t"}}, {"messages": [HumanMessage("note")]})
    if what == "rewind":
        gone = agent.invoke("And now?", thread="t").turn
        session.rewind(session.history[0])
    before = session.trace(turn)
    for _ in range(2):
        sql.prune(["t"])
        assert before is not None
        assert session.trace(turn) == before
    if what == "rewind":
        assert session.trace(gone) is None


def test_a_turn_without_a_trace_keeps_none_of_the_turn_before(sql: SQLCheckpointer) -> None:
    """The thread goes on from it."""
    turn = Agent(ScriptedModel(["one"]), checkpointer=sql).invoke("1", thread="t").turn
    agent = Agent(ScriptedModel(["two"]), checkpointer=sql, trace=False)
    agent.invoke("2", thread="t")
    sql.prune(["t"])
    assert agent.session("t").trace(turn) is None
