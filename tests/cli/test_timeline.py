"""`show` tells what happened in the turns of a thread: below the conversation, alone, in a terminal and as JSON."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.cli.command import CLERK, Command

from scallion import Inbox

Ask = Callable[..., list[str]]
SILENT = """import os
from scallion import Agent
from scallion.testing import ScriptedModel
agent = Agent(ScriptedModel(["Hello."]), checkpointer=os.environ["SCALLION_DB"], trace=False)
"""
COLOURS = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


@pytest.fixture
def two_turns(here: Command, paused: Ask) -> list[str]:
    """A thread with a turn that paused and went on, and one that only answered: the ids of both."""
    (asked,) = paused("pay")
    here("approve", asked, "--by", "ana")
    assert here("resume", CLERK, "t").status == 0
    assert here("run", CLERK, "hello", "--thread", "t").status == 0
    with Inbox(os.environ["SCALLION_DB"]) as inbox:
        return list(inbox.sessions.traced("t"))


def test_below_the_conversation(here: Command, two_turns: list[str]) -> None:
    """The last turn, behind what was said."""
    shown = here("show", "t").out
    assert shown.index("You said hello.") < shown.index(f"Turn {two_turns[1]} of thread t")
    assert two_turns[0] not in shown
    assert [one["turn"] for one in here("show", "t", "--json").data["traces"]] == two_turns[1:]


def test_all_turns(here: Command, two_turns: list[str]) -> None:
    """In their order, with what a person said in between, and nothing of the conversation."""
    shown = here("show", "t", "--trace").out
    assert shown.index(two_turns[0]) < shown.index("? pay  approve by ana") < shown.index(two_turns[1])
    assert re.search(r"● pay +━", re.sub(" +", " ", shown))
    assert "You said hello." not in shown
    told = here("show", "t", "--trace", "--json").data
    assert [one["turn"] for one in told["traces"]] == two_turns
    assert set(told) == {"session", "traces"}
    assert [len(one["parts"]) for one in told["traces"]] == [2, 1]


@pytest.mark.parametrize("named", ["1", "-2", "id", "beginning"])
def test_one_turn(here: Command, two_turns: list[str], named: str) -> None:
    """By its id or a beginning of it, or by its number from either end."""
    turn = {"id": two_turns[0], "beginning": two_turns[0][:20]}.get(named, named)
    (trace,) = here("show", "t", "--turn", turn, "--json").data["traces"]
    assert trace["turn"] == two_turns[0]


@pytest.mark.parametrize("named", ["0", "3", "-3", "0000", "none", ""])
def test_a_turn_that_is_not_there(here: Command, two_turns: list[str], named: str) -> None:
    """Wrong usage, and a line that says so. What looks like a number is no beginning of an id."""
    done = here("show", "t", "--turn", named)
    assert (done.status, done.out) == (2, "")
    assert "it is none of the 2 turn(s) that have a trace" in done.err


def test_a_last_turn_without_a_trace(here: Command, two_turns: list[str], place: Path) -> None:
    """What the turn before it did is not drawn as if it were its own."""
    (place / "silent.py").write_text(SILENT)
    assert here("run", "silent.py", "Hi", "--thread", "t").status == 0
    assert here("show", "t", "--json").data["traces"] == []
    assert two_turns[1] not in here("show", "t").out
    assert [one["turn"] for one in here("show", "t", "--trace", "--json").data["traces"]] == two_turns


def test_a_thread_without_a_trace(here: Command, place: Path) -> None:
    """Of an agent that keeps none."""
    (place / "silent.py").write_text(SILENT)
    assert here("run", "silent.py", "Hi", "--thread", "t").status == 0
    assert here("show", "t", "--json").data["traces"] == []
    assert here("show", "t").out.endswith("Hello.\n")
    assert here("show", "t", "--trace").out.endswith("\nno trace of a turn is kept\n")


@pytest.mark.parametrize(("columns", "bars"), [(40, False), (79, False), (80, True), (140, True)])
def test_in_a_terminal(place: Path, two_turns: list[str], columns: int, bars: bool) -> None:
    """No line is wider than it; a narrow one has no bars."""
    pytest.importorskip("termios", reason="needs a POSIX terminal")
    from tests.cli.terminal import Terminal

    command = [sys.executable, "-m", "scallion.cli", "show", "t", "--trace"]
    with Terminal(command, dict(os.environ), place, kind="xterm", columns=columns) as terminal:
        assert terminal.end() == 0
    lines = COLOURS.sub("", terminal.shown).splitlines()
    assert max(map(len, lines)) <= columns
    assert any("━" in line for line in lines) is bars
    assert any("pay" in line and line.rstrip().endswith("s") for line in lines)


def test_what_fits_a_terminal(place: Path, here: Command) -> None:
    """Below a conversation as many spans as the terminal is high; of what is left out it says how many."""
    pytest.importorskip("termios", reason="needs a POSIX terminal")
    from tests.cli.terminal import Terminal

    (place / "long.py").write_text(
        "import os\n"
        "from scallion import Agent\n"
        "from scallion.testing import ScriptedModel, asks, call\n"
        "def look(n: int) -> str:\n"
        "    'Look.'\n"
        "    return 'seen'\n"
        "script = [*(asks(call('look', n=n)) for n in range(20)), 'Done.']\n"
        "agent = Agent(ScriptedModel(script), tools=[look], checkpointer=os.environ['SCALLION_DB'])\n"
    )
    assert here("run", "long.py", "Look", "--thread", "t").status == 0
    assert "not shown" not in here("show", "t").out
    with Terminal([sys.executable, "-m", "scallion.cli", "show", "t"], dict(os.environ), place) as terminal:
        assert terminal.end() == 0
    timeline = COLOURS.sub("", terminal.shown).partition("Done.")[2]
    drawn = sum(any(mark in line for mark in "↻◆●") for line in timeline.splitlines())
    (left,) = re.findall(r"… (\d+) spans not shown", timeline)  # one more or less, as the times make the heading long
    assert drawn + int(left) == 1 + 21 + 20
    assert int(left) > 20
