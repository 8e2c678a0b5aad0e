"""Connections that die, servers that restart, and what is closed."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import pytest
from checkpoints.graphs_that_ask import Loop
from checkpoints.outages import away, dying_at_commit, kill_all
from checkpoints.workers import put
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.base import empty_checkpoint
from sqlalchemy import Connection, insert, select, text

from scallion import Agent, Paused, filters, values
from scallion.errors import AlreadyDecided, StorageError
from scallion.sql import failures
from scallion.sql.saver import SQLCheckpointer
from scallion.testing import ScriptedModel

CONFIG: Any = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}
METADATA: Any = {"source": "input", "step": -1, "parents": {}}
servers = pytest.mark.parametrize("database", ["postgresql", "asyncpg", "mariadb", "asyncmy"], indirect=True)
sync_servers = pytest.mark.parametrize("database", ["postgresql", "mariadb"], indirect=True)


@servers
async def test_a_connection_that_died_between_calls_is_not_seen(database: str, saver: SQLCheckpointer) -> None:
    put(saver, "sync")
    await saver.aput(CONFIG, empty_checkpoint(), METADATA, {})
    assert kill_all(database) >= 1
    put(saver, "sync")
    assert await saver.aget_tuple(CONFIG) is not None
    assert kill_all(database) >= 1
    await saver.aput(CONFIG, empty_checkpoint(), METADATA, {})
    assert len(list(saver.list(None))) == 4
    await saver.aclose()


@servers
@pytest.mark.parametrize("is_async", [False, True])
async def test_a_connection_that_dies_during_a_call(database: str, saver: SQLCheckpointer, is_async: bool) -> None:
    t = saver.database.tables
    tried: list[int] = []

    def work(conn: Connection) -> Any:
        tried.append(1)
        conn.execute(text("SELECT 1"))
        conn.execute(insert(t.keyring).values(no=len(tried), id=f"try {len(tried)}", since=1))
        if len(tried) < 3:
            kill_all(database)
        return conn.execute(select(t.keyring.c.id).where(t.keyring.c.id.like("try %"))).scalars().all()

    saver.database.run(lambda conn: conn.execute(t.keyring.delete()), write=True)
    run = saver.database.arun(work, write=True) if is_async else saver.database.run(work, write=True)
    assert (await run if inspect.isawaitable(run) else run) == ["try 3"]
    saver.database.run(lambda conn: conn.execute(t.keyring.delete()), write=True)
    await saver.aclose()


class AtCommit:
    """Runs a step of which one COMMIT fails, in either colour."""

    def __init__(self, saver: SQLCheckpointer, url: str, stored: bool) -> None:
        self.saver = saver
        self.url = url
        self.stored = stored

    def do(self, step: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
        with dying_at_commit(self.saver.database, self.url, stored=self.stored) as happened:
            done = step(*arguments, **named)
        assert happened
        return done

    async def ado(self, step: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
        engine = await self.saver.database._async_engine()
        dialect = engine.dialect if engine is not None else None
        with dying_at_commit(self.saver.database, self.url, stored=self.stored, dialect=dialect) as happened:
            done = await step(*arguments, **named)
        assert happened
        return done


@pytest.fixture(params=[False, True], ids=["not stored", "stored"])
def at_commit(request: pytest.FixtureRequest, saver: SQLCheckpointer, database: str) -> AtCommit:
    saver.setup()
    return AtCommit(saver, database, request.param)


@sync_servers
def test_a_connection_that_dies_at_commit(saver: SQLCheckpointer, at_commit: AtCommit) -> None:
    do, graph = at_commit.do, Loop(saver).graph
    graph.invoke({"messages": [HumanMessage("pay")]}, CONFIG)
    first, second = saver.approvals.list().items
    stored = do(saver.put, CONFIG, empty_checkpoint(), METADATA, {})
    do(saver.put_writes, stored, [("messages", "written")], "task")
    assert [write[2] for write in saver.get_tuple(stored).pending_writes] == ["written"]
    saver.delete_thread("t")
    graph.invoke({"messages": [HumanMessage("pay")]}, CONFIG)
    first, second = saver.approvals.list().items

    decided = do(saver.approvals.decide, first.id, values.respond("yes"), by="ana")
    assert (decided.status, decided.decided_by) == ("decided", "ana")
    with pytest.raises(AlreadyDecided) as refused:
        saver.approvals.decide(first.id, values.respond("yes"), by="ana")
    assert refused.value.at == decided.decided_at
    assert do(saver.approvals.withdraw, first.id).status == "pending"
    assert len(do(saver.approvals.decide_all, {one.id: values.respond("yes") for one in (first, second)}, "ana")) == 2

    do(saver.copy_thread, "t", "copy")
    assert len(list(saver.list({"configurable": {"thread_id": "copy"}}))) == len(list(saver.list(CONFIG)))
    with pytest.raises(StorageError, match="exists"):
        saver.copy_thread("t", "copy")
    assert do(saver.approvals.close, "copy", "cancelled") == 2
    assert do(saver.sessions.tag, "copy", "a") is True
    do(saver.prune, ["t"])
    assert len(list(saver.list(CONFIG))) == 1
    do(saver.delete_thread, "t")
    assert [one.thread for one in saver.sessions.list().items] == ["copy"]


@pytest.mark.parametrize("at_commit", [True], indirect=True, ids=["stored"])
@pytest.mark.parametrize("database", ["postgresql", "asyncpg", "asyncmy"], indirect=True)
async def test_a_connection_that_dies_at_commit_of_an_async_call(saver: SQLCheckpointer, at_commit: AtCommit) -> None:
    await saver.aget_tuple(CONFIG)
    do, graph = at_commit.ado, Loop(saver).graph
    await graph.ainvoke({"messages": [HumanMessage("pay")]}, CONFIG)
    first, _ = (await saver.approvals.alist()).items
    assert (await do(saver.approvals.adecide, first.id, values.respond("yes"), by="ana")).decided_by == "ana"
    with pytest.raises(AlreadyDecided):
        await saver.approvals.adecide(first.id, values.respond("yes"), by="ana")
    assert (await do(saver.approvals.awithdraw, first.id)).status == "pending"
    await do(saver.acopy_thread, "t", "copy")
    assert await do(saver.approvals.aclose, "copy", "cancelled") == 2
    stored = await do(saver.aput, CONFIG, empty_checkpoint(), METADATA, {})
    await do(saver.aput_writes, stored, [("messages", "written")], "task")
    assert [write[2] for write in (await saver.aget_tuple(stored)).pending_writes] == ["written"]
    await saver.aclose()


@sync_servers
def test_a_listing_leaves_nothing_out_when_a_connection_dies(database: str, saver: SQLCheckpointer) -> None:
    for _ in range(45):
        put(saver)
    seen = []
    with dying_at_commit(saver.database, database, stored=True) as happened:
        for found in saver.list(CONFIG):
            seen.append(found.checkpoint["id"])
    assert happened
    assert len(set(seen)) == 45


@servers
@pytest.mark.parametrize("patience", [5.0, 0.2])
async def test_a_server_that_is_away(
    database: str, saver: SQLCheckpointer, patience: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(failures, "PATIENCE", patience)
    put(saver)
    assert await saver.aget_tuple(CONFIG) is not None
    kill_all(database)
    engine = await saver.database._async_engine()
    engines = {saver.database.engine, engine.sync_engine if engine is not None else saver.database.engine}
    with ExitStack() as stack:
        for one in engines:
            stack.enter_context(away(one, 3 if patience > 1 else 99))
        if patience < 1:
            with pytest.raises(StorageError, match="the server is away"):
                saver.get_tuple(CONFIG)
            with pytest.raises(StorageError, match="the server is away"):
                await saver.aget_tuple(CONFIG)
        else:
            assert saver.get_tuple(CONFIG) is not None
            assert await saver.aget_tuple(CONFIG) is not None
    assert saver.get_tuple(CONFIG) is not None
    await saver.aclose()


def call(id: str, name: str) -> AIMessage:
    return AIMessage("", tool_calls=[{"name": name, "args": {}, "id": id}])


@pytest.fixture
def agent(database: str, saver: SQLCheckpointer) -> Agent:
    """Its server restarts while a tool runs, and while the model does; one tool asks first."""

    def restart() -> str:
        """Restart."""
        assert kill_all(database)
        return "restarted"

    def pay() -> str:
        """Pay."""
        return restart()

    def answer(messages: Any) -> AIMessage:
        restart()
        return [call("1", "restart"), call("2", "pay"), AIMessage("Paid.")][(len(messages) - 1) // 2]

    asks = filters.approval({"pay": True})
    return Agent(ScriptedModel(answer), tools=[restart, pay], filters=[asks], checkpointer=saver)


def kept(saver: SQLCheckpointer) -> list[str]:
    found = saver.get_tuple(CONFIG)
    assert found is not None
    return [message.text for message in found.checkpoint["channel_values"]["messages"]]


KEPT = ["Go", "", "restarted", "", "restarted", "Paid."]


@servers
async def test_a_turn_goes_on_when_the_server_restarts(database: str, saver: SQLCheckpointer, agent: Agent) -> None:
    paused = await agent.ainvoke("Go", thread="t")
    assert isinstance(paused, Paused)
    kill_all(database)
    await saver.approvals.adecide(paused.approvals[0].id, values.approve())
    events = [event async for event in agent.astream_resume("t")]
    assert events[-1].answer == "Paid."
    assert kept(saver) == KEPT
    await saver.aclose()


@sync_servers
def test_a_sync_turn_goes_on_when_the_server_restarts(database: str, saver: SQLCheckpointer, agent: Agent) -> None:
    paused = list(agent.stream("Go", thread="t"))[-1]
    assert isinstance(paused, Paused)
    kill_all(database)
    assert agent.resume("t", values.approve()).answer == "Paid."
    assert kept(saver) == KEPT
    assert agent.invoke("Go", thread="u").approvals
    kill_all(database)
    agent.cancel("u")
    assert saver.approvals.list().items == []


@pytest.mark.parametrize("database", ["mariadb", "asyncmy"], indirect=True)
async def test_a_value_that_the_server_does_not_take(database: str, saver: SQLCheckpointer) -> None:
    """It breaks the connection off; that helps as little the second time."""
    limit = saver.database.run(lambda conn: conn.execute(text("SELECT @@max_allowed_packet")).scalar_one())
    tried: list[int] = []

    def work(size: int) -> Any:
        def asks(conn: Connection) -> Any:
            tried.append(size)
            return conn.execute(text("SELECT LENGTH(:value)"), {"value": b"'" * size}).scalar()

        return asks

    with pytest.raises(StorageError, match=r"a value of \d+\.\d MB .* max_allowed_packet is \d+\.\d MB"):
        await saver.database.arun(work(limit // 2), write=True)
    assert tried == [limit // 2]
    assert await saver.database.arun(work(limit // 4), write=True) == limit // 4
    await saver.aclose()


@sync_servers
def test_a_connection_that_dies_with_a_large_value(database: str, saver: SQLCheckpointer) -> None:
    tried: list[int] = []

    def work(conn: Connection) -> Any:
        tried.append(1)
        if len(tried) < 3:
            conn.execute(text("SELECT 1"))
            kill_all(database)
        return conn.execute(text("SELECT LENGTH(:value)"), {"value": b"x" * 2_000_000}).scalar()

    assert saver.database.run(work) == 2_000_000
    assert len(tried) == 3
