"""Many processes and threads on one database: each waits for its turn, and nobody sees "database is locked"."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from checkpoints.workers import at_once, put_many, turns, two_steps
from langchain_core.messages import HumanMessage
from sqlalchemy import create_engine, func, select

from scallion.errors import StorageError
from scallion.sql.saver import SQLCheckpointer

alone = pytest.mark.parametrize("database", ["file", "postgresql", "mariadb"], indirect=True)


@alone
def test_thirty_two_turns_in_four_processes(database: str, saver: SQLCheckpointer) -> None:
    assert at_once(turns, [(database, n) for n in range(4)]) == [0] * 4
    sessions = saver.sessions.list(limit=100).items
    assert {(one.status, one.message_count) for one in sessions} == {("idle", 6)}
    assert len(sessions) == 32
    checkpoints = saver.database.tables.checkpoints
    counted = select(func.count()).select_from(checkpoints)
    assert saver.database.run(lambda conn: conn.execute(counted).scalar_one()) == 32 * 2 * 4


def test_two_processes_write_two_hundred_checkpoints_each(database: str, saver: SQLCheckpointer) -> None:
    saver.setup()
    assert at_once(put_many, [(database, n) for n in range(2)]) == [0] * 2
    assert len(list(saver.list(None))) == 400


@pytest.mark.parametrize("database", ["file", "asyncpg"], indirect=True)
async def test_a_hundred_and_twenty_eight_turns_at_once(saver: SQLCheckpointer) -> None:
    graph = two_steps(saver)

    async def turn(n: int) -> None:
        await graph.ainvoke({"messages": [HumanMessage("x")]}, {"configurable": {"thread_id": str(n)}})

    await asyncio.gather(*(turn(n) for n in range(128)))
    assert {one.message_count for one in saver.sessions.list(limit=200).items} == {3}
    assert len(saver.sessions.list(limit=200).items) == 128
    await saver.aclose()


@pytest.mark.parametrize("database", ["postgresql"], indirect=True)
def test_a_hundred_and_twenty_eight_threads_at_once(saver: SQLCheckpointer) -> None:
    graph = two_steps(saver)

    def turn(n: int) -> Any:
        return graph.invoke({"messages": [HumanMessage("x")]}, {"configurable": {"thread_id": str(n)}})

    with ThreadPoolExecutor(128) as threads:
        done = list(threads.map(turn, range(128)))
    assert {len(one["messages"]) for one in done} == {3}


@pytest.mark.parametrize("database", ["postgresql"], indirect=True)
def test_a_pool_that_is_too_small_is_told(database: str) -> None:
    engine = create_engine(database, pool_size=1, max_overflow=0, pool_timeout=0.05)
    with SQLCheckpointer(engine) as saver:
        saver.setup()

        def nested(conn: Any) -> None:
            saver.sessions.list()

        with pytest.raises(StorageError, match="pool_size"):
            saver.database.run(nested)
    engine.dispose()
