"""`doctor`: tells what is wrong, mends it, and takes it back."""

import importlib
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from tests.cli.command import Command
from tests.cli.test_show import Note, Parcel, Post

from scallion import SQLCheckpointer
from scallion.sql.doctor import standing

FILE = str(Path(__file__).parent / "wayfarer.py")
CALL = {"name": "pay", "args": {"card": "S3CRET"}, "id": "c1\x1b[31m"}
DAMAGED: Any = [HumanMessage("S3CRET"), AIMessage("", tool_calls=[CALL]), HumanMessage("more")]


@pytest.fixture
def ways(place: Path) -> Iterator[Any]:
    """The module, its graphs on the database of the test."""
    module = importlib.reload(importlib.import_module("tests.cli.wayfarer"))
    yield module
    module.saver.close()


def config(thread: str) -> Any:
    return {"configurable": {"thread_id": thread}}


@pytest.fixture
def damaged(ways: Any) -> Any:
    """Two threads with a call without a result, and one without fault."""
    for thread, messages in (("a", DAMAGED), ("b", DAMAGED[:1]), ("c", DAMAGED)):
        ways.steps.invoke({"messages": messages}, config(thread))
    return ways


def test_nothing_is_wrong(here: Command, paused: Callable[..., list[str]]) -> None:
    """Where a thread waits for a person."""
    paused("both")
    done = here("doctor")
    assert (done.status, done.out, done.err) == (0, "nothing is wrong\n", "")
    assert here("doctor", "t", "--json").data == {"items": []}


def test_all_threads(here: Command, damaged: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Told without a text or an argument; mended, told again as mended; taken back one by one."""
    found = here("doctor")
    assert (found.status, found.out.splitlines()) == (
        1,
        [
            line
            for thread in "ac"
            for line in (
                f"{thread}: call c1\\x1b[31m of pay has no result",
                "  --repair: it is answered: whether it took effect is not known",
            )
        ],
    )
    mended = here("doctor", "--repair")
    assert (mended.status, mended.out.count("repaired: it is answered")) == (0, 2)
    assert here("doctor", "--repair").out == "nothing is wrong\n"
    assert isinstance(damaged.steps.get_state(config("c")).values["messages"][2], ToolMessage)
    assert here("doctor", "c", "--undo").out == "taken back: dangling_call\n"
    assert [one["thread"] for one in here("doctor", "--json").data["items"]] == ["c"]
    refused = here("doctor", "c", "--undo")
    assert (refused.status, refused.err) == (1, "error: the newest checkpoint of thread 'c' is no repair\n")


def test_one_thread(here: Command, damaged: Any) -> None:
    done = here("doctor", "a", "--repair", "--json")
    assert (done.status, [(one["kind"], one["repaired"]) for one in done.data["items"]]) == (
        0,
        [("dangling_call", True)],
    )
    assert here("doctor", "a").status == 0
    assert here("doctor", "c").status == 1
    unknown = here("doctor", "nobody")
    assert (unknown.status, unknown.err) == (1, "error: there is no thread 'nobody'\n")


def test_a_crash(here: Command, ways: Any, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The graph can go on: it is given up where that is asked for, and taken back it goes on."""
    (place / "die").touch()
    assert subprocess.run([sys.executable, FILE], check=False, timeout=60).returncode == 9
    (place / "die").unlink()
    assert here("doctor").out == "nothing is wrong\n"  # it may be running: it holds no lease
    monkeypatch.setattr(standing, "QUIET", -60_000_000)
    kept = here("doctor", "--repair")
    assert (kept.status, "scallion resume GRAPH THREAD" in kept.out) == (1, True)
    assert here("doctor", "t", "--repair", "--give-up").out.endswith("repaired: ended\n")
    assert here("resume", f"{FILE}:steps", "t").err == "error: thread 't' has nothing to resume\n"
    assert here("doctor", "t", "--undo").out == "taken back: half_written\n"
    assert here("resume", f"{FILE}:steps", "t").out == "second\n"


def test_a_thread_that_runs(here: Command, damaged: Any) -> None:
    """Who runs it is told; it is not mended, and the others are."""
    with SQLCheckpointer(os.environ["SCALLION_DB"]) as saver:
        assert saver.leases is not None
        lease = saver.leases.take("a", new=False)
        running = here("doctor", "a")
        assert (running.status, f":{os.getpid()} runs a turn since" in running.out) == (0, True)
        done = here("doctor", "a", "--repair", "--json")
        assert [(one["kind"], one["repaired"]) for one in done.data["items"]] == [("running", False)]
        assert here("doctor", "--repair").out.startswith("c: ")
        saver.leases.release(lease, failed=False)


def test_classes_that_are_not_here(here: Command, place: Path) -> None:
    """In the state they stay as they are; a conversation of them is not judged."""
    from langgraph.graph import START, StateGraph

    with SQLCheckpointer(os.environ["SCALLION_DB"]) as plain:
        saver = plain.with_allowlist([Parcel, Note])
        builder: Any = StateGraph(Post).add_node("nod", lambda state: None).add_edge(START, "nod")
        graph = builder.compile(checkpointer=saver)
        graph.invoke({"messages": DAMAGED, "parcel": Parcel("7")}, config("state"))
        asks = Note("", tool_calls=[{**CALL, "id": "n1"}])
        graph.invoke({"messages": [asks, ToolMessage("paid", tool_call_id="n1")]}, config("own"))
        assert saver.doctor.examine("own") == []
        told = here("doctor", "--repair")
        assert (told.status, told.out.count("repaired: it is answered")) == (0, 1)
        assert "own: its conversation was not examined" in told.out
        assert graph.get_state(config("state")).values["parcel"] == Parcel("7")
        assert len(graph.get_state(config("own")).values["messages"]) == 2
        assert [one.kind for one in plain.doctor.examine("own")] == ["unread"]


@pytest.mark.parametrize("words", [("--undo",), ("t", "--undo", "--repair"), ("t", "--give-up")])
def test_what_makes_no_sense(here: Command, words: tuple[str, ...]) -> None:
    assert here("doctor", *words).status == 2
