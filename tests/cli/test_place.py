"""`--db`, `--schema` and `--prefix` say where the tables are, of every verb."""

from __future__ import annotations

import os
from collections.abc import Callable

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
    assert "prefix=" in refused.err
