"""Engines of the caller: whatever they are set to, what is written is written as a whole, and they stay as they are."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from checkpoints.graphs_that_ask import Loop
from langchain_core.messages import HumanMessage
from sqlalchemy import Connection, Engine, create_engine, event, insert, make_url, select, text
from sqlalchemy.ext.asyncio import create_async_engine

from scallion.errors import ConfigurationError
from scallion.inbox import Inbox
from scallion.sql.saver import SQLCheckpointer
from scallion.values import respond

CONFIG: Any = {"configurable": {"thread_id": "t"}}


def half(saver: SQLCheckpointer) -> Any:
    """A piece of work that fails after it has written."""
    keyring = saver.database.tables.keyring

    def work(conn: Connection) -> None:
        conn.execute(insert(keyring).values(no=1, id="half", since=1))
        raise LookupError

    return work


def written(saver: SQLCheckpointer) -> Any:
    return saver.database.run(lambda conn: conn.execute(select(saver.database.tables.keyring.c.id)).scalars().all())


def commits_by_itself(conn: Connection) -> bool:
    return conn.dialect.detect_autocommit_setting(conn.connection.dbapi_connection)


@contextmanager
def on(engine: Engine) -> Iterator[SQLCheckpointer]:
    with SQLCheckpointer(engine, auto_upgrade=True) as saver:
        yield saver
    engine.dispose()


async def goes_on(saver: SQLCheckpointer) -> None:
    """A graph asks in one colour and goes on in the other; a piece of work that fails leaves nothing, in either."""
    graph = Loop(saver).graph
    graph.invoke({"messages": [HumanMessage("pay")]}, CONFIG)
    while asked := (await saver.approvals.alist()).items:
        for one in asked:
            await saver.approvals.adecide(one.id, respond("yes"))
        await graph.ainvoke(await saver.acommand_for("t"), CONFIG)
    assert saver.status("t") == "idle"
    with pytest.raises(LookupError):
        saver.database.run(half(saver), write=True)
    with pytest.raises(LookupError):
        await saver.database.arun(half(saver), write=True)
    assert written(saver) == []


@pytest.mark.parametrize("level", ["AUTOCOMMIT", "SERIALIZABLE", "READ UNCOMMITTED"])
@pytest.mark.parametrize("database", ["file", "postgresql", "mariadb"], indirect=True)
async def test_an_engine_with_an_isolation_level_of_its_own(database: str, level: Any) -> None:
    engine = create_engine(database, isolation_level=level)
    with on(engine) as saver:
        await goes_on(saver)
        with engine.connect() as conn:
            assert commits_by_itself(conn) is (level == "AUTOCOMMIT" or saver.database.is_sqlite)
    with on(create_engine(database).execution_options(isolation_level=level)) as saver:
        await goes_on(saver)


@pytest.mark.parametrize("database", ["asyncpg", "asyncmy"], indirect=True)
async def test_an_async_engine_that_commits_by_itself(database: str) -> None:
    engine = create_async_engine(database, isolation_level="AUTOCOMMIT")
    async with SQLCheckpointer(engine, auto_upgrade=True) as saver:
        await goes_on(saver)
    async with engine.connect() as conn:
        assert await conn.run_sync(commits_by_itself)
    await engine.dispose()


@pytest.mark.parametrize("database", ["postgresql", "mariadb"], indirect=True)
async def test_a_driver_that_commits_by_itself_is_refused(database: str) -> None:
    """To change it for a transaction would change it for good, for whoever else uses the connection."""
    engine = create_engine(database, connect_args={"autocommit": True}, pool_size=1, max_overflow=0)
    with on(engine) as saver:
        for _ in range(2):
            with pytest.raises(ConfigurationError, match='isolation_level="AUTOCOMMIT"'):
                saver.sessions.list()
        with pytest.raises(ConfigurationError, match='isolation_level="AUTOCOMMIT"'):
            await saver.approvals.alist()
        with engine.connect() as conn:
            assert commits_by_itself(conn)


@pytest.mark.parametrize("database", ["asyncmy"], indirect=True)
async def test_an_async_driver_that_commits_by_itself_is_refused(database: str) -> None:
    engine = create_async_engine(database, connect_args={"autocommit": True})
    async with SQLCheckpointer(engine, auto_upgrade=True) as saver:
        with pytest.raises(ConfigurationError, match='isolation_level="AUTOCOMMIT"'):
            await saver.approvals.alist()
    await engine.dispose()


@pytest.mark.parametrize("begin", ["BEGIN", "BEGIN IMMEDIATE"])
async def test_an_engine_that_begins_by_itself(database: str, begin: str) -> None:
    """As SQLAlchemy's page on SQLite has it, for savepoints."""
    engine = create_engine(database)
    event.listen(engine, "connect", lambda raw, _: setattr(raw, "isolation_level", None))
    event.listen(engine, "begin", lambda conn: conn.exec_driver_sql(begin))
    with on(engine) as saver:
        await goes_on(saver)


@pytest.mark.parametrize("database", ["postgresql"], indirect=True)
async def test_psycopg_named_by_its_asyncio_side(database: str) -> None:
    url = make_url(database).set(drivername="postgresql+psycopg_async")
    async with SQLCheckpointer(url) as saver:
        await goes_on(saver)
    engine = create_async_engine(url)
    async with SQLCheckpointer(engine) as saver:
        await goes_on(saver)
    await engine.dispose()


@pytest.mark.parametrize("database", ["postgresql", "asyncpg"], indirect=True)
async def test_an_engine_whose_connections_are_used_by_both(database: str) -> None:
    """A transaction of the caller's on the same pool is as it was."""
    engine = create_engine(make_url(database).set(drivername="postgresql+psycopg"), pool_size=1, max_overflow=0)
    with Inbox(engine) as inbox:
        for _ in range(2):
            inbox.sessions.list()
            with engine.begin() as conn:
                assert conn.execute(text("SHOW transaction_isolation")).scalar() == "read committed"
    engine.dispose()
