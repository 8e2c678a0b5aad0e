"""Databases for the tests: each test has its own, dropped afterwards; without a server it is skipped."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest
from sqlalchemy import create_engine, text
from sqlalchemy.exc import OperationalError

from scallion.sql.saver import SQLCheckpointer

SERVERS = {
    "postgresql": ("postgresql+psycopg://postgres@127.0.0.1/postgres", "postgresql+psycopg://postgres@127.0.0.1/{}"),
    "asyncpg": ("postgresql+psycopg://postgres@127.0.0.1/postgres", "postgresql+asyncpg://postgres@127.0.0.1/{}"),
    "mariadb": ("mysql+pymysql://root@127.0.0.1/mysql", "mysql+pymysql://root@127.0.0.1/{}"),
    "asyncmy": ("mysql+pymysql://root@127.0.0.1/mysql", "mysql+asyncmy://root@127.0.0.1/{}"),
}
LOCAL = ("file", "memory")


def _server(kind: str) -> Iterator[str]:
    admin_url, template = SERVERS[kind]
    admin = create_engine(admin_url, isolation_level="AUTOCOMMIT", connect_args={"connect_timeout": 3})
    name = f"scallion_test_{uuid4().hex[:12]}"
    try:
        with admin.connect() as conn:
            conn.execute(text(f"CREATE DATABASE {name}"))
    except OperationalError:
        admin.dispose()
        pytest.skip(f"NO SERVER for {kind} answers on 127.0.0.1")
    try:
        yield template.format(name)
    finally:
        with admin.connect() as conn:
            conn.execute(text(f"DROP DATABASE {name}" + (" WITH (FORCE)" if "postgres" in admin_url else "")))
        admin.dispose()


@pytest.fixture
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The URL of an empty database; parametrise it indirectly with a kind."""
    kind = getattr(request, "param", "file")
    if kind in SERVERS:
        yield from _server(kind)
    else:
        yield "sqlite://" if kind == "memory" else f"sqlite:///{tmp_path / 'test.db'}"


@pytest.fixture
def saver(database: str) -> Iterator[SQLCheckpointer]:
    """A saver on an empty database with its schema."""
    with SQLCheckpointer(database, auto_upgrade=True) as saver:
        yield saver


everywhere = pytest.mark.parametrize("database", [*LOCAL, *SERVERS], indirect=True)
sync_kinds = pytest.mark.parametrize("database", [*LOCAL, "postgresql", "mariadb"], indirect=True)
