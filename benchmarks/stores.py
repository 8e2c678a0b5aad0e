"""Every saver that is measured, on an empty store of its own, and how many bytes that store holds on disk."""

from __future__ import annotations

import os
import sqlite3
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.postgres import PostgresSaver
from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from sqlalchemy import create_engine, make_url, text

from scallion import SQLCheckpointer

POSTGRES = os.environ.get("SCALLION_TEST_POSTGRES_URL", "postgresql+psycopg://postgres@127.0.0.1:5432/postgres")

Opened = tuple[Any, Callable[[], int]]
"""A saver, and what tells the bytes of its store."""


@contextmanager
def sqlite_file() -> Iterator[tuple[str, Callable[[], int]]]:
    """The path of a file that is not there yet, and its size."""
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/store.db"
        yield path, lambda: _checkpointed(path)


def _checkpointed(path: str) -> int:
    with sqlite3.connect(path) as conn:
        conn.execute("PRAGMA wal_checkpoint(PASSIVE)")
    conn.close()
    return Path(path).stat().st_size


@contextmanager
def postgres_database() -> Iterator[tuple[str, Callable[[], int]]]:
    """The URL of a new database, and the bytes of its tables with their indexes."""
    name = f"scallion_bench_{uuid4().hex[:12]}"
    admin = create_engine(POSTGRES, isolation_level="AUTOCOMMIT")
    url = make_url(POSTGRES).set(database=name)
    with admin.connect() as conn:
        conn.execute(text(f"CREATE DATABASE {name}"))
    own = create_engine(url, isolation_level="AUTOCOMMIT")
    sizes = text("SELECT sum(pg_total_relation_size(relid)) FROM pg_stat_user_tables")

    def size() -> int:
        with own.connect() as conn:
            return int(conn.execute(sizes).scalar_one())

    try:
        yield url.render_as_string(False), size
    finally:
        own.dispose()
        with admin.connect() as conn:
            conn.execute(text(f"DROP DATABASE {name} WITH (FORCE)"))
        admin.dispose()


def _plain(url: str) -> str:
    return make_url(url).set(drivername="postgresql").render_as_string(False)


@asynccontextmanager
async def nothing() -> AsyncIterator[Opened]:
    """No saver: the graph gets the whole history as its input."""
    yield None, lambda: 0


@asynccontextmanager
async def in_memory() -> AsyncIterator[Opened]:
    """LangGraph's saver without a disk."""
    saver = InMemorySaver()
    yield saver, lambda: sum(len(blob[1]) for blob in saver.blobs.values())


@asynccontextmanager
async def sqlite_saver() -> AsyncIterator[Opened]:
    """LangGraph's on SQLite, sync."""
    with sqlite_file() as (path, size), SqliteSaver.from_conn_string(path) as saver:
        yield saver, size


@asynccontextmanager
async def async_sqlite_saver() -> AsyncIterator[Opened]:
    """LangGraph's on SQLite, async."""
    with sqlite_file() as (path, size):
        async with AsyncSqliteSaver.from_conn_string(path) as saver:
            yield saver, size


@asynccontextmanager
async def postgres_saver() -> AsyncIterator[Opened]:
    """LangGraph's on PostgreSQL, sync."""
    with postgres_database() as (url, size), PostgresSaver.from_conn_string(_plain(url)) as saver:
        saver.setup()
        yield saver, size


@asynccontextmanager
async def async_postgres_saver() -> AsyncIterator[Opened]:
    """LangGraph's on PostgreSQL, async."""
    with postgres_database() as (url, size):
        async with AsyncPostgresSaver.from_conn_string(_plain(url)) as saver:
            await saver.setup()
            yield saver, size


@asynccontextmanager
async def scallion_sqlite() -> AsyncIterator[Opened]:
    """Ours on SQLite, both colours."""
    with sqlite_file() as (path, size):
        async with SQLCheckpointer(f"sqlite:///{path}") as saver:
            saver.setup()
            yield saver, size


@asynccontextmanager
async def scallion_postgres() -> AsyncIterator[Opened]:
    """Ours on PostgreSQL, both colours."""
    with postgres_database() as (url, size):
        async with SQLCheckpointer(url) as saver:
            saver.setup()
            yield saver, size


STORES: dict[str, Callable[[], AbstractAsyncContextManager[Opened]]] = {
    "no saver": nothing,
    "InMemorySaver": in_memory,
    "SqliteSaver": sqlite_saver,
    "AsyncSqliteSaver": async_sqlite_saver,
    "Scallion, SQLite": scallion_sqlite,
    "Scallion, SQLite, async": scallion_sqlite,
    "PostgresSaver": postgres_saver,
    "AsyncPostgresSaver": async_postgres_saver,
    "Scallion, PostgreSQL": scallion_postgres,
    "Scallion, PostgreSQL, async": scallion_postgres,
}


def is_async(name: str) -> bool:
    """Whether the saver of that name is driven from an event loop."""
    return "async" in name.lower()
