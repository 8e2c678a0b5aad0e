"""`scallion db prune`: old checkpoints of threads that rest."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from scallion import Agent, SQLCheckpointer, approve, filters
from scallion.cli.db import db
from scallion.testing import ScriptedModel


def send(to: str) -> str:
    """Send a letter."""
    return f"sent to {to}"


def asking(messages: Any) -> Any:
    """Asks for a letter, then ends."""
    from scenes import asks, call

    return asks(call("send", to="ana")) if messages[-1].type == "human" else "done"


@pytest.fixture
def url(tmp_path: Path) -> str:
    """A database with a thread that rests since 2020, one that waits since then, and one of today."""
    url = f"sqlite:///{tmp_path / 'old.db'}"
    old = datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)
    for clock, threads in ((lambda: old, ("rests", "waits")), (None, ("new",))):
        with SQLCheckpointer(url, clock=clock) as saver:
            gate = [filters.approval({"send": True})]
            agent = Agent(ScriptedModel(asking), tools=[send], filters=gate, checkpointer=saver)
            for thread in threads:
                agent.invoke("go", thread=thread)
                if thread != "waits":
                    agent.resume(thread, approve())
    return url


def checkpoints(url: str) -> dict[str, int]:
    """How many checkpoints each thread has."""
    with SQLCheckpointer(url) as saver:
        threads = [one.thread for one in saver.sessions.list().items]
        return {one: len(list(saver.list({"configurable": {"thread_id": one}}))) for one in threads}


def prune(url: str, *options: str) -> Any:
    """Run the command."""
    return CliRunner().invoke(db, ["prune", "--db", url, *options])


def test_only_what_rests_is_pruned(url: str) -> None:
    before = checkpoints(url)
    assert prune(url, "--older-than", "30d", "--dry-run").stdout == "rests\n"
    assert checkpoints(url) == before
    assert prune(url, "--older-than", "30d").stdout == "rests\n"
    assert checkpoints(url) == {**before, "rests": 1}
    with SQLCheckpointer(url) as saver:
        agent = Agent(ScriptedModel(lambda messages: str(len(messages))), checkpointer=saver)
        assert agent.invoke("still there?", thread="rests").answer == "5"


def test_it_deletes_when_asked_to(url: str) -> None:
    assert prune(url, "--older-than", "52w", "--delete").stdout == "rests\n"
    assert set(checkpoints(url)) == {"waits", "new"}


def test_what_waits_for_a_person_is_pruned_only_when_asked_to(url: str) -> None:
    assert prune(url, "--older-than", "30d", "--keep-pending", "--delete", "--dry-run").stdout == "rests\n"
    assert prune(url, "--older-than", "30d", "--no-keep-pending").stdout == "rests\nwaits\n"
    with SQLCheckpointer(url) as saver:
        gate = [filters.approval({"send": True})]
        agent = Agent(ScriptedModel(asking), tools=[send], filters=gate, checkpointer=saver)
        assert agent.resume("waits", approve()).answer == "done"
    assert prune(url, "--older-than", "30d").stdout == ""


def test_a_second_time_there_is_nothing_to_do(url: str) -> None:
    assert prune(url, "--older-than", "30d").stdout == "rests\n"
    again = prune(url, "--older-than", "30d")
    assert (again.stdout, again.stderr) == ("", "0 thread(s) pruned\n")
    assert prune(url, "--older-than", "30d", "--no-keep-pending", "--delete").stdout == "rests\nwaits\n"


@pytest.mark.parametrize("age", ["30", "d", "soon", "-3d", "²d", "٣d", "99999999999999d", "9999999d", "9" * 5000 + "d"])
def test_an_age_that_is_none_is_a_usage_error(url: str, age: str) -> None:
    assert prune(url, "--older-than", age).exit_code == 2
