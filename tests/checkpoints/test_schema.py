"""The schema: migrations equal the tables, upgrade safely, and tell when they do not fit."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from checkpoints.databases import bare_database, everywhere, sync_kinds
from checkpoints.graphs_that_ask import Loop
from checkpoints.workers import at_once, upgrade
from click.testing import CliRunner, Result
from langchain_core.messages import HumanMessage
from sqlalchemy import Connection, create_engine, event, make_url, text

from scallion.cli.db import db
from scallion.errors import ConfigurationError, SchemaError
from scallion.inbox import Inbox
from scallion.sql import schema
from scallion.sql.saver import SQLCheckpointer

database = bare_database
CONFIG = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}
servers = pytest.mark.parametrize("database", ["postgresql", "mariadb"], indirect=True)
local_and_servers = pytest.mark.parametrize("database", ["file", "postgresql", "mariadb"], indirect=True)


def differences(saver: SQLCheckpointer) -> list[object]:
    """What Alembic would change to make the database equal to the tables."""
    t = saver.database.tables

    def include(name: str | None, kind: str, _: object) -> bool:
        return kind != "schema" or name == t.schema

    def compared(conn: Connection) -> list[object]:
        options = {
            "version_table": t.version_table,
            "version_table_schema": t.schema,
            "include_schemas": t.schema is not None,
            "include_name": include,
            "compare_type": True,
            "compare_server_default": True,
        }
        return list(compare_metadata(MigrationContext.configure(conn, opts=options), t.metadata))

    return saver.database.run(compared)


@pytest.fixture
def schema_name(database: str) -> Iterator[str]:
    """The name of a schema that is not there, and is dropped after the test."""
    name = f"scallion-test_{uuid4().hex[:8]}"
    yield name
    if database.startswith("sqlite"):
        return
    end = '"{}" CASCADE' if database.startswith("postgresql") else "`{}`"
    change(database, f"DROP SCHEMA IF EXISTS {end.format(name)}")


@sync_kinds
@pytest.mark.parametrize("prefix", ["", "app_"])
def test_the_migrations_make_the_tables(database: str, prefix: str) -> None:
    with SQLCheckpointer(database, prefix=prefix) as saver:
        saver.setup()
        assert differences(saver) == []


@servers
@pytest.mark.parametrize("prefix", ["", "app_"])
def test_the_migrations_make_the_tables_in_a_schema(database: str, schema_name: str, prefix: str) -> None:
    with SQLCheckpointer(database, schema=schema_name, prefix=prefix) as saver:
        with pytest.raises(SchemaError, match=f"scallion db upgrade --schema {schema_name}"):
            saver.get_tuple(CONFIG)
        saver.setup()
        assert differences(saver) == []
        saver.database.run(lambda conn: schema.check_tables(conn, saver.database.tables))


@pytest.mark.parametrize("crash_at", [1, 5, 15])
@local_and_servers
def test_an_upgrade_that_crashed_is_run_again(database: str, crash_at: int) -> None:
    engine = create_engine(database)
    made = count()

    def crash(conn: Any, cursor: Any, statement: str, *more: Any) -> None:
        if statement.lstrip().startswith("CREATE ") and next(made) == crash_at:
            raise KeyboardInterrupt

    event.listen(engine, "before_cursor_execute", crash)
    with SQLCheckpointer(engine) as saver, pytest.raises(KeyboardInterrupt):
        saver.setup()
    event.remove(engine, "before_cursor_execute", crash)
    with SQLCheckpointer(engine, auto_upgrade=False) as saver:
        with pytest.raises(SchemaError, match="scallion db upgrade"):
            saver.get_tuple(CONFIG)
        saver.setup()
        assert differences(saver) == []
    engine.dispose()


@pytest.mark.parametrize("bare_database", ["file", "mariadb"], indirect=True)
@pytest.mark.parametrize(("first", "second"), [("sc_", "Sc_"), ("Sc_", "sc_")])
def test_prefixes_that_are_one_to_the_database(bare_database: str, first: str, second: str) -> None:
    with SQLCheckpointer(bare_database, prefix=first) as saver:
        saver.setup()
    with SQLCheckpointer(bare_database, prefix=second) as saver:
        for ask in (saver.setup, saver.sessions.list):
            with pytest.raises(
                SchemaError, match=f"prefix '{first}', which to this database is the same as '{second}'"
            ):
                ask()
    with SQLCheckpointer(bare_database, prefix="scs_") as saver:
        saver.setup()


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


@local_and_servers
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


@local_and_servers
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
    "DROP TABLE scallion_version": f"db stamp {schema.HEAD}",
    "DROP TABLE scallion_version; DROP TABLE approvals; DROP TABLE session_tags": "half made",
}


@pytest.mark.parametrize(("statements", "said"), HALF.items(), ids=HALF)
@local_and_servers
def test_a_half_made_database(database: str, statements: str, said: str) -> None:
    with SQLCheckpointer(database) as saver:
        saver.setup()
    change(database, *statements.split("; "))
    with SQLCheckpointer(database) as saver, pytest.raises(SchemaError, match=said):
        saver.setup()
    if "stamp" in said:
        assert run("stamp", schema.HEAD, "--db", database).exit_code == 0
        assert run("check", "--db", database).output == "the schema fits\n"


@local_and_servers
def test_tables_that_do_not_fit_their_revision(database: str) -> None:
    with SQLCheckpointer(database) as saver:
        saver.setup()
    change(database, "ALTER TABLE sessions DROP COLUMN version", "DROP TABLE session_tags")
    checked = run("check", "--db", database)
    assert checked.exit_code == 1
    assert "no session_tags, sessions.version" in checked.output


@local_and_servers
def test_an_index_that_is_missing(database: str) -> None:
    with SQLCheckpointer(database) as saver:
        saver.setup()
    of = " ON sessions" if database.startswith("mysql") else ""
    change(database, f"DROP INDEX sessions_owner{of}")
    assert "no index sessions_owner" in run("check", "--db", database).output


PLACES = [("", False), ("", True), ("a_", False), ("a_", True)]


@local_and_servers
def test_prefixes_and_schemas_share_a_database(database: str, schema_name: str) -> None:
    is_server = not database.startswith("sqlite")
    places = [(prefix, schema_name if own else None) for prefix, own in PLACES if is_server or not own]
    for n, (prefix, schema_) in enumerate(places):
        with SQLCheckpointer(database, prefix=prefix, schema=schema_, auto_upgrade=True) as saver:
            thread = f"t{n}"
            Loop(saver).graph.invoke({"messages": [HumanMessage("pay")]}, {"configurable": {"thread_id": thread}})
            assert [one.thread for one in saver.sessions.list().items] == [thread]
            saver.sessions.tag(thread, "mine")
            saver.copy_thread(thread, "copy")
            saver.prune([thread])
            saver.delete_thread("copy")
        with Inbox(database, prefix=prefix, schema=schema_) as inbox:
            assert {one.thread for one in inbox.approvals.list().items} == {thread}
            assert inbox.sessions.list(tag="mine").items[0].status == "paused"


@servers
def test_an_upgrade_waits_only_for_one_of_the_same_tables(database: str, schema_name: str) -> None:
    with (
        SQLCheckpointer(database) as one,
        SQLCheckpointer(database, prefix="b_") as two,
        SQLCheckpointer(database, schema=schema_name) as three,
    ):

        def upgrade_others(conn: Connection) -> None:
            with schema._locked(conn, one.database.tables):
                two.setup()
                three.setup()

        one.database._work(upgrade_others, True)
        assert two.sessions.list().items == three.sessions.list().items == []


@pytest.mark.parametrize(
    "wrong", [{"prefix": "a b"}, {"prefix": "1"}, {"prefix": "x" * 33}, {"schema": "a.b"}, {"schema": ""}]
)
def test_names_are_checked_where_they_are_given(wrong: dict[str, str]) -> None:
    for make in (SQLCheckpointer, Inbox):
        with pytest.raises(ConfigurationError, match=next(iter(wrong))):
            make("postgresql+psycopg://host/name", **wrong)


def test_sqlite_has_no_schemas(database: str) -> None:
    for make in (SQLCheckpointer, Inbox):
        with pytest.raises(ConfigurationError, match="prefix="):
            make(database, schema="scallion")
    assert "use --prefix" in run("upgrade", "--db", database, "--schema", "scallion").output


@pytest.mark.parametrize("database", ["postgresql"], indirect=True)
def test_a_schema_that_may_not_be_made(database: str, schema_name: str) -> None:
    role = f"scallion_test_{uuid4().hex[:8]}"
    change(database, f"CREATE ROLE {role} LOGIN")
    try:
        own = make_url(database).set(username=role)
        with SQLCheckpointer(own, schema=schema_name) as saver, pytest.raises(SchemaError, match=schema_name):
            saver.setup()
    finally:
        change(database, f"DROP ROLE {role}")


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
    sqlite3.connect(str(make_url(database).database)).close()
    assert run("check", "--db", database).exit_code == 1
    assert run("current", "--db", database).output == "no schema\n"
    assert run("stamp", "0001", "--db", database).exit_code == 0
    assert "run `scallion db stamp base`" in run("upgrade", "--db", database).output
    assert run("stamp", "base", "--db", database).output == "the database is marked as one without a schema\n"
    assert f", {schema.HEAD} and head)" in run("stamp", "9999", "--db", database).output
    assert run("upgrade", "--db", f"{database}?timeout=8").output == f"the schema of {database} is at {schema.HEAD}\n"
    assert run("check", "--db", database).exit_code == 0
    assert run("stamp", "--db", database).exit_code == 0
    assert run("current", "--db", database).output == f"{schema.HEAD}\n"
    assert run("upgrade", "--db", "nonsense").output.startswith("Error: 'nonsense' is not the URL of a database")


@pytest.mark.parametrize("url", ["sqlite://", "postgresql+psycopg://host/name", "mysql+pymysql://host/name"])
def test_the_migration_as_sql(url: str) -> None:
    printed = run("upgrade", "--sql", "--db", url)
    assert printed.exit_code == 0
    assert "CREATE TABLE approvals" in printed.output
    printed = run("upgrade", "--sql", "--from", "0001", "--db", url)
    assert "CREATE TABLE keyring" in printed.output
    assert "CREATE TABLE approvals" not in printed.output
    assert run("upgrade", "--sql", "--from", "0815", "--db", url).output.startswith("Error: Can't locate revision")


@servers
def test_the_printed_sql_makes_the_tables(database: str, schema_name: str) -> None:
    options = ("--db", database, "--schema", schema_name)
    printed = run("upgrade", "--sql", *options).output
    change(database, *(part for part in printed.split(";\n") if part.strip()))
    assert run("check", *options).output == "the schema fits\n"
    assert run("current", *options).output == f"{schema.HEAD}\n"
    assert run("stamp", "0001", *options).output == "the schema is marked as 0001\n"
    assert f"older than {schema.HEAD}: run `scallion db upgrade --schema" in run("check", *options).output
    assert run("stamp", "0815", *options).output.startswith("Error: Can't locate revision")
    with SQLCheckpointer(database, schema=schema_name) as saver:
        saver.setup()
        assert differences(saver) == []


def test_the_migrations_are_found_in_the_repository() -> None:
    assert schema.location() == Path(__file__).parents[2] / "migrations"
