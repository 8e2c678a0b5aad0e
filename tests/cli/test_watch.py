"""`watch`: what runs and what waits, in a terminal and through a pipe."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.cli.command import CLERK, Command

from scallion import Inbox
from scallion.cli.waiting import Row, Watched

pytest.importorskip("termios", reason="needs a POSIX terminal")

from tests.cli.terminal import Terminal

Ask = Callable[..., list[str]]
WATCH = [sys.executable, "-m", "scallion.cli", "watch", "--every", "0.1"]


@contextmanager
def watching(place: Path, *words: str, columns: int = 100) -> Iterator[Terminal]:
    """A watch in a terminal that can draw."""
    with Terminal([*WATCH, *words], dict(os.environ), place, kind="xterm", columns=columns) as terminal:
        yield terminal


@contextmanager
def piped(place: Path, *words: str) -> Iterator[subprocess.Popen[str]]:
    """A watch whose output somebody reads."""
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, "cwd": place}
    with subprocess.Popen([*WATCH, *words], **pipes) as process:
        try:
            yield process
        finally:
            process.kill()


def lines(terminal: Terminal) -> list[str]:
    """What was shown, without what moves the cursor and colours the text."""
    return re.split(r"[\r\n]", re.sub(r"\x1b\[[0-9;?]*[A-Za-z]|\^C", "", terminal.shown))


def test_a_table_that_is_drawn_anew(place: Path, here: Command, paused: Ask) -> None:
    """A pause, its decision, its end; Ctrl-C ends the watch with status 0 and gives the cursor back."""
    (first,) = paused("pay", "a")
    paused("both", "b")
    with watching(place) as watch:
        assert "waits for" in watch.see("2 paused")
        here("approve", first)
        watch.see("resume: pay decided")
        here("resume", CLERK, "a")
        watch.see("1 paused")
        here("cancel", "b", "--graph", CLERK)
        watch.see("nothing runs or waits")
        watch.type("\x03")
        assert watch.end() == 0
    assert "Traceback" not in watch.shown
    assert watch.shown.rindex("\x1b[?25h") > watch.shown.rindex("\x1b[?25l")


def test_what_runs_is_held_by_somebody(place: Path, here: Command) -> None:
    """By host and process."""
    run = [sys.executable, "-m", "scallion.cli", "run", CLERK, "stuck", "--thread", "t"]
    with Terminal(run, dict(os.environ), place) as turn:
        turn.see("→ stuck")
        with watching(place) as watch:
            assert f":{turn.process.pid}" in watch.see("1 running")
        shown = here("watch", "--once", "--status", "running")
        assert "running" in shown.out
        assert here("watch", "--once", "--status", "paused").out == "nothing runs or waits\n"


def test_what_ran_in_a_process_that_died(here: Command, paused: Ask, place: Path) -> None:
    """Once its lease has run out it is no longer told as running."""
    paused("pay")
    with Inbox(f"sqlite:///{place}/threads.db") as inbox:
        (row,) = Watched(inbox, None, {}).look().rows
    held = {"holder": "web-1:7", "held_since": row.now, "held_until": row.now + timedelta(seconds=9)}
    running = Row(replace(row.session, status="running", **held), row.now)
    assert (running.state, running.since) == ("running", row.now)
    assert replace(running, now=row.now + timedelta(seconds=10)).state == "interrupted"


@pytest.mark.parametrize("columns", [20, 40, 60, 80, 130])
def test_a_narrow_terminal(place: Path, paused: Ask, columns: int) -> None:
    """No line is longer than the terminal is wide, and each thread has one, with what matters most."""
    paused("both", "a thread with a name that is quite long indeed")
    paused("ask", "q")
    with watching(place, columns=columns) as watch:
        watch.see("2 paused")
        watch.type("\x03")
        assert watch.end() == 0
    assert max(map(len, lines(watch))) <= columns
    assert any("ask" in line and line.startswith("q ") for line in lines(watch))


def test_many_threads(place: Path, paused: Ask) -> None:
    """As many as fit the height, and how many more there are."""
    for number in range(25):
        paused("ask", f"t-{number:02}")
    with watching(place) as watch:
        watch.see("25 paused, 4 not shown")
        assert sum(line.startswith("t-") for line in lines(watch)) == 21
    with watching(place, "--limit", "5") as watch:
        watch.see("5 paused, and more")


def test_lines_for_programs(place: Path, here: Command, paused: Ask) -> None:
    """A line of JSON for each change, at once; and nothing while nothing happens."""
    (first,) = paused("pay", "a")
    with piped(place, "--json") as watch:
        assert watch.stdout
        told = (json.loads(line) for line in watch.stdout)
        one = next(told)
        assert (one["thread"], one["status"], one["holder"]) == ("a", "paused", None)
        assert one["waits_for"] == [{"id": first, "kind": "tool_call", "tool": "pay", "status": "pending"}]
        here("approve", first)
        assert [waits["status"] for waits in next(told)["waits_for"]] == ["decided"]
        here("resume", CLERK, "a")
        while (one := next(told))["status"] != "idle":
            assert (one["thread"], one["status"]) in [("a", "paused"), ("a", "running")]  # as the looks happen to fall
        assert one["waits_for"] == []
        paused("ask", "b")
        while (one := next(told))["holder"] or not one["waits_for"]:
            assert one["thread"] == "b"
        with Inbox(os.environ["SCALLION_DB"]) as inbox:
            inbox.sessions.delete("b")
        assert next(told) | {"since": one["since"]} == one | {"status": "deleted", "waits_for": []}


def test_lines_for_people(place: Path, paused: Ask) -> None:
    """Where the output is no terminal; whoever stops reading ends it, with status 0 and without a word."""
    paused("both", "a")
    with piped(place) as watch:
        assert watch.stdout
        assert watch.stderr
        assert re.fullmatch(r"\d\d:\d\d:\d\d a paused for (pay, mail|mail, pay)\n", watch.stdout.readline())
        watch.stdout.close()
        assert watch.wait(20) == 0
        assert watch.stderr.read() == ""


def test_once(here: Command, paused: Ask) -> None:
    """How it stands, as a table or as lines, chosen as `sessions` chooses."""
    paused("both", "a")
    paused("ask", "b")
    shown = here("watch", "--once")
    assert (shown.status, shown.out.splitlines()[-1]) == (0, "2 paused")
    assert [json.loads(line)["thread"] for line in here("watch", "--once", "--json").out.splitlines()] == ["a", "b"]
    assert "\nb " not in here("watch", "--once", "--search", "both").out
    assert here("watch", "--once", "--owner", "nobody").out == "nothing runs or waits\n"
    assert here("watch", "--once", "--agent", "clerk", "--json").out.count("\n") == 2
    assert here("watch", "--once", "--db", "sqlite:///none.db").err.startswith("error: there is no database at")
