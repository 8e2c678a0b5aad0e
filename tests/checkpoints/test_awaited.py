"""Tasks of event loops that write to SQLite: one thread writes what all of them wait for."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from sqlalchemy import Connection, text

from scallion.errors import Closed
from scallion.sql.engines import Database
from scallion.sql.saver import SQLCheckpointer

pytestmark = pytest.mark.parametrize("database", ["file", "memory"], indirect=True)


@pytest.fixture
def db(saver: SQLCheckpointer) -> Database:
    saver.database.run(lambda conn: conn.execute(text("CREATE TABLE notes (name TEXT)")), write=True)
    return saver.database


def adds(name: str) -> Callable[[Connection], str]:
    """Work that adds a row."""
    return lambda conn: conn.execute(text("INSERT INTO notes VALUES (:name)"), {"name": name}) and name


def notes(db: Database) -> list[str]:
    """All rows, in the order in which they were added."""
    return list(db.run(lambda conn: conn.execute(text("SELECT name FROM notes ORDER BY rowid")).scalars().all()))


class Blocking:
    """Work that keeps the writer busy until it is let go."""

    def __init__(self) -> None:
        self._inside, self.go = threading.Event(), threading.Event()

    def __call__(self, conn: Connection) -> None:
        self._inside.set()
        assert self.go.wait(10)

    async def begun(self, db: Database) -> asyncio.Task[None]:
        """Its task, once the writer is inside."""
        task = asyncio.create_task(db.arun(self, write=True))
        assert await asyncio.to_thread(self._inside.wait, 10)
        return task


async def settled() -> None:
    """Until the tasks that were begun wait for something."""
    for _ in range(10):
        await asyncio.sleep(0)


def test_each_loop_hears_of_its_own(db: Database) -> None:
    async def many(name: str) -> list[str]:
        return await asyncio.gather(*(db.arun(adds(f"{name}{n}"), write=True) for n in range(50)))

    with ThreadPoolExecutor(4) as threads:
        told = list(threads.map(lambda name: asyncio.run(many(name)), "abcd"))
    assert told == [[f"{name}{n}" for n in range(50)] for name in "abcd"]
    assert sorted(notes(db)) == sorted(name for those in told for name in those)


async def test_they_are_written_in_their_order(db: Database) -> None:
    blocking = Blocking()
    first = await blocking.begun(db)
    tasks = [asyncio.create_task(db.arun(adds(str(n)), write=True)) for n in range(9)]
    await settled()
    blocking.go.set()
    await asyncio.gather(first, *tasks)
    assert notes(db) == [str(n) for n in range(9)]


async def test_what_was_cancelled_is_written_all_the_same(db: Database) -> None:
    """Who is cancelled cannot know whether it came too late: so it always does, and the others hear of theirs."""
    blocking = Blocking()
    first = await blocking.begun(db)
    tasks = [asyncio.create_task(db.arun(adds(name), write=True)) for name in "abc"]
    await settled()
    tasks[1].cancel()
    blocking.go.set()
    told = await asyncio.gather(first, *tasks, return_exceptions=True)
    assert [type(one) for one in told] == [type(None), str, asyncio.CancelledError, str]
    assert notes(db) == ["a", "b", "c"]


async def test_closing_waits_for_what_is_being_written(db: Database) -> None:
    """What the writer has not begun when the saver closes is refused, not lost in silence."""
    blocking = Blocking()
    first = await blocking.begun(db)
    behind = asyncio.create_task(db.arun(adds("a"), write=True))
    await settled()
    closing = asyncio.create_task(db.aclose())
    await settled()
    blocking.go.set()
    await asyncio.gather(closing, first)
    with pytest.raises(Closed):
        await behind
    with pytest.raises(Closed):
        await db.arun(adds("b"), write=True)


def test_a_loop_that_has_ended_keeps_nobody_waiting(db: Database) -> None:
    """Its answer has nobody to go to; another loop's, written in the same transaction, has."""
    blocking = Blocking()
    ended, other = asyncio.new_event_loop(), asyncio.new_event_loop()

    async def begin() -> list[Any]:
        return [await blocking.begun(db), asyncio.create_task(db.arun(adds("a"), write=True)), await settled()]

    async def another() -> str:
        task = asyncio.create_task(db.arun(adds("b"), write=True))
        await settled()
        blocking.go.set()
        return await task

    tasks = ended.run_until_complete(begin())
    ended.close()
    assert other.run_until_complete(another()) == "b"
    other.close()
    assert notes(db) == ["a", "b"]
    for task in tasks[:2]:
        task.cancel = task._log_destroy_pending = False
