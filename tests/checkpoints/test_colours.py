"""One object for sync and async callers, threads, loops and processes."""

from __future__ import annotations

import asyncio
import copy
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from checkpoints.databases import everywhere, sync_kinds
from checkpoints.graphs_that_ask import Loop
from checkpoints.workers import at_once, put, write
from langchain_core.messages import HumanMessage
from langgraph.checkpoint.base import empty_checkpoint
from sqlalchemy import StaticPool, create_engine
from sqlalchemy.ext.asyncio import create_async_engine

from scallion.errors import ConfigurationError
from scallion.inbox import Inbox
from scallion.sql.saver import SQLCheckpointer


def config(thread: str = "t") -> Any:
    return {"configurable": {"thread_id": thread, "checkpoint_ns": ""}}


@everywhere
async def test_sync_calls_inside_a_running_loop(saver: SQLCheckpointer) -> None:
    loop = Loop(saver)
    await loop.graph.ainvoke({"messages": [HumanMessage("pay")]}, config())
    assert len(loop.graph.get_state(config()).interrupts) == 2
    assert len((await loop.graph.aget_state(config())).interrupts) == 2
    await saver.aclose()


@sync_kinds
def test_calls_while_listing(saver: SQLCheckpointer) -> None:
    for _ in range(45):
        put(saver)
    seen = []
    for found in saver.list(config()):
        put(saver, "other")
        assert saver.get_tuple(found.config) is not None
        seen.append(found.checkpoint["id"])
    assert len(seen) == 45
    assert seen == sorted(seen, reverse=True)
    assert len(list(saver.list(None))) == 90
    assert len(list(saver.list(config(), limit=23))) == 23


def test_a_shallow_copy_is_the_same_saver(saver: SQLCheckpointer) -> None:
    put(copy.copy(saver))
    assert saver.get_tuple(config()) is not None


@sync_kinds
def test_many_threads_write_at_once(saver: SQLCheckpointer) -> None:
    def turn(n: int) -> None:
        stored = put(saver, f"t{n % 4}")
        saver.put_writes(stored, [("messages", HumanMessage("x" * 200, id=str(n)))], f"task{n}", "path")

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(turn, range(80)))
    assert len(list(saver.list(None))) == 80
    assert all(len(found.pending_writes or ()) == 1 for found in saver.list(None))


@pytest.mark.parametrize("database", ["file", "postgresql", "mariadb"], indirect=True)
def test_many_processes_write_at_once(database: str, saver: SQLCheckpointer) -> None:
    saver.setup()
    assert at_once(write, [(database, n) for n in range(3)]) == [0] * 3
    assert len(list(saver.list(None))) == 60


@everywhere
async def test_many_tasks_write_at_once(saver: SQLCheckpointer) -> None:
    async def turn(n: int) -> None:
        metadata: Any = {"source": "input", "step": -1, "parents": {}}
        stored = await saver.aput(config(f"t{n % 4}"), empty_checkpoint(), metadata, {})
        await saver.aput_writes(stored, [("messages", HumanMessage("x" * 200, id=str(n)))], f"task{n}")

    await asyncio.gather(*(turn(n) for n in range(40)))
    assert len([found async for found in saver.alist(None)]) == 40
    await saver.aclose()


@pytest.mark.parametrize("database", ["memory", "file"], indirect=True)
def test_one_saver_in_many_loops(saver: SQLCheckpointer) -> None:
    async def once() -> None:
        metadata: Any = {"source": "input", "step": -1, "parents": {}}
        await saver.aput(config(), empty_checkpoint(), metadata, {})

    for _ in range(3):
        asyncio.run(once())
    assert len(list(saver.list(config()))) == 3


async def test_engines_of_the_caller_are_used_and_stay_open(tmp_path: Any) -> None:
    engine = create_engine("sqlite://", poolclass=StaticPool, connect_args={"check_same_thread": False})
    with SQLCheckpointer(engine) as saver:
        put(saver)
    with Inbox(engine) as inbox:
        assert inbox.sessions.get("t") is not None
    other = create_async_engine(f"sqlite+aiosqlite:///{tmp_path / 'a.db'}")
    async with SQLCheckpointer(other) as saver:
        put(saver)
        assert await saver.aget_tuple(config()) is not None
    await other.dispose()
    engine.dispose()
    with pytest.raises(ConfigurationError):
        SQLCheckpointer(7)  # type: ignore[arg-type]


@pytest.mark.parametrize("database", ["asyncpg", "asyncmy"], indirect=True)
async def test_an_async_engine(database: str) -> None:
    engine = create_async_engine(database)
    async with SQLCheckpointer(engine, auto_upgrade=True) as saver:
        metadata: Any = {"source": "input", "step": -1, "parents": {}}
        await saver.aput(config(), empty_checkpoint(), metadata, {})
        assert saver.get_tuple(config()) is not None
    await engine.dispose()
