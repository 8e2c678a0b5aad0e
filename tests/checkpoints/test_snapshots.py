"""Reads of a thread that others prune, delete or make anew meanwhile: what they give was there at one moment."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from checkpoints.journeys import ALLOWED, AT, delta, forked, plain
from checkpoints.workers import put
from sqlalchemy import Engine, delete, event, make_url

from scallion.errors import StorageError
from scallion.sql.saver import SQLCheckpointer
from scallion.sql.serde import StrictSerializer

DRIVERS = {"postgresql": "postgresql+psycopg", "mysql": "mysql+pymysql"}
RUN = {**AT, "metadata": {"run_id": "second"}}
servers = pytest.mark.parametrize("database", ["asyncpg", "mariadb"], indirect=True)
Read = Callable[[SQLCheckpointer, Any], Awaitable[Any]]


def opened(url: str) -> SQLCheckpointer:
    return SQLCheckpointer(url, serde=StrictSerializer(ALLOWED))


@pytest.fixture
def other(database: str) -> Iterator[SQLCheckpointer]:
    """Whoever changes the thread."""
    url = make_url(database)
    with opened(url.set(drivername=DRIVERS[url.get_backend_name()]).render_as_string(False)) as other:
        other.setup()
        yield other


@contextmanager
def after_query(number: int, change: Callable[[], Any]) -> Iterator[list[str]]:
    """Have the change happen after so many queries of what runs in here; gives the queries."""
    seen: list[str] = []
    changing: list[bool] = []

    def executed(conn: Any, cursor: Any, statement: str, *rest: Any) -> None:
        if not changing and statement.startswith(("SELECT", "WITH")):
            seen.append(statement)
            if len(seen) == number:
                changing.append(True)
                change()
                changing.clear()

    event.listen(Engine, "after_cursor_execute", executed)
    try:
        yield seen
    finally:
        event.remove(Engine, "after_cursor_execute", executed)


def begun(saver: SQLCheckpointer) -> Any:
    """A thread of two turns; gives the place of an old checkpoint, which has writes, as the newest does."""
    graph = forked(saver)
    graph.invoke({"log": ["first " * 9]}, AT)
    graph.invoke({"log": ["second " * 9, "round " * 9]}, RUN)
    found = list(saver.list(AT))
    for one in (found[0], found[2]):
        saver.put_writes(one.config, [("small", 1), ("large", "x" * 99)], "late")
    return found[2].config


def made_anew(saver: SQLCheckpointer) -> None:
    saver.delete_thread("t")
    forked(saver).invoke({"log": ["another " * 30]}, AT)


def taken_back(saver: SQLCheckpointer) -> None:
    """What was last in the log is gone, and something else is in its place."""
    saver.delete_for_runs(["second"])
    forked(saver).invoke({"log": ["third " * 9, "try " * 9]}, AT)


CHANGES: dict[str, Callable[[SQLCheckpointer], Any]] = {
    "pruned": lambda saver: saver.prune(["t"]),
    "deleted": lambda saver: saver.delete_thread("t"),
    "made anew": made_anew,
    "taken back": taken_back,
}


def told(found: Any) -> Any:
    return found and plain([found.checkpoint, found.metadata, found.pending_writes])


def listed(saver: SQLCheckpointer) -> list[Any]:
    return [told(one) for one in saver.list(AT)]


@servers
@pytest.mark.parametrize("change", CHANGES)
async def test_a_checkpoint_is_read_as_it_was_at_one_moment(database: str, other: SQLCheckpointer, change: str) -> None:
    for newest in (True, False):
        number, queries = 0, [""]
        while number < len(queries):
            other.delete_thread("t")
            old = begun(other)
            place: Any = AT if newest else old
            moments = [told(other.get_tuple(place))]
            async with opened(database) as saver:
                await saver.asetup()
                number += 1
                with after_query(number, lambda: CHANGES[change](other)) as queries:
                    found = told(await saver.aget_tuple(place))
            moments.append(told(other.get_tuple(place)))
            assert found in moments
        assert number >= 3


@servers
@pytest.mark.parametrize("change", CHANGES)
async def test_what_is_listed_was_there(database: str, other: SQLCheckpointer, change: str) -> None:
    for number in (2, 9):
        other.delete_thread("t")
        begun(other)
        before = listed(other)
        async with opened(database) as saver:
            await saver.asetup()
            with after_query(number, lambda: CHANGES[change](other)) as queries:
                found = [told(one) async for one in saver.alist(AT)]
        after = listed(other)
        assert len(queries) > number
        assert all(one in [*before, *after] for one in found)
        assert all(one in found for one in before if one in after)


@servers
@pytest.mark.parametrize("change", ["pruned", "deleted"])
async def test_a_history_is_read_as_it_was_at_one_moment(database: str, other: SQLCheckpointer, change: str) -> None:
    number, queries = 0, [""]
    while number < len(queries):
        other.delete_thread("t")
        for n in range(4):
            delta(other).invoke({"log": [f"word {n} " * 10]}, AT)
        moments = [other.get_delta_channel_history(config=AT, channels=["log"])]
        async with opened(database) as saver:
            await saver.asetup()
            number += 1
            with after_query(number, lambda: CHANGES[change](other)) as queries:
                found = await saver.aget_delta_channel_history(config=AT, channels=["log"])
        moments.append(other.get_delta_channel_history(config=AT, channels=["log"]))
        assert plain(found) in plain(moments)
    assert number > 2


@pytest.mark.parametrize("database", ["file", "postgresql", "mariadb"], indirect=True)
def test_a_part_that_never_comes_is_told(database: str) -> None:
    with opened(database) as saver:
        begun(saver)
        items = saver.database.tables.items
        saver.database.run(lambda conn: conn.execute(delete(items).where(items.c.type != "form")), write=True)
    with opened(database) as saver, pytest.raises(StorageError, match="parts of a thread are missing"):
        saver.get_tuple(AT)


@pytest.mark.parametrize("database", ["postgresql"], indirect=True)
def test_a_thread_that_is_made_and_deleted_while_it_is_made(database: str, other: SQLCheckpointer) -> None:
    """It was there, so that it was not made again, and gone before it was locked. MariaDB locks it at once."""
    made = [lambda: put(other), lambda: other.delete_thread("t")]

    def executed(conn: Any, cursor: Any, statement: str, *rest: Any) -> None:
        if made and "sessions" in statement and statement.startswith(("SELECT", "INSERT")):
            made.pop(0)()

    with opened(database) as saver:
        saver.setup()
        event.listen(saver.database.engine, "after_cursor_execute", executed)
        stored = put(saver)
        assert not made
        assert saver.get_tuple(stored) is not None


@servers
async def test_runs_are_deleted_of_a_thread_that_is_deleted(database: str, other: SQLCheckpointer) -> None:
    begun(other)
    async with opened(database) as saver:
        await saver.asetup()
        with after_query(1, lambda: other.delete_thread("t")):
            await saver.adelete_for_runs(["second"])
    assert other.sessions.get("t") is None
