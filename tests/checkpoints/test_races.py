"""What another thread does between two steps of this one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from checkpoints.workers import put
from sqlalchemy import event

from scallion.errors import StorageError
from scallion.sql import loops, sessions
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
