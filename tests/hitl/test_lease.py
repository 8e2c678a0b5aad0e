"""A turn runs under a lease on its thread: against threads, tasks and processes, over kill, freeze and cancellation."""

from __future__ import annotations

import asyncio
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any
from unittest import mock

import pytest
from checkpoints.databases import one_of_each
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import Command, Send, interrupt
from modes import Drive
from processes import processes
from sqlalchemy import text, update
from tests.hitl.harness import WAIT, desk, elsewhere, outcome, pairs, run, saver_on, until
from tests.loop.scripts import assert_valid, history, told

from scallion import (
    Agent,
    Completed,
    ConfigurationError,
    LeaseLost,
    NotPaused,
    Paused,
    SQLCheckpointer,
    ThreadBusy,
    ThreadError,
    approve,
    around_chat,
)
from scallion.sql import holders
from scallion.testing import ScriptedModel

colours = pytest.mark.parametrize("colour", ["sync", "async"])


def said(agent: Agent, thread: str = "t") -> list[str]:
    """The messages of people that the thread keeps."""
    return [one.removeprefix("user: ") for one in told(history(agent, thread)) if one.startswith("user: ")]


def stolen(saver: SQLCheckpointer, thread: str = "t") -> None:
    """Somebody else was given the lease, as after an expiry."""
    s = saver.database.tables.sessions
    change = update(s).where(s.c.thread == thread).values(fence=s.c.fence + 1)
    saver.database.run(lambda conn: conn.execute(change), write=True)


def row(saver: SQLCheckpointer, thread: str = "t") -> Any:
    """The lease as the row has it."""
    s = saver.database.tables.sessions
    query = s.select().where(s.c.thread == thread)
    return saver.database.run(lambda conn: conn.execute(query).one_or_none())


def rows_of(saver: SQLCheckpointer) -> int:
    """How many checkpoints and writes there are."""
    t = saver.database.tables
    count = text(f"SELECT (SELECT count(*) FROM {t.checkpoints.name}) + (SELECT count(*) FROM {t.writes.name})")
    return int(saver.database.run(lambda conn: conn.execute(count).scalar_one()))


# --- One turn at a time


@one_of_each
@colours
def test_a_thread_that_another_process_runs_is_busy(database: str, colour: str) -> None:
    with elsewhere(database, colour=colour) as other, saver_on(database) as saver:
        agent = desk(saver)
        began = datetime.now(UTC)
        for verb, *given in (("invoke", "me too"), ("resume",), ("recover",)):
            with pytest.raises(ThreadBusy) as busy:
                run(agent, colour, verb, *([given[0]] if given else ["t"]), **({"thread": "t"} if given else {}))
            assert str(other.process.pid) in str(busy.value.holder)
            assert busy.value.since is not None
            assert abs(began - busy.value.since) < timedelta(seconds=WAIT)
        session = saver.sessions.get("t")
        assert session is not None
        assert session.holder == busy.value.holder
        assert session.held_until is not None
        assert session.to_json()["held_until"] > session.to_json()["created"]
        assert isinstance(agent.invoke("elsewhere", thread="another"), Completed)
        with ThreadPoolExecutor() as pool:
            second = pool.submit(run, agent, colour, "invoke", "me too", thread="t", wait=WAIT)
            assert other.end() == "Completed"
            assert isinstance(second.result(WAIT), Completed)
        assert said(agent) == ["go", "me too"]
        assert_valid(history(agent, "t"))


def test_a_busy_thread_is_refused_in_every_mode(drive: Drive, database: str) -> None:
    with elsewhere(database), saver_on(database) as saver:
        driver = drive(desk(saver))
        with pytest.raises(ThreadBusy):
            driver.start("me too", thread="t")
        with pytest.raises(ThreadBusy):
            driver.resume("t")
        began = time.monotonic()
        with pytest.raises(ThreadBusy):
            driver.start("me too", thread="t", wait=0.4)
        assert time.monotonic() - began > 0.4


PAIRS = 20


@one_of_each
@pytest.mark.parametrize("wait", [0, WAIT])
def test_two_processes_that_send_at_once_lose_no_message(database: str, wait: float) -> None:
    start, ends = processes.Barrier(2), processes.Queue()
    senders = [processes.Process(target=pairs, args=(database, who, PAIRS, wait, start, ends)) for who in "ab"]
    for one in senders:
        one.start()
    outcomes = [ends.get(timeout=2 * WAIT) for _ in range(2 * PAIRS)]
    for one in senders:
        one.join(WAIT)
    check_nothing_is_lost(database, outcomes, wait)


@one_of_each
@pytest.mark.parametrize("wait", [0, WAIT])
def test_two_threads_and_two_tasks_that_send_at_once_lose_no_message(database: str, wait: float) -> None:
    """Each has a saver of its own, as two processes have: what this process knows does not help."""
    outcomes: list[Any] = []
    with saver_on(database) as one, saver_on(database) as two, ThreadPoolExecutor(2) as pool:
        agents = {"a": desk(one), "b": desk(two)}

        def send(n: int, who: str) -> Any:
            return n, who, outcome(agents[who], "sync", "invoke", who, thread=f"t{n}", wait=wait)

        async def both(n: int) -> list[Any]:
            turns = (agents[who].ainvoke(who, thread=f"t{n}", wait=wait) for who in "ab")
            found = await asyncio.gather(*turns, return_exceptions=True)
            await asyncio.gather(*(agent.checkpointer.database._loops.aclose() for agent in agents.values()))
            return [(n, who, type(one).__name__) for who, one in zip("ab", found, strict=True)]

        for n in range(PAIRS // 2):
            outcomes += pool.map(send, (n, n), "ab")
        for n in range(PAIRS // 2, PAIRS):
            outcomes += asyncio.run(both(n))
    check_nothing_is_lost(database, outcomes, wait)


def check_nothing_is_lost(database: str, outcomes: list[Any], wait: float) -> None:
    """A message is kept, or its sender was told; who waits is served."""
    with saver_on(database) as saver:
        agent = desk(saver)
        for n in range(PAIRS):
            ends = {who: end for number, who, end in outcomes if number == n}
            assert set(ends.values()) <= ({"Completed"} if wait else {"Completed", "ThreadBusy"})
            kept = sorted(who for who, end in ends.items() if end == "Completed")
            assert sorted(said(agent, f"t{n}")) == kept
            assert kept
            assert_valid(history(agent, f"t{n}"))


# --- Holders that die, freeze or stop


@one_of_each
@colours
def test_a_killed_holder_is_known_on_its_own_machine_and_its_turn_is_recovered(database: str, colour: str) -> None:
    with elsewhere(database, colour=colour) as other, saver_on(database) as saver:
        other.signal(signal.SIGKILL)
        agent = desk(saver)
        done = run(agent, colour, "recover", "t")
        assert isinstance(done, Completed)
        assert said(agent) == ["go"]
        assert_valid(done.messages)


@one_of_each
def test_a_killed_holder_of_another_machine_is_waited_for_until_its_lease_expires(database: str) -> None:
    with elsewhere(database, seconds=1.5) as other, saver_on(database, 1.5) as saver:
        other.signal(signal.SIGKILL)
        agent = desk(saver)
        with mock.patch.object(holders, "is_gone", return_value=False):
            with pytest.raises(ThreadBusy):
                agent.recover("t")
            assert isinstance(agent.recover("t", wait=WAIT), Completed)
        assert_valid(history(agent, "t"))


@one_of_each
@colours
def test_a_holder_that_was_frozen_past_its_expiry_writes_nothing(database: str, colour: str) -> None:
    with elsewhere(database, "go twice", seconds=1, colour=colour) as other, saver_on(database, 1) as saver:
        other.freeze(saver)
        agent = desk(saver)
        with pytest.raises(ThreadBusy):
            agent.invoke("mine", thread="t")
        assert isinstance(agent.invoke("mine", thread="t", wait=WAIT), Completed)
        before, messages = rows_of(saver), history(agent, "t")
        other.signal(signal.SIGCONT)
        assert other.end() == "LeaseLost"
        assert rows_of(saver) == before
        assert history(agent, "t") == messages
        assert said(agent) == ["go twice", "mine"]
        assert isinstance(agent.invoke("more", thread="t"), Completed)


@one_of_each
def test_a_turn_that_lasts_longer_than_its_lease_keeps_it(database: str) -> None:
    with elsewhere(database, seconds=0.9) as other, saver_on(database, 0.9) as saver:
        agent, end = desk(saver), time.monotonic() + 2.5
        while time.monotonic() < end:
            with pytest.raises(ThreadBusy):
                agent.invoke("mine", thread="t")
            time.sleep(0.1)
        assert other.end() == "Completed"


@one_of_each
@colours
def test_cancel_stops_a_turn_of_another_process_before_its_next_call(database: str, colour: str) -> None:
    with elsewhere(database, "go twice", colour=colour) as other, saver_on(database) as saver:
        agent = desk(saver)
        assert run(agent, colour, "cancel", "t") is True
        assert run(agent, colour, "cancel", "nobody") is False
        assert other.end() == "ThreadError"
        assert run(agent, colour, "recover", "t") is None
        assert isinstance(agent.invoke("mine", thread="t"), Completed)
        assert said(agent) == ["go twice", "mine"]
        assert sum(one.type == "tool" for one in history(agent, "t")) == 1
        assert run(agent, colour, "cancel", "t") is False


@one_of_each
def test_a_turn_whose_process_dies_behind_a_cancel_is_closed_when_somebody_would_go_on(database: str) -> None:
    with elsewhere(database, "go twice") as other, saver_on(database) as saver:
        agent = desk(saver)
        other.signal(signal.SIGSTOP)
        assert agent.cancel("t") is True
        other.signal(signal.SIGKILL)
        with pytest.raises(NotPaused, match="was cancelled; it is closed now"):
            agent.resume("t")
        assert agent.recover("t") is None
        assert [one.status for one in agent.session("t").history] == ["closed"]
        assert "whether it took effect is not known" in history(agent, "t")[-1].text
        assert isinstance(agent.invoke("mine", thread="t"), Completed)


def test_cancel_closes_what_a_killed_process_left(database: str) -> None:
    with elsewhere(database) as other, saver_on(database) as saver:
        other.signal(signal.SIGKILL)
        agent = desk(saver)
        assert agent.cancel("t") is True
        assert_valid(history(agent, "t"))
        assert row(saver).holder is None


def test_one_owner_neither_learns_of_a_turn_of_anothers_nor_stops_it(saver: SQLCheckpointer) -> None:
    held, release = threading.Event(), threading.Event()
    agent = desk(saver, held=held, release=release)
    with ThreadPoolExecutor() as pool, saver_on(saver.database.url.render_as_string(False)) as other:
        turn = pool.submit(agent.invoke, "go", thread="t", owner="ana")
        assert held.wait(WAIT)
        bens = desk(other.for_owner("ben"))
        with pytest.raises(ThreadError, match="another owner"):
            bens.invoke("mine", thread="t")
        with pytest.raises(NotPaused, match="no thread"):
            bens.resume("t")
        with pytest.raises(ThreadError, match="another owner"):
            desk(other).invoke("mine", thread="t", owner="ben")
        assert bens.cancel("t") is False
        release.set()
        assert isinstance(turn.result(WAIT), Completed)


# --- What a turn leaves behind


class Stop(BaseException):
    """As Ctrl-C, which tests must not send."""


def ends(agent: Agent, how: str) -> None:
    """Begin a turn on "t" and end it in that way."""

    async def cancelled() -> None:
        turn = asyncio.create_task(agent.ainvoke("go", thread="t"))
        await asyncio.sleep(0.2)
        turn.cancel()
        with pytest.raises(asyncio.CancelledError):
            await turn

    async def closed() -> None:
        events = agent.astream("go", thread="t")
        await anext(events)
        await events.aclose()  # type: ignore[attr-defined]

    if how == "cancelled":
        asyncio.run(cancelled())
    elif how == "closed astream":
        asyncio.run(closed())
    elif how == "closed stream":
        events = agent.stream("go", thread="t")
        next(events)
        events.close()  # type: ignore[attr-defined]
    else:
        with pytest.raises((Stop, Exception)):
            agent.invoke("go", thread="t")


@pytest.mark.parametrize("database", ["file", "postgresql", "asyncpg", "mariadb", "asyncmy"], indirect=True)
@pytest.mark.parametrize("how", ["cancelled", "closed stream", "closed astream", "interrupted", "failed"])
def test_the_lease_ends_with_the_turn_however_it_ends(saver: SQLCheckpointer, how: str) -> None:
    delay = 0.0 if how in ("interrupted", "failed") else 1.0
    error: Any = {"interrupted": Stop(), "failed": OSError("away")}.get(how)

    def say(messages: list[Any]) -> AIMessage:
        if error is not None:
            raise error
        return AIMessage("done")

    ends(Agent(ScriptedModel(say, delay=delay), checkpointer=saver), how)
    until(lambda: row(saver) is None or row(saver).holder is None, 5)
    with saver_on(saver.database.url.render_as_string(False)) as other:
        assert isinstance(desk(other).invoke("mine", thread="t"), Completed)


@one_of_each
def test_a_pause_holds_nothing(saver: SQLCheckpointer) -> None:
    agent = desk(saver, gate=True)
    paused = agent.invoke("go", thread="t")
    assert isinstance(paused, Paused)
    assert row(saver).holder is None
    assert isinstance(agent.resume("t", approve()), Completed)
    assert row(saver).holder is None


@one_of_each
def test_what_never_began_leaves_no_thread(saver: SQLCheckpointer) -> None:
    with pytest.raises(NotPaused):
        desk(saver).resume("nobody")
    assert saver.sessions.list().items == []


def test_a_lease_that_could_not_be_released_at_once_is_released_soon(saver: SQLCheckpointer) -> None:
    release = saver.leases._release  # type: ignore[union-attr]
    tries: list[int] = []

    def once(*given: Any) -> Any:
        tries.append(1)
        if len(tries) == 1:
            raise KeyboardInterrupt
        return release(*given)

    with mock.patch.object(saver.leases, "_release", once), pytest.raises(KeyboardInterrupt):
        desk(saver).invoke("hello", thread="t")
    until(lambda: row(saver).holder is None, 5)


def test_a_thread_that_its_own_process_forgot_is_free(saver: SQLCheckpointer) -> None:
    lease = saver.leases.take("t", new=True)  # type: ignore[union-attr]
    with saver_on(saver.database.url.render_as_string(False)) as other:
        with pytest.raises(ThreadBusy):
            desk(other).invoke("mine", thread="t")
        holders.end(lease.name)
        assert isinstance(desk(other).invoke("mine", thread="t"), Completed)


# --- The fence


@one_of_each
@colours
@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
def test_who_lost_the_lease_writes_nothing_more(saver: SQLCheckpointer, colour: str, durability: Any) -> None:
    counts: list[int] = []

    @around_chat
    def loses(request: Any, state: Any, next: Any) -> Any:
        reply = next(request)
        stolen(saver)
        counts.append(rows_of(saver))
        return reply

    agent = Agent(ScriptedModel(["done"]), filters=[loses], checkpointer=saver)
    with pytest.raises(LeaseLost):
        run(agent, colour, "invoke", "hello", thread="t", durability=durability)
    assert rows_of(saver) == counts[0]


@one_of_each
def test_a_decision_of_a_resume_that_lost_its_lease_is_not_recorded(saver: SQLCheckpointer) -> None:
    import scallion.threads

    agent = desk(saver, gate=True)
    paused = agent.invoke("go", thread="t")
    assert isinstance(paused, Paused)
    record = scallion.threads.record

    def late(*given: Any) -> None:
        stolen(saver)
        record(*given)

    with mock.patch.object(scallion.threads, "record", late), pytest.raises(LeaseLost):
        agent.resume("t", approve(), by="ana")
    assert saver.approvals.get(paused.approvals[0].id).status == "pending"
    assert isinstance(agent.resume("t", approve(), by="ana"), Completed)


def test_a_turn_whose_thread_is_deleted_does_not_bring_it_back(saver: SQLCheckpointer) -> None:
    def say(messages: list[Any]) -> AIMessage:
        saver.sessions.delete("t")
        return AIMessage("done")

    with pytest.raises(LeaseLost):
        Agent(ScriptedModel(say), checkpointer=saver).invoke("hello", thread="t")
    assert saver.sessions.get("t") is None


def test_a_turn_that_knows_that_it_lost_its_lease_calls_nothing_more(saver: SQLCheckpointer) -> None:
    """The clock of this machine says that time is up, and the database says who has it."""
    held, release = threading.Event(), threading.Event()
    calls: list[int] = []

    @around_chat
    def counting(request: Any, state: Any, next: Any) -> Any:
        calls.append(1)
        return next(request)

    quick = SQLCheckpointer(saver.database.engine, lease_seconds=0.3)
    agent = desk(quick, held=held, release=release)
    agent = Agent(ScriptedModel([desk(quick) and AIMessage("", tool_calls=[{"name": "work", "args": {}, "id": "c"}])]),
                  tools=agent.tools, filters=[counting], checkpointer=quick)  # fmt: skip
    with ThreadPoolExecutor() as pool:
        turn = pool.submit(agent.invoke, "go", thread="t")
        assert held.wait(WAIT)
        stolen(saver)
        until(lambda: (quick.leases is not None and not quick.leases._heartbeat._kept) or _all_lost(quick), 5)
        release.set()
        with pytest.raises(LeaseLost):
            turn.result(WAIT)
    assert len(calls) == 1


def _all_lost(saver: SQLCheckpointer) -> bool:
    return all(one.lost for one in list(saver.leases._heartbeat._kept))  # type: ignore[union-attr, attr-defined]


class Asked(MessagesState):
    """The state of a foreign graph."""


def foreign(saver: SQLCheckpointer) -> Any:
    """A graph with `Send`s and a subgraph that asks."""
    inner = StateGraph(Asked)
    inner.add_node("ask", lambda state: {"messages": [AIMessage(interrupt("sure?"))]})
    inner.add_edge(START, "ask")
    graph = StateGraph(Asked)
    graph.add_node("plan", lambda state: {})
    graph.add_node("part", lambda state: {"messages": [AIMessage("part")]})
    graph.add_node("inner", inner.compile())
    graph.add_edge(START, "plan")
    graph.add_conditional_edges("plan", lambda state: [Send("part", state), Send("part", state), Send("inner", state)])
    return graph.compile(checkpointer=saver)


@one_of_each
@colours
@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
def test_the_lease_goes_with_every_write_and_into_no_metadata(
    saver: SQLCheckpointer, colour: str, durability: Any
) -> None:
    """Subgraphs, parallel tasks, resume and update_state: all of it is refused when the lease is lost."""
    graph, leases = foreign(saver), saver.leases
    assert leases is not None
    lease = leases.take("t", new=True)
    config: Any = {"configurable": {"thread_id": "t", **lease.configurable}}

    def go(given: Any) -> Any:
        if colour == "sync":
            return graph.invoke(given, config, durability=durability)
        return asyncio.run(graph.ainvoke(given, config, durability=durability))

    go({"messages": [HumanMessage("hello")]})
    before = rows_of(saver)
    stored = list(saver.list({"configurable": {"thread_id": "t"}}))
    assert "lease" not in repr([(one.metadata, one.config) for one in stored])
    stolen(saver)
    for write in (
        lambda: go(Command(resume="yes")),
        lambda: go({"messages": [HumanMessage("again")]}),
        lambda: graph.update_state(config, {"messages": [HumanMessage("edited")]}, as_node="plan"),
    ):
        with pytest.raises(LeaseLost):
            write()
        assert rows_of(saver) == before


@one_of_each
def test_who_has_no_lease_may_write_while_another_has_one(saver: SQLCheckpointer) -> None:
    """Foreign graphs, `agent.graph` and `update_state` go on as they are."""
    held, release = threading.Event(), threading.Event()
    agent = desk(saver, held=held, release=release)
    with ThreadPoolExecutor() as pool:
        turn = pool.submit(agent.invoke, "go", thread="t")
        assert held.wait(WAIT)
        config: Any = {"configurable": {"thread_id": "t", "checkpoint_ns": "beside"}}
        saver.put(config, empty_checkpoint(), {"source": "input", "step": -1, "parents": {}}, {})
        release.set()
        assert isinstance(turn.result(WAIT), Completed)


# --- Time


@pytest.mark.parametrize("database", ["postgresql", "mariadb"], indirect=True)
@pytest.mark.parametrize("hours", [-5, 5])
def test_clocks_of_machines_that_differ_change_nothing(database: str, hours: float) -> None:
    real, real_ns = time.time, time.time_ns
    with elsewhere(database), saver_on(database) as saver:
        agent = desk(saver)
        with (
            mock.patch.object(time, "time", lambda: real() + hours * 3600),  # noqa: PT008 - it goes on
            mock.patch.object(time, "time_ns", lambda: real_ns() + hours * 3_600_000_000_000),  # noqa: PT008
            pytest.raises(ThreadBusy),
        ):
            agent.invoke("mine", thread="t")


@one_of_each
def test_a_lease_expires_by_the_one_clock(database: str) -> None:
    now = [datetime(2030, 1, 1, tzinfo=UTC)]
    clock = {"clock": lambda: now[0]}
    with SQLCheckpointer(database, **clock) as one, SQLCheckpointer(database, **clock) as two:
        lease = one.leases.take("t", new=True)  # type: ignore[union-attr]
        agent = desk(two)
        now[0] += timedelta(seconds=29)
        with pytest.raises(ThreadBusy) as busy:
            agent.invoke("mine", thread="t")
        assert busy.value.since == datetime(2030, 1, 1, tzinfo=UTC)
        now[0] += timedelta(seconds=2)
        assert isinstance(agent.invoke("mine", thread="t"), Completed)
        one.leases.renew(lease)  # type: ignore[union-attr]
        assert lease.lost


def test_seconds_that_make_no_lease_are_refused(database: str) -> None:
    for seconds in (0, -1, "30", True):
        with pytest.raises(ConfigurationError, match="lease_seconds"):
            SQLCheckpointer(database, lease_seconds=seconds)  # type: ignore[arg-type]


def test_without_leases_a_thread_is_held_in_this_process_alone(database: str) -> None:
    with SQLCheckpointer(database, lease_seconds=None) as saver:
        held, release = threading.Event(), threading.Event()
        agent = desk(saver, held=held, release=release)
        with ThreadPoolExecutor() as pool:
            turn = pool.submit(agent.invoke, "go", thread="t")
            assert held.wait(WAIT)
            assert row(saver).holder is None
            with pytest.raises(ThreadBusy) as busy:
                agent.invoke("mine", thread="t")
            assert busy.value.holder
            assert busy.value.since
            release.set()
            assert isinstance(turn.result(WAIT), Completed)


def test_a_lease_does_not_wait_for_the_disk_and_what_comes_after_it_does(saver: SQLCheckpointer) -> None:
    levels: list[int] = []

    def level(conn: Any) -> None:
        levels.append(conn.connection.dbapi_connection.execute("PRAGMA synchronous").fetchone()[0])

    saver.database.run(level, write=True, durable=False)
    saver.database.run(level, write=True)
    assert levels == [1, 2]
