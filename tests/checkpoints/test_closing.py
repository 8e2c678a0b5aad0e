"""What is closed: pools with their saver, connections with their loop, and every method afterwards."""

from __future__ import annotations

import asyncio
import inspect
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from checkpoints.databases import everywhere
from checkpoints.outages import connections
from checkpoints.workers import put
from langgraph.checkpoint.base import empty_checkpoint

from scallion.errors import Closed
from scallion.inbox import Inbox
from scallion.sql.saver import SQLCheckpointer
from scallion.sql.views import Approvals, Sessions

CONFIG: Any = {"configurable": {"thread_id": "t", "checkpoint_ns": "", "checkpoint_id": "1"}}
METADATA: Any = {"source": "input", "step": -1, "parents": {}}


def _exported() -> list[str]:
    with SQLCheckpointer("sqlite://") as saver:
        put(saver)
        return list(saver.sessions.export("t"))


GIVEN = {
    "config": CONFIG, "checkpoint": empty_checkpoint(), "metadata": METADATA, "new_versions": {}, "writes": [],
    "task_id": "task", "thread_ids": ["t"], "run_ids": ["r"], "channels": ["c"], "decision": {"type": "approve"},
    "decisions": {"a": {"type": "approve"}}, "key": bytes(32), "status": "cancelled", "exported": _exported(),
}  # fmt: skip
"""What the methods are given; everything else is a name."""
UNTOUCHED = {"close", "aclose", "for_owner", "with_allowlist", "get_next_version", "history", "is_history"}
"""Methods of a saver or inbox that ask no database."""
servers = pytest.mark.parametrize("database", ["postgresql", "asyncpg", "mariadb", "asyncmy"], indirect=True)


def _methods(kind: type) -> list[str]:
    skipped = UNTOUCHED if kind in (SQLCheckpointer, Inbox) else {"for_owner", "under"}
    return [name for name in dir(kind) if name[0] != "_" and callable(getattr(kind, name)) and name not in skipped]


KINDS = {SQLCheckpointer: "", Inbox: "", Approvals: "approvals", Sessions: "sessions"}
METHODS = [pytest.param(kind, name, id=f"{kind.__name__}.{name}") for kind in KINDS for name in _methods(kind)]


def _arguments(method: Callable[..., Any]) -> dict[str, Any]:
    needed = [one for one in inspect.signature(method).parameters.values() if one.default is one.empty]
    return {one.name: GIVEN.get(one.name, "t") for one in needed if one.kind is not one.VAR_POSITIONAL}


@pytest.mark.parametrize(("kind", "name"), METHODS)
async def test_use_after_close(kind: type, name: str) -> None:
    holder = (Inbox if kind is Inbox else SQLCheckpointer)("sqlite://")
    holder.close()
    method = getattr(getattr(holder, KINDS[kind]) if KINDS[kind] else holder, name)
    with pytest.raises(Closed):
        await _done(method(**_arguments(method)))


async def _done(called: Any) -> None:
    if inspect.isasyncgen(called):
        await anext(called)
    elif inspect.isawaitable(called):
        await called
    else:
        next(called)


@everywhere
async def test_both_kinds_of_context_manager(database: str) -> None:
    for kind in (SQLCheckpointer, Inbox):
        with kind(database, auto_upgrade=True) as sync:
            assert sync.sessions.list().items == []
        async with kind(database, auto_upgrade=True) as asynchronous:
            assert (await asynchronous.sessions.alist()).items == []
            assert asynchronous.sessions.list().items == []
        for closed in (sync, asynchronous):
            closed.close()
            await closed.aclose()
            with pytest.raises(Closed):
                closed.sessions.list()
            with pytest.raises(Closed):
                await closed.sessions.alist()


async def _use(saver: SQLCheckpointer) -> None:
    config: Any = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}
    await asyncio.gather(*(saver.aput(config, empty_checkpoint(), METADATA, {}) for _ in range(3)))


@pytest.fixture
def all_closed(database: str) -> Callable[..., bool]:
    """Whether the server has no more connections than before the test; it notices the end of one a moment later."""
    before = set(connections(database))

    def of(wait: int = 60) -> bool:
        for _ in range(wait + 1):
            if set(connections(database)) <= before:
                return True
            time.sleep(0.05)
        return False

    return of


@servers
def test_a_loop_that_ends_takes_its_connections_along(all_closed: Callable[..., bool], saver: SQLCheckpointer) -> None:
    for _ in range(3):
        asyncio.run(_use(saver))
    saver.database.engine.dispose()
    assert all_closed()


@servers
async def test_pools_close_with_the_saver(database: str, all_closed: Callable[..., bool]) -> None:
    async with SQLCheckpointer(database) as saver:
        put(saver)
        await _use(saver)
        assert not all_closed(wait=0)
    assert await asyncio.to_thread(all_closed)
    with SQLCheckpointer(database) as saver:
        await _use(saver)
    assert await asyncio.to_thread(all_closed)


@servers
def test_a_pool_of_another_loop_closes_too(all_closed: Callable[..., bool], saver: SQLCheckpointer) -> None:
    loop = asyncio.new_event_loop()
    other = threading.Thread(target=loop.run_forever)
    other.start()
    asyncio.run_coroutine_threadsafe(_use(saver), loop).result(30)
    saver.close()
    assert all_closed()
    loop.call_soon_threadsafe(loop.stop)
    other.join()
    loop.run_until_complete(loop.shutdown_asyncgens())
    loop.close()


@pytest.mark.parametrize("database", ["file", "memory"], indirect=True)
def test_a_copy_with_more_types_shares_everything(saver: SQLCheckpointer) -> None:
    copy: Any = saver.with_allowlist([("decimal", "Decimal")])
    assert copy is not saver
    put(copy)
    assert copy.database is saver.database
    assert copy.sessions.list().items == saver.sessions.list().items != []
    saver.close()
    with pytest.raises(Closed):
        copy.get_tuple(CONFIG)


@pytest.mark.parametrize("database", ["memory"], indirect=True)
def test_a_database_in_memory_serves_threads_and_loops(saver: SQLCheckpointer) -> None:
    asyncio.run(_use(saver))
    used = [threading.Thread(target=put, args=(saver, f"t{n}")) for n in range(4)]
    used += [threading.Thread(target=asyncio.run, args=(_use(saver),)) for _ in range(4)]
    for one in used:
        one.start()
    for one in used:
        one.join()
    assert {one.thread for one in saver.sessions.list().items} == {"t", "t0", "t1", "t2", "t3"}
    assert len(list(saver.list({"configurable": {"thread_id": "t"}}))) == 15


@pytest.mark.parametrize("database", ["postgresql", "mariadb"], indirect=True)
def test_a_connection_that_is_in_use_is_closed_when_it_comes_back(saver: SQLCheckpointer) -> None:
    """As that of a heartbeat; left to the garbage collector it warns, and stays open for as long."""
    used: list[Any] = []

    def work(conn: Any) -> None:
        used.append(conn.connection.dbapi_connection)
        saver.close()

    saver.database.run(work)
    assert used[0].closed if hasattr(used[0], "closed") else not used[0].open
