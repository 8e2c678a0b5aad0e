"""`--db`, `--schema` and `--prefix` say where the tables are, of every verb."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from tests.cli.command import CLERK, Command

from scallion import SQLCheckpointer


@pytest.fixture
def beside(here: Command) -> None:
    """Another set of tables in the same database, with a thread."""
    with SQLCheckpointer(os.environ["SCALLION_DB"], prefix="app_") as saver:
        place = {"configurable": {"thread_id": "theirs", "checkpoint_ns": ""}}
        checkpoint = {"v": 1, "id": "1", "ts": "", "channel_values": {}, "channel_versions": {}, "versions_seen": {}}
        saver.put(place, checkpoint, {"source": "input", "step": -1, "parents": {}}, {})  # type: ignore[arg-type]


@pytest.mark.parametrize("words", [("--prefix", "app_", "sessions"), ("sessions", "--prefix", "app_")])
def test_a_prefix(here: Command, paused: Callable[..., list[str]], beside: None, words: tuple[str, ...]) -> None:
    paused("pay")
    assert [one["thread"] for one in here("sessions", "--json").data["items"]] == ["t"]
    assert [one["thread"] for one in here(*words, "--json").data["items"]] == ["theirs"]
    assert here("pending", "--json").data["items"] == []
    assert here("show", "theirs").status == 0


def test_an_agent_that_keeps_its_threads_elsewhere(here: Command, beside: None) -> None:
    refused = here("run", CLERK, "hello", "--prefix", "app_")
    assert refused.status == 1
    assert "SCALLION_PREFIX" in refused.err


@pytest.mark.parametrize("words", [("sessions",), ("pending",), ("show", "t"), ("db", "check")])
def test_sqlite_has_no_schemas(here: Command, beside: None, words: tuple[str, ...]) -> None:
    refused = here(*words, "--schema", "app")
    assert refused.status == 1
    assert "use --prefix instead of --schema" in refused.err


@pytest.mark.parametrize(
    "words",
    [
        ("check",), ("current",), ("stamp",), ("export", "t"), ("rekey", "--decrypt"),
        ("prune", "--older-than", "1d"), ("prune", "--older-than", "1d", "--dry-run"),
    ],
)  # fmt: skip
def test_a_file_that_is_not_there_is_not_made(here: Command, place: Path, words: tuple[str, ...]) -> None:
    done = here("db", *words, "--db", "sqlite:///no_such.db")
    assert (done.status, "there is no database at no_such.db" in done.err) == (1, True)
    assert not (place / "no_such.db").exists()


def test_where_an_upgrade_begins_is_for_its_sql(here: Command, place: Path) -> None:
    done = here("db", "upgrade", "--from", "0001")
    assert (done.status, "--sql" in done.err) == (2, True)
    assert not (place / "threads.db").exists()


def test_an_error_speaks_of_options(here: Command, place: Path) -> None:
    with closing(sqlite3.connect(place / "threads.db")) as conn:
        conn.execute("CREATE TABLE sessions (id INTEGER)")
    for done in (here("db", "upgrade"), here("db", "check"), here("sessions")):
        assert done.status == 1
        assert "give yours a --prefix" in done.err
    assert "--prefix is at most" in here("sessions", "--prefix", "9").err
