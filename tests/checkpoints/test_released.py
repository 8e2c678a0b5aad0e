"""Databases of earlier releases, made by `released/make.py`, open after an upgrade with everything in them."""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from checkpoints.databases import bare_database
from checkpoints.released import threads
from checkpoints.test_schema import differences, run
from checkpoints.workers import at_once, upgrade
from langgraph.types import Command
from sqlalchemy import Engine, MetaData, Table, create_engine, event, func, select, text

from scallion import Completed, SQLCheckpointer, approve
from scallion.errors import SchemaError
from scallion.sql import schema

database = bare_database
RELEASED = Path(__file__).parent / "released"
everywhere = pytest.mark.parametrize("database", ["file", "postgresql", "mariadb"], indirect=True)
releases = pytest.mark.parametrize("revision", sorted(file.stem for file in RELEASED.glob("*.json")))


def document(revision: str) -> Any:
    return json.loads((RELEASED / f"{revision}.json").read_text())


@pytest.fixture
def released(database: str, revision: str) -> str:
    """The database of that release."""
    engine = create_engine(database)
    printed = (RELEASED / f"{revision}.{engine.dialect.name}.sql").read_text()
    with engine.begin() as conn:
        for statement in printed.split(";\n"):
            if statement.strip():
                conn.execute(text(statement))
        for name, rows in document(revision)["rows"].items():
            table = Table(name, MetaData(), autoload_with=conn)
            conn.execute(table.insert(), [{column: stored(value) for column, value in row.items()} for row in rows])
            if "no" in table.c and engine.dialect.name == "postgresql":  # the rows were given their numbers here
                conn.execute(select(func.setval(f"{name}_no_seq", select(func.max(table.c.no)).scalar_subquery())))
    engine.dispose()
    return database


def stored(value: Any) -> Any:
    return b64decode(value["base64"]) if isinstance(value, dict) else value


def check_everything_is_there(saver: SQLCheckpointer, revision: str) -> None:
    """What is read is what the release read, then every thread goes on."""
    expected = document(revision)
    assert json.loads(json.dumps(threads.history(saver))) == expected["history"]
    for kind, before in expected["listed"].items():
        now = threads.listed(saver)[kind]
        assert [{name: one[name] for name in old} for old, one in zip(before, now, strict=True)] == before
    agent = threads.desk(saver)
    assert agent.invoke("Hello", thread="idle").answer.startswith("Reply 5")
    assert saver.sessions.list(tag="vip").items[0].thread == "idle"
    for thread, decision in (("paused", approve()), ("decided", None)):
        done = agent.resume(thread, decision)
        assert isinstance(done, Completed)
        assert "7 paid back" in done.answer
    assert threads.nested(saver).invoke(Command(resume="Mira"), threads.place("nested")) == {"name": "Mira"}
    assert saver.approvals.list().items == []
    saver.prune(list(threads.THREADS))
    saver.delete_thread("paused")
    assert {one.thread for one in saver.sessions.list().items} == {"idle", "decided", "nested"}


@everywhere
@releases
def test_a_released_database_opens_after_an_upgrade(released: str, revision: str) -> None:
    with (
        SQLCheckpointer(released, auto_upgrade=False) as saver,
        pytest.raises(SchemaError, match=f"is at {revision}, older than {schema.HEAD}: run `scallion db upgrade`"),
    ):
        saver.sessions.list()
    assert run("current", "--db", released).output == f"{revision}\n"
    assert run("upgrade", "--db", released).output == f"the schema of {released} is at {schema.HEAD}\n"
    assert run("check", "--db", released).output == "the schema fits\n"
    with SQLCheckpointer(released) as saver:
        assert differences(saver) == []
        check_everything_is_there(saver, revision)


@everywhere
@releases
def test_many_processes_upgrade_a_released_database_at_once(released: str, revision: str) -> None:
    assert at_once(upgrade, [(released,)] * 4) == [0] * 4
    with SQLCheckpointer(released) as saver:
        assert differences(saver) == []
        saver.delete_thread("t")
        check_everything_is_there(saver, revision)


@everywhere
@releases
def test_an_upgrade_of_a_released_database_that_crashed_is_run_again(released: str, revision: str) -> None:
    engine = create_engine(released)
    for crash_at in count():
        with SQLCheckpointer(engine, auto_upgrade=False) as saver:
            if not crashes(engine, crash_at, saver.setup):
                break
            with pytest.raises(SchemaError, match=f"older than {schema.HEAD}: run `scallion db upgrade`"):
                saver.sessions.list()
    assert crash_at > 3
    with SQLCheckpointer(engine) as saver:
        assert differences(saver) == []
        check_everything_is_there(saver, revision)
    engine.dispose()


def crashes(engine: Engine, at: int, setup: Callable[[], None]) -> bool:
    """Whether an upgrade that is interrupted before that many changes of tables was."""
    changes = count()

    def crash(conn: Any, cursor: Any, statement: str, *more: Any) -> None:
        if statement.lstrip().startswith(("CREATE ", "ALTER ", "DROP ", "UPDATE ")) and next(changes) == at:
            raise KeyboardInterrupt

    event.listen(engine, "before_cursor_execute", crash)
    try:
        setup()
    except KeyboardInterrupt:
        return True
    finally:
        event.remove(engine, "before_cursor_execute", crash)
    return False


def test_an_older_program_on_a_newer_schema_says_so(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with SQLCheckpointer(database) as saver:
        saver.setup()
    monkeypatch.setattr(schema, "HEAD", "0001")
    for verb in ("upgrade", "check"):
        told = run(verb, "--db", database)
        assert told.exit_code == 1
        assert "newer than 0001 of this program: run `pip install --upgrade scallion`" in told.output
