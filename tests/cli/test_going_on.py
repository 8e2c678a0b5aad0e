"""`resume` of LangGraph graphs: from a crash, an error, a breakpoint; with what they read from their config."""

import importlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.cli.command import Command

FILE = str(Path(__file__).parent / "wayfarer.py")
CONFIG: Any = {"configurable": {"thread_id": "t"}}
INPUT: Any = {"messages": [("user", "go")]}


@pytest.fixture
def ways(place: Path) -> Iterator[Any]:
    """The module, its graphs on the database of the test."""
    module = importlib.reload(importlib.import_module("tests.cli.wayfarer"))
    yield module
    module.saver.close()


def test_a_crash(here: Command, place: Path) -> None:
    """What was done is not done again."""
    (place / "die").touch()
    assert subprocess.run([sys.executable, FILE], check=False, timeout=60).returncode == 9
    (place / "die").unlink()
    assert here("sessions", "--json").data["items"][0]["status"] == "running"
    done = here("resume", f"{FILE}:steps", "t")
    assert (done.status, done.out) == (0, "second\n")
    assert (place / "log").read_text() == "first\n"
    again = here("resume", f"{FILE}:steps", "t")
    assert (again.status, again.err) == (1, "error: thread 't' has nothing to resume\n")


def test_an_error(here: Command, ways: Any, place: Path) -> None:
    """Of a node, once more too: it is told without its text."""
    (place / "fail").touch()
    with pytest.raises(RuntimeError):
        ways.steps.invoke(INPUT, CONFIG)
    failed = here("resume", f"{FILE}:steps", "t")
    assert failed.status == 1
    assert "RuntimeError" in failed.err
    assert "S3CRET" not in failed.err
    (place / "fail").unlink()
    assert here("resume", f"{FILE}:steps", "t", "--json").data == {
        "status": "completed", "thread": "t", "answer": "second",
    }  # fmt: skip
    assert (place / "log").read_text() == "first\n"


def test_a_breakpoint(here: Command, ways: Any, place: Path) -> None:
    """It goes on behind it, and says where it stops again."""
    ways.stops.invoke(INPUT, CONFIG)
    assert here("resume", f"{FILE}:stops", "t").out == "second\n"
    ways.saver.delete_thread("t")
    ways.builder.compile(checkpointer=ways.saver, interrupt_before=["first"]).invoke(INPUT, CONFIG)
    stopped = here("resume", f"{FILE}:stops", "t")
    assert (stopped.status, stopped.out) == (3, f"stopped before second; to go on: scallion resume {FILE}:stops t\n")
    ways.saver.delete_thread("t")
    ways.builder.compile(checkpointer=ways.saver, interrupt_before=["first"]).invoke(INPUT, CONFIG)
    assert here("resume", f"{FILE}:stops", "t", "--json").data == {
        "status": "paused", "thread": "t", "approvals": [], "next": ["second"],
    }  # fmt: skip


def test_what_was_cancelled_is_not_asked_again(here: Command, ways: Any) -> None:
    ways.greets.invoke(INPUT, CONFIG)
    assert here("cancel", "t").status == 0
    done = here("resume", f"{FILE}:greets", "t")
    assert (done.status, done.err) == (1, "error: thread 't' has nothing to resume\n")


def test_what_the_graph_reads_from_its_config(here: Command, ways: Any) -> None:
    ways.greets.invoke(INPUT, CONFIG)
    (asked,) = here("pending", "--json").data["items"]
    here("respond", asked["id"], "Hello")
    for wrong in ("user", "=x", "thread_id=u", "checkpoint_id=x", "checkpoint_ns="):
        assert here("resume", f"{FILE}:greets", "t", "--configurable", wrong).status == 2
    told = ("--configurable", "user=mira=a", "--configurable", "times=2")
    done = here("resume", f"{FILE}:greets", "t", *told)
    assert (done.status, done.out) == (0, "Hello {'user': 'mira=a', 'times': 2}\n")


@pytest.mark.parametrize(
    ("topic", "told", "out", "answer"),
    [
        ("x", '{"pages": [1, 2]}', '{"pages": [1, 2]}\n', {"pages": [1, 2]}),
        ("x", '"Fertig: größer"', "Fertig: größer\n", "Fertig: größer"),
        ("x", "false", "false\n", False),
        ("message", '"said"', "said\n", "said"),
    ],
)
def test_what_a_function_returns(here: Command, ways: Any, topic: str, told: str, out: str, answer: Any) -> None:
    """And answers that are no texts, to a question without a schema."""
    for thread, extra in (("t", ()), ("u", ("--json",))):
        ways.publish.invoke(topic, {"configurable": {"thread_id": thread}})
        (asked,) = here("pending", "--thread", thread, "--json").data["items"]
        words = (told,) if thread == "t" else ("-",)
        decided = here("respond", asked["id"], "--json-answer", *words, typed=told)
        assert decided.status == 0
        done = here("resume", f"{FILE}:publish", thread, *extra)
        assert done.status == 0
        assert (done.data["answer"] == answer) if extra else (done.out == out)


def test_what_is_no_answer(here: Command, ways: Any) -> None:
    ways.publish.invoke("x", CONFIG)
    (asked,) = here("pending", "--json").data["items"]
    for words, status, told in (
        ((), 2, "give MESSAGE or --json-answer"),
        (("yes", "--json-answer", "1"), 2, "give either"),
        (("--json-answer", "{S3CRET"), 1, "the answer is not JSON (line 1, column 2)"),
        (("--json-answer", "NaN"), 1, "is not JSON data"),
        (("--json-answer", "null"), 1, "a response needs a message"),
    ):
        done = here("respond", asked["id"], *words)
        assert (done.status, told in done.err, "S3CRET" in done.err) == (status, True, False)
