"""Where traces are kept, and for how long."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from checkpoints.databases import counted, one_of_each
from langgraph.checkpoint.memory import InMemorySaver
from modes import Drive
from scenes import Desk, asks, call
from sqlalchemy import select
from traces.drawings import drawn

from scallion import (
    Agent,
    FilterError,
    Inbox,
    LeaseLost,
    ModelError,
    SQLCheckpointer,
    approve,
    around_turn,
    filters,
)
from scallion.testing import ScriptedModel
from scallion.tracing import Part, Span
from scallion.tracing.compact import BYTES, dump, load


def gated(saver: SQLCheckpointer, *more: Any) -> Agent:
    """An agent whose tool asks a person."""
    model = ScriptedModel([asks(call("refund", order=1)), "Done.", *more])
    return Agent(model, tools=Desk().tools, filters=[filters.approval({"refund": True})], checkpointer=saver)


def plain(saver: Any, *replies: Any, **options: Any) -> Agent:
    """An agent that answers."""
    return Agent(ScriptedModel(list(replies) or ["Hello."]), checkpointer=saver, **options)


def turns(saver: SQLCheckpointer, thread: str = "t") -> Sequence[Any]:
    """The rows of a thread, oldest first."""
    t = saver.database.tables
    query = (
        select(t.traces).join(t.sessions, t.sessions.c.no == t.traces.c.session).where(t.sessions.c.thread == thread)
    )
    return saver.database.run(lambda conn: conn.execute(query.order_by(t.traces.c.no)).all())


@one_of_each
@pytest.mark.parametrize("key", [None, b"k" * 32], ids=["plain", "sealed"])
def test_each_part_is_a_row(drive: Drive, database: str, key: bytes | None) -> None:
    """Of a turn with a pause two, numbered; who reads it gets what the result had."""
    with SQLCheckpointer(database, auto_upgrade=True, key=key) as saver:
        agent = gated(saver, "And you?")
        paused, _ = drive(agent).start("Refund 1", thread="t")
        assert saver.sessions.trace("t") == paused.trace
        result, _ = drive(agent).resume("t", approve())
        assert saver.sessions.trace("t") == result.trace
        after, _ = drive(agent).start("Thanks", thread="t")
        assert saver.sessions.trace("t") == after.trace
        assert saver.sessions.trace("t", result.turn) == result.trace
        assert [(one.turn, one.part) for one in turns(saver)] == [
            (result.turn, 0),
            (result.turn, 1),
            (after.turn, 0),
        ]
        is_sealed = [b'"attempt"' not in bytes(one.data) for one in turns(saver)]
        assert is_sealed == [key is not None] * 3
        assert asyncio.run(saver.sessions.atrace("t", after.turn)) == after.trace
    with Inbox(database, key=key) as inbox:
        assert inbox.sessions.trace("t", result.turn) == result.trace


def test_it_costs_no_transaction_of_its_own(sql: SQLCheckpointer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not more of them than without, and none more waits for the disk."""
    agents = [plain(sql, "a", "b", trace=trace) for trace in (False, True)]
    for agent in agents:
        agent.invoke("?", thread="t")
    seen: list[bool] = []
    together = sql.database._commits.together

    def counting(work: Any, begin: Any, *, durable: bool = True) -> Any:
        seen.append(durable)
        return together(work, begin, durable=durable)

    monkeypatch.setattr(sql.database._commits, "together", counting)
    found = []
    for agent in agents:
        seen.clear()
        agent.invoke("?", thread="t")
        found.append(list(seen))
    assert found[0] == found[1] != []
    assert len(turns(sql)) == 2


def test_a_failed_turn_keeps_its_trace(drive: Drive, sql: SQLCheckpointer) -> None:
    """With the class of the error, and found by its turn in the history."""
    agent = plain(sql, "fine", ValueError("a secret"))
    drive(agent).start("?", thread="t")
    with pytest.raises(ModelError):
        drive(agent).start("?", thread="t")
    session = agent.session("t")
    trace = session.trace()
    assert (trace.status, trace.parts[0].error) == ("failed", "ModelError")
    assert drawn(trace)[1:] == ["  attempt 1 error ValueError", "    model scripted error ValueError"]
    assert session.trace(session.history[-1]) == trace
    assert session.trace(session.history[-1].id) == trace
    assert session.trace(session.history[0]).status == "completed"


def test_a_thread_that_did_not_come_to_be_has_none(sql: SQLCheckpointer) -> None:
    """A turn that fails before anything is stored leaves nothing, its trace neither."""

    @around_turn
    def broken(request: Any, state: Any, next: Any) -> Any:
        raise RuntimeError("no")

    with pytest.raises(FilterError):
        plain(sql, filters=[broken]).invoke("?", thread="t")
    assert sql.sessions.get("t") is None
    assert counted(sql)["traces"] == 0


def test_who_has_lost_the_thread_writes_no_trace(sql: SQLCheckpointer) -> None:
    """The row of the thread says so in the transaction that would write it."""

    def steals(order: int) -> str:
        """Take the thread away."""
        t = sql.database.tables.sessions
        sql.database.run(lambda conn: conn.execute(t.update().values(fence=7)), write=True)
        return "stolen"

    model = ScriptedModel([asks(call("steals", order=1)), "Done."])
    with pytest.raises(LeaseLost):
        Agent(model, tools=[steals], checkpointer=sql).invoke("?", thread="t")
    assert counted(sql)["traces"] == 0


@pytest.mark.parametrize("kind", ["memory", "without leases"])
def test_other_savers_have_it_on_the_result_only(drive: Drive, sql: SQLCheckpointer, kind: str) -> None:
    """A resumed turn has the part that was resumed."""
    saver = InMemorySaver() if kind == "memory" else SQLCheckpointer(sql.database.url, lease_seconds=None)
    agent = gated(saver)
    paused, _ = drive(agent).start("?", thread="t")
    assert drawn(paused.trace)[0] == "paused"
    assert list(paused.trace.approvals) == paused.approvals
    result, _ = drive(agent).resume("t", approve())
    assert drawn(result.trace)[0] == "completed"
    if kind != "memory":
        assert agent.session("t").trace() is None
        saver.close()


@one_of_each
def test_it_goes_with_the_thread_and_is_its_owners(database: str) -> None:
    """Another owner does not find it; deleting deletes it."""
    with SQLCheckpointer(database) as saver:
        plain(saver).invoke("?", thread="t", owner="ana")
        assert saver.for_owner("ana").sessions.trace("t") is not None
        assert saver.for_owner("ben").sessions.trace("t") is None
        assert saver.sessions.trace("t", "another") is None
        saver.sessions.delete("t")
        assert counted(saver)["traces"] == 0


@one_of_each
def test_pruned_turns_have_none(database: str) -> None:
    """The turn that the thread goes on from keeps all parts of it; with the others' checkpoints their traces go."""
    with SQLCheckpointer(database) as saver:
        plain(saver).invoke("?", thread="t")
        agent = gated(saver)
        agent.invoke("?", thread="t")
        result = agent.resume("t", approve())
        saver.prune(["t"])
        assert [(one.turn, one.part) for one in turns(saver)] == [(result.turn, 0), (result.turn, 1)]
        assert saver.sessions.trace("t") == result.trace


@pytest.mark.parametrize("key", [None, b"k" * 32], ids=["plain", "sealed"])
def test_an_export_has_it_and_a_copy_has_not(sql: SQLCheckpointer, key: bytes | None, tmp_path: Any) -> None:
    """What was told of a turn is told in the other database too; a fork is another thread, which ran nothing."""
    result = plain(sql).invoke("?", thread="t")
    with SQLCheckpointer(f"sqlite:///{tmp_path / 'other.db'}", key=key) as other:
        other.sessions.load(sql.sessions.export("t"), thread="u")
        assert other.sessions.trace("u") == replace(result.trace, thread="u")
    sql.copy_thread("t", "v")
    fork = plain(sql).session("t").fork(thread="w")
    assert sql.sessions.trace("v") is None
    assert fork.trace() is None


def test_it_is_sealed_anew_with_another_key(sql: SQLCheckpointer) -> None:
    """And in the clear again."""
    result = plain(sql).invoke("?", thread="t")
    sql.rekey(b"k" * 32)
    assert b"attempt" not in bytes(turns(sql)[0].data)
    assert sql.sessions.trace("t") == result.trace
    sql.rekey(None)
    assert b"attempt" in bytes(turns(sql)[0].data)


def test_a_rewind_keeps_it(sql: SQLCheckpointer) -> None:
    """As it keeps the turn: who looks for it finds it."""
    agent = plain(sql, "one", "two", "three")
    results = [agent.invoke("?", thread="t") for _ in range(2)]
    session = agent.session("t")
    session.rewind(session.history[0])
    again = agent.invoke("?", thread="t")
    assert session.trace() == again.trace
    assert [session.trace(one.turn) for one in results] == [one.trace for one in results]
    assert session.trace(session.rewound[0]) == results[1].trace


def test_a_large_part_is_cut() -> None:
    """To what a row may hold at most; what is left out is counted."""
    layer = Span("layer", "x" * 100, 0.5, 0.25, actions=("changed_request",), change=("y" * 100,) * 8)
    attempt = Span("attempt", "1", 0.25, 1.0, inside=(layer,) * 300)
    part = replace(_part(), spans=(attempt, attempt))
    data = dump(part)
    cut = load(data)
    kept = sum(1 for one in cut.spans for _ in one.walk())
    assert len(data) <= BYTES
    assert 0 < kept < 602
    assert cut.omitted == 602 - kept
    assert cut.spans[0].inside[0] == layer


def _part() -> Part:
    return plain(None).invoke("?").trace.parts[0]


@pytest.mark.parametrize("how", ["at once", "by and by"])
def test_what_many_calls_asked_stands_in_their_order(drive: Drive, sql: SQLCheckpointer, how: str) -> None:
    """In the trace of the result and in that which is stored, and where a part of them is decided."""
    orders = list(range(25))
    model = ScriptedModel([asks(*(call("refund", order=one) for one in orders)), "Done."])
    agent = Agent(model, tools=Desk().tools, filters=[filters.approval({"refund": True})], checkpointer=sql)
    result, _ = drive(agent).start("?", thread="t")
    if how == "by and by":
        some = {one.id: approve() for one in reversed(result.approvals) if one.args["order"] % 2}
        result, _ = drive(agent).resume("t", some)
        assert [one.args["order"] for one in result.approvals] == orders[::2]
    for trace in (result.trace, sql.sessions.trace("t")):
        assert [one.args["order"] for one in trace.approvals] == orders
