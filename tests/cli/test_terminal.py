"""`chat` in a real terminal: Ctrl-C, Ctrl-D, an editor."""

import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.cli.command import CLERK, Command

pytest.importorskip("termios", reason="needs a POSIX terminal")

from tests.cli.terminal import Terminal

HINT = "Ctrl-D leaves"


@pytest.fixture
def chat(place: Path) -> Iterator[Terminal]:
    """A chat with the clerk, ready for the first message."""
    command = [sys.executable, "-m", "scallion.cli", "chat", CLERK, "--thread", "t"]
    with Terminal(command, dict(os.environ), place) as terminal:
        yield terminal


def test_ctrl_c_leaves_a_thread_that_goes_on(chat: Terminal, here: Command, place: Path) -> None:
    """In the middle of a tool: the chat says how to go on, and it works; at the prompt it only says how to leave."""
    chat.see("you> ")
    chat.type("slow\n")
    chat.see("→ slow")
    chat.type("\x03")
    chat.see("stopping after this step")
    assert "the thread is interrupted: /resume goes on" in chat.see("you> ")
    chat.type("\x03")
    assert HINT in chat.see("you> ")
    chat.type("/resume\n")
    chat.see("Results: waited\n")
    chat.see("you> ")
    assert chat.leave() == 0
    assert (place / "log").read_text() == "slow\n"  # the tool had finished when the turn stopped: not run again
    assert here("sessions", "--json").data["items"][0]["status"] == "idle"


def test_a_second_ctrl_c_leaves_at_once(chat: Terminal, here: Command) -> None:
    """Without waiting for the tool; the next chat offers to go on."""
    chat.see("you> ")
    chat.type("stuck\n")
    chat.see("→ stuck")
    while not Path(os.environ["CLERK_LOG"]).exists():
        time.sleep(0.05)  # the line stands before the tool's first statement
    chat.type("\x03")
    chat.see("Ctrl-C again leaves at once")
    chat.type("\x03")
    chat.see(f"\ninterrupted; to go on: scallion resume {CLERK} t\n")
    assert chat.end() == 1
    again = here("chat", CLERK, "--thread", "t", typed="y\n")
    assert "stuck may have run already; going on runs it again. Go on with it? [Y/n] " in again.out
    assert "Results: freed\n" in again.out


def test_ctrl_c_of_a_run(place: Path, here: Command) -> None:
    """One line that says how to go on."""
    command = [sys.executable, "-m", "scallion.cli", "run", CLERK, "slow", "--thread", "t"]
    with Terminal(command, dict(os.environ), place) as terminal:
        terminal.see("→ slow")
        terminal.type("\x03")
        terminal.see(f"error: interrupted; to go on: scallion resume {CLERK} t\n")
        assert terminal.end() == 1
    assert here("resume", CLERK, "t").out == "Results: waited\n"


def test_deciding_in_a_terminal(chat: Terminal, editor: Callable[..., None], here: Command) -> None:
    """Nothing a tool or model says moves the cursor; Ctrl-D at a card leaves it open."""
    chat.see("you> ")
    chat.type("evil\n")
    assert "red\\x1b[31m and gone\\x1b[2J" in chat.see("you> ")
    chat.type("pay\n")
    chat.see("(a)pprove (e)dit (r)eject (l)ater > ")
    chat.type("a\n")
    chat.see("Results: paid 7\n")
    chat.see("you> ")
    chat.type("pay\n")
    chat.see("(l)ater > ")
    assert chat.leave() == 3
    assert "\x1b" not in chat.shown
    assert len(here("pending", "--json").data["items"]) == 1
