"""What another thread does between two steps of this one."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext, suppress
from typing import Any

import pytest
from checkpoints.databases import LOCAL
from checkpoints.workers import put
from sqlalchemy import Connection, event, text

from scallion.errors import Closed, StorageError
from scallion.sql import loops, sessions, sqlite
from scallion.sql.saver import SQLCheckpointer

Step = Callable[[], Any]


@contextmanager
def around_inserts(saver: SQLCheckpointer, before: Step, after: Step, times: int) -> Iterator[None]:
    """Others do something before and after a session is inserted, so many times."""
    left = {"before": times, "after": times}

    def listener(name: str, step: Step) -> Callable[..., None]:
        def called(conn: Any, cursor: Any, statement: str, *more: Any) -> None:
            if statement.startswith("INSERT INTO sessions") and left[name]:
                left[name] -= 1
                step()

        event.listen(saver.database.engine, f"{name}_cursor_execute", called)
        return called

    added = {name: listener(name, step) for name, step in (("before", before), ("after", after))}
    yield
    for name, called in added.items():
        event.remove(saver.database.engine, f"{name}_cursor_execute", called)
    assert not any(left.values())


@pytest.mark.parametrize("database", ["postgresql"], indirect=True)
def test_a_thread_that_is_deleted_and_made_again_meanwhile(database: str, saver: SQLCheckpointer) -> None:
    """Only PostgreSQL leaves a row unlocked that an insert found in its way."""
    with SQLCheckpointer(database) as other:
        made, deleted = lambda: put(other), lambda: other.delete_thread("t")
        with around_inserts(saver, made, deleted, times=3):
            stored = put(saver)
        assert saver.get_tuple(stored) is not None
        with (
            around_inserts(saver, lambda: put(other, "u"), lambda: other.delete_thread("u"), times=sessions.ATTEMPTS),
            pytest.raises(StorageError, match="'u' is being deleted"),
        ):
            put(saver, "u")
        assert saver.get_tuple({"configurable": {"thread_id": "u"}}) is None


async def test_loops_that_come_while_the_ended_are_removed() -> None:
    class Engine:
        async def dispose(self) -> None: ...

    class Ended(asyncio.SelectorEventLoop):
        def is_closed(self) -> bool:
            lives[object()] = None  # as another thread adds its loop
            return super().is_closed()

    found = loops.Loops(lambda: Engine())  # type: ignore[arg-type, return-value]
    lives: Any = found._lives
    ended = Ended()
    ended.close()
    lives.clear()
    lives[ended] = None
    assert isinstance(await found.engine(), Engine)
    assert ended not in lives
    lives.clear()


local = pytest.mark.parametrize("database", LOCAL, indirect=True)


class Inside:
    """Work that stays inside of the database until it may go on."""

    def __init__(self) -> None:
        self.entered = threading.Semaphore(0)
        self.go = threading.Event()
        self.seen: list[Any] = []

    def work(self, conn: Connection) -> None:
        self.entered.release()
        assert self.go.wait(30)
        self.seen.append(conn.execute(text("SELECT 1")).scalar())

    def wait(self, count: int = 1) -> None:
        for _ in range(count):
            assert self.entered.acquire(timeout=30)


@pytest.fixture
def inside() -> Iterator[Inside]:
    made = Inside()
    yield made
    made.go.set()


@pytest.fixture
def threads() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(64) as made:
        yield made


@local
@pytest.mark.parametrize("write", [False, True])
def test_close_while_another_thread_is_inside(
    saver: SQLCheckpointer, threads: ThreadPoolExecutor, inside: Inside, write: bool
) -> None:
    saver.setup()
    working = threads.submit(saver.database.run, inside.work, write=write)
    inside.wait()
    closing = threads.submit(saver.close)
    with suppress(TimeoutError):
        closing.result(0.1)
    inside.go.set()
    assert working.result(30) is closing.result(30) is None
    assert inside.seen == [1]


@local
def test_who_waited_while_it_was_closed_is_told(saver: SQLCheckpointer, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file is waited for where forks are, one in memory where its only connection is."""
    put(saver)

    class Late:
        def __enter__(self) -> None:
            saver.database._single = nullcontext()
            saver.close()

        def __exit__(self, *error: object) -> None: ...

    monkeypatch.setattr(sqlite, "gate", Late())
    saver.database._single = Late()
    with pytest.raises(Closed):
        saver.get_tuple({"configurable": {"thread_id": "t"}})


@local
async def test_aclose_waits_for_what_cancelled_tasks_left_behind(saver: SQLCheckpointer, inside: Inside) -> None:
    saver.setup()
    task = asyncio.create_task(saver.database.arun(inside.work, write=True))
    await asyncio.to_thread(inside.wait)
    task.cancel()
    closing = asyncio.create_task(saver.aclose())
    await asyncio.wait([task, closing], timeout=0.1)
    assert task.cancelled()
    assert not closing.done()
    with pytest.raises(Closed):
        await saver.sessions.alist()
    inside.go.set()
    await closing
    assert inside.seen == [1]


def test_more_threads_than_connections(saver: SQLCheckpointer, threads: ThreadPoolExecutor, inside: Inside) -> None:
    saver.setup()
    started = [threads.submit(saver.database.run, inside.work) for _ in range(sqlite.AtHand.MOST)]
    inside.wait(sqlite.AtHand.MOST)
    started += [threads.submit(saver.database.run, inside.work) for _ in range(5)]
    time.sleep(0.1)  # they wait
    inside.go.set()
    assert [one.result(10) for one in started] == [None] * 45


def test_connections_that_nobody_gives_back(saver: SQLCheckpointer, monkeypatch: pytest.MonkeyPatch) -> None:
    saver.setup()
    for name, value in (("MOST", 2), ("WAIT", 0.02)):
        monkeypatch.setattr(sqlite.AtHand, name, value)
    read: Any = lambda conn: conn.execute(text("SELECT 1")).scalar()  # noqa: E731
    run = saver.database.run
    assert run(lambda conn: run(read)) == 1
    with pytest.raises(StorageError, match="all 2 connections"):
        run(lambda conn: run(lambda inner: run(read)))
    assert run(lambda conn: run(read)) == 1
