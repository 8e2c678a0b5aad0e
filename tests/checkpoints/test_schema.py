"""The schema: migrations equal the tables, upgrade safely, and tell when they do not fit."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from checkpoints.databases import bare_database, everywhere, sync_kinds
from checkpoints.workers import at_once, upgrade
from click.testing import CliRunner, Result
from langgraph.checkpoint.base import empty_checkpoint
from sqlalchemy import Connection, create_engine, text

from scallion.cli.db import db
from scallion.errors import SchemaError
from scallion.inbox import Inbox
from scallion.sql import schema
from scallion.sql.saver import SQLCheckpointer

database = bare_database
CONFIG = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}


@sync_kinds
@pytest.mark.parametrize("prefix", ["", "app_"])
def test_the_migrations_make_the_tables(database: str, prefix: str) -> None:
    with SQLCheckpointer(database, prefix=prefix) as saver:
        saver.setup()
        t = saver.database.tables

        def differences(conn: Connection) -> list[object]:
            options = {"version_table": t.version_table, "compare_type": True, "compare_server_default": True}
            return list(compare_metadata(MigrationContext.configure(conn, opts=options), t.metadata))

        assert saver.database.run(differences) == []


@sync_kinds
def test_a_server_is_not_migrated_unasked(database: str) -> None:
    with SQLCheckpointer(database, auto_upgrade=False) as saver:
        with pytest.raises(SchemaError, match="scallion db upgrade"):
            saver.get_tuple(CONFIG)
        saver.setup()
        assert saver.get_tuple(CONFIG) is None


@everywhere
async def test_the_async_setup(database: str) -> None:
    async with SQLCheckpointer(database, auto_upgrade=False) as saver:
        with pytest.raises(SchemaError):
            await saver.aget_tuple(CONFIG)
        await saver.asetup()
        await saver.asetup()
        assert await saver.aget_tuple(CONFIG) is None


@pytest.mark.parametrize(
    ("revision", "said", "upgrade"), [("0000", "older", False), ("9999", "newer", True), ("9999", "newer", False)]
)
def test_another_version_is_told(database: str, revision: str, said: str, upgrade: bool) -> None:
    with SQLCheckpointer(database) as saver:
        saver.setup()
        change = text(f"UPDATE {saver.database.tables.version_table} SET version_num = '{revision}'")
        saver.database.run(lambda conn: conn.execute(change), write=True)
    with SQLCheckpointer(database, auto_upgrade=upgrade) as saver, pytest.raises(SchemaError, match=said):
        saver.get_tuple(CONFIG)


@pytest.mark.parametrize("database", ["file", "postgresql", "mariadb"], indirect=True)
def test_many_processes_upgrade_at_once(database: str) -> None:
    assert at_once(upgrade, [(database,)] * 4) == [0] * 4
    with SQLCheckpointer(database) as saver:
        assert len(list(saver.list(CONFIG))) == 4


def change(url: str, *statements: str) -> None:
    engine = create_engine(url)
    with engine.begin() as conn:
        for statement in statements:
            conn.execute(text(statement))
    engine.dispose()


@pytest.mark.parametrize("database", ["file", "postgresql", "mariadb"], indirect=True)
@pytest.mark.parametrize("name", ["sessions", "writes"])
def test_tables_of_another_program(database: str, name: str) -> None:
    change(database, f"CREATE TABLE {name} (id INTEGER)")
    for auto_upgrade in (True, False):
        with (
            SQLCheckpointer(database, auto_upgrade=auto_upgrade) as saver,
            pytest.raises(SchemaError, match=rf"another program .*\({name}\).*prefix="),
        ):
            saver.get_tuple(CONFIG)
    assert run("upgrade", "--db", database).exit_code == 1
    with SQLCheckpointer(database, prefix="agent_", auto_upgrade=True) as saver:
        assert saver.get_tuple(CONFIG) is None


HALF = {
    "DELETE FROM scallion_version": "db stamp 0002",
    "DROP TABLE scallion_version": "db stamp 0002",
    "DROP TABLE scallion_version; DROP TABLE approvals; DROP TABLE session_tags": "half made",
}


@pytest.mark.parametrize(("statements", "said"), HALF.items(), ids=HALF)
@pytest.mark.parametrize("database", ["file", "postgresql", "mariadb"], indirect=True)
def test_a_half_made_database(database: str, statements: str, said: str) -> None:
    with SQLCheckpointer(database) as saver:
        saver.setup()
    change(database, *statements.split("; "))
    with SQLCheckpointer(database) as saver, pytest.raises(SchemaError, match=said):
        saver.setup()
    if "stamp" in said:
        assert run("stamp", "0002", "--db", database).exit_code == 0
        assert run("check", "--db", database).output == "the schema fits\n"


@pytest.mark.parametrize("database", ["file", "postgresql", "mariadb"], indirect=True)
def test_tables_that_do_not_fit_their_revision(database: str) -> None:
    with SQLCheckpointer(database) as saver:
        saver.setup()
    change(database, "ALTER TABLE sessions DROP COLUMN version", "DROP TABLE session_tags")
    checked = run("check", "--db", database)
    assert checked.exit_code == 1
    assert "no session_tags, sessions.version" in checked.output


def test_two_prefixes_share_a_database(database: str) -> None:
    with SQLCheckpointer(database, prefix="a_") as one, SQLCheckpointer(database, prefix="b_") as two:
        one.put(CONFIG, empty_checkpoint(), {"source": "input", "step": -1, "parents": {}}, {})
        assert one.sessions.get("t") is not None
        assert two.sessions.get("t") is None


def _used_modules(code: str) -> set[str]:
    script = f"{code}\nimport sys; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return {name.split(".")[0] for name in done.stdout.split()}


def test_the_inbox_is_light(database: str) -> None:
    with Inbox(database) as inbox:
        assert inbox.approvals.list().items == []
    heavy = {"langgraph", "langchain", "langchain_core", "alembic", "pydantic", "jsonschema"}
    code = f"from scallion.inbox import Inbox; i = Inbox({database!r}); i.approvals.list(); i.sessions.list()"
    assert _used_modules(code) & heavy == set()
    code = f"from scallion.sql.saver import SQLCheckpointer as S; S({database!r}).get_tuple({CONFIG!r})"
    assert "alembic" not in _used_modules(code)


def run(*arguments: str) -> Result:
    return CliRunner().invoke(db, arguments)


def test_the_commands(database: str) -> None:
    assert run("check", "--db", database).exit_code == 1
    assert run("current", "--db", database).output == "no schema\n"
    assert run("upgrade", "--db", database).output == f"the schema is at {schema.HEAD}\n"
    assert run("check", "--db", database).exit_code == 0
    assert run("stamp", "--db", database).exit_code == 0
    assert run("current", "--db", database).output == f"{schema.HEAD}\n"
    assert run("upgrade", "--db", "nonsense").output.startswith("Error: 'nonsense' is not the URL of a database")


@pytest.mark.parametrize("url", ["sqlite://", "postgresql+psycopg://host/name", "mysql+pymysql://host/name"])
def test_the_migration_as_sql(url: str) -> None:
    printed = run("upgrade", "--sql", "--db", url)
    assert printed.exit_code == 0
    assert "CREATE TABLE approvals" in printed.output


def test_the_migrations_are_found_in_the_repository() -> None:
    assert schema.location() == Path(__file__).parents[2] / "migrations"
