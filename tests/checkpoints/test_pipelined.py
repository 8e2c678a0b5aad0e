"""PostgreSQL below asyncio: writes that wait at one moment go there together, each as if it were alone."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest
from checkpoints.outages import kill_all
from langchain_core.messages import HumanMessage
from langgraph.checkpoint.base import empty_checkpoint
from sqlalchemy import create_engine, text

from scallion.errors import Closed
from scallion.sql import pipelined, shortcut
from scallion.sql.saver import SQLCheckpointer

METADATA: Any = {"source": "loop", "step": 1, "parents": {}}
pytestmark = pytest.mark.parametrize("database", ["postgresql"], indirect=True)


def place(thread: str) -> Any:
    return {"configurable": {"thread_id": thread, "checkpoint_ns": ""}}


def said(thread: str, version: int = 2) -> Any:
    """A checkpoint whose messages tell their thread, large enough to be items."""
    values = {"messages": [HumanMessage(f"{thread} {n} " * 50) for n in range(version)]}
    return {**empty_checkpoint(), "channel_values": values, "channel_versions": {"messages": version}}


class Crowd:
    """Threads that were written to once, so that the next write to each can go the short way."""

    def __init__(self, saver: SQLCheckpointer, monkeypatch: pytest.MonkeyPatch) -> None:
        self.saver = saver
        self.threads = [f"t{n}" for n in range(6)]
        self.places = {one: saver.put(place(one), said(one, 1), METADATA, {"messages": 1}) for one in self.threads}
        self.batches: list[int] = []
        self._monkeypatch = monkeypatch
        self.instead(lambda send, *given: send(*given))

    def instead(self, send_together: Callable[..., Any]) -> None:
        """Send batches in this way, and count their writes."""
        send = shortcut.send_together

        def counted(conn: Any, writes: Any) -> Any:
            self.batches.append(len(writes))
            return send_together(send, conn, writes)

        self._monkeypatch.setattr(shortcut, "send_together", counted)

    async def write(self, thread: str, task: int) -> None:
        """Write down what a task gave."""
        await self.saver.aput_writes(self.places[thread], [("answer", f"{thread} {task}")], f"task {task}")

    async def put(self, thread: str) -> Any:
        """Write a second message to the thread."""
        return await self.saver.aput(self.places[thread], said(thread), METADATA, {"messages": 2})

    async def puts(self, threads: list[str]) -> list[Any]:
        """What becomes of a put to each of these threads."""
        return await self.at_once([self.put(one) for one in threads])

    async def at_once(self, writes: list[Any]) -> list[Any]:
        """What becomes of writes of which all but the first wait while the sender is busy."""
        inside, go = threading.Event(), threading.Event()
        write = pipelined.write

        def busy(*given: Any) -> Any:
            inside.set()
            assert go.wait(10)
            self._monkeypatch.setattr(pipelined, "write", write)
            return write(*given)

        self._monkeypatch.setattr(pipelined, "write", busy)
        tasks = [asyncio.create_task(one) for one in writes]
        assert await asyncio.to_thread(inside.wait, 10)
        await asyncio.sleep(0.05)
        go.set()
        return await asyncio.gather(*tasks, return_exceptions=True)

    def found(self) -> dict[str, int]:
        """How many checkpoints with the second message each thread has to somebody who knows nothing of them."""
        with SQLCheckpointer(self.saver.database.engine) as fresh:
            found = {
                one: [stored.checkpoint["channel_values"] for stored in fresh.list(place(one))] for one in self.threads
            }
        return {one: values.count(said(one)["channel_values"]) for one, values in found.items()}


@pytest.fixture
def crowd(saver: SQLCheckpointer, monkeypatch: pytest.MonkeyPatch) -> Crowd:
    return Crowd(saver, monkeypatch)


async def test_what_waits_is_one_commit(crowd: Crowd) -> None:
    told = await crowd.puts(crowd.threads)
    assert [one["configurable"]["thread_id"] for one in told] == crowd.threads
    assert crowd.found() == dict.fromkeys(crowd.threads, 1)
    assert crowd.batches == [5]  # the first one had been taken


async def test_a_session_is_written_to_once_at_a_time(crowd: Crowd) -> None:
    """Each write begins where the last one ended, so that those of one thread are in batches behind each other."""
    await crowd.at_once([crowd.write(one, task) for one in crowd.threads for task in range(3)])
    for one in crowd.threads:
        found = crowd.saver.get_tuple(crowd.places[one]).pending_writes or []
        assert sorted(value for _, _, value in found) == [f"{one} {task}" for task in range(3)]
    assert crowd.batches == [6, 6, 5]


async def test_no_batch_has_too_many(crowd: Crowd, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipelined, "MOST", 2)
    await crowd.puts(crowd.threads)
    assert crowd.found() == dict.fromkeys(crowd.threads, 1)
    assert crowd.batches == [2, 2]


async def test_what_others_did_meanwhile_concerns_their_thread_alone(crowd: Crowd) -> None:
    with SQLCheckpointer(crowd.saver.database.engine) as other:
        other.sessions.tag("t3", "mine")
        other.delete_thread("t4")
    await crowd.puts(crowd.threads)
    assert crowd.found() == dict.fromkeys(crowd.threads, 1)
    assert crowd.saver.sessions.get("t3").tags == ("mine",)  # type: ignore[union-attr]


async def test_who_locks_a_session_keeps_nobody_else_waiting(database: str, crowd: Crowd) -> None:
    engine = create_engine(database)
    with engine.connect() as conn:
        conn.execute(text("SELECT no FROM sessions WHERE thread = 't2' FOR UPDATE"))
        others = asyncio.create_task(crowd.puts([one for one in crowd.threads if one != "t2"]))
        locked = asyncio.create_task(crowd.put("t2"))
        assert len(await asyncio.wait_for(others, 10)) == 5
        assert not locked.done()
        conn.rollback()
        await asyncio.wait_for(locked, 10)
    engine.dispose()
    assert crowd.found() == dict.fromkeys(crowd.threads, 1)


@pytest.mark.parametrize("is_stored", [False, True])
async def test_a_connection_that_dies_with_a_batch(database: str, crowd: Crowd, is_stored: bool) -> None:
    """Whether the server has committed it or not, each write is there once, and everybody is told so."""

    def dies(send: Any, conn: Any, writes: Any) -> Any:
        if is_stored:
            send(conn, writes)
        kill_all(database)
        return send(conn, writes)

    crowd.instead(dies)
    told = await crowd.puts(crowd.threads)
    assert [one["configurable"]["thread_id"] for one in told] == crowd.threads
    assert crowd.found() == dict.fromkeys(crowd.threads, 1)


@pytest.mark.parametrize("place", [0, 2, 5])
async def test_a_batch_that_the_server_refuses_is_tried_one_by_one(crowd: Crowd, caplog: Any, place: int) -> None:
    def refused(send: Any, conn: Any, writes: Any) -> Any:
        return send(conn, [*writes[:place], ("SELECT 1 / %(zero)s", {"zero": 0}), *writes[place:]])

    crowd.instead(refused)
    await crowd.puts(crowd.threads)
    assert crowd.found() == dict.fromkeys(crowd.threads, 1)
    assert crowd.batches == [5, 6]  # with the one that fails
    assert crowd.saver.database.engine.pool.checkedout() == 0  # type: ignore[attr-defined]
    assert not caplog.records


async def test_a_saver_that_closes_refuses_what_it_has_not_begun(crowd: Crowd, monkeypatch: pytest.MonkeyPatch) -> None:
    inside, go = threading.Event(), threading.Event()

    def slow(send: Any, conn: Any, writes: Any) -> Any:
        inside.set()
        assert go.wait(10)
        return send(conn, writes)

    crowd.instead(slow)
    first = asyncio.create_task(crowd.puts(crowd.threads[:3]))
    assert await asyncio.to_thread(inside.wait, 10)
    behind = asyncio.create_task(crowd.put("t4"))
    await asyncio.sleep(0.05)
    closing = asyncio.create_task(crowd.saver.aclose())
    await asyncio.sleep(0.05)
    go.set()
    assert all(isinstance(one, dict) for one in await first)
    await closing
    with pytest.raises(Closed):
        await behind
