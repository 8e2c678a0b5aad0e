"""Turns in processes of their own that stop where a test wants them, so that they can be raced, killed and frozen."""

from __future__ import annotations

import asyncio
import os
import signal
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.tools import StructuredTool
from processes import processes
from sqlalchemy import select
from sqlalchemy.exc import OperationalError

from scallion import Agent, SQLCheckpointer, filters
from scallion.sql.engines import Database
from scallion.testing import ScriptedModel

WAIT = 30
"""Seconds after which a test gives up on something that should happen at once."""


def saver_on(url: str, seconds: float = 30, **options: Any) -> SQLCheckpointer:
    """A saver whose leases last that long."""
    return SQLCheckpointer(url, lease_seconds=seconds, **options)


def desk(saver: Any, *, held: Any = None, release: Any = None, gate: bool = False) -> Agent:
    """An agent that answers "done"; where a message begins with "go", it works first, twice where that says "twice".

    `held`: an event that is set inside the tool, which then waits for `release`.
    """

    def work() -> str:
        if held is not None:
            held.set()
            assert release.wait(WAIT)
        return "worked"

    def say(messages: list[Any]) -> AIMessage:
        last, asked = messages[-1], next(one.text for one in reversed(messages) if one.type == "human")
        rounds = sum(isinstance(one, ToolMessage) for one in messages)
        if asked.startswith("go") and (not isinstance(last, ToolMessage) or ("twice" in asked and rounds < 2)):
            return AIMessage("", tool_calls=[{"name": "work", "args": {}, "id": f"c{len(messages)}"}])
        return AIMessage("done")

    tool = StructuredTool.from_function(work, name="work", description="Work.")
    gates = [filters.approval({"work": True})] if gate else []
    return Agent(ScriptedModel(say), tools=[tool], filters=gates, checkpointer=saver)


def run(agent: Agent, colour: str, verb: str, *args: Any, **options: Any) -> Any:
    """That verb in this colour."""
    if colour == "sync":
        return getattr(agent, verb)(*args, **options)
    return asyncio.run(getattr(agent, f"a{verb}")(*args, **options))


def outcome(agent: Agent, colour: str, verb: str, *args: Any, **options: Any) -> str:
    """What became of it: the name of the result's class, or of the error's."""
    try:
        return type(run(agent, colour, verb, *args, **options)).__name__
    except Exception as error:
        return type(error).__name__


class Elsewhere:
    """A turn in a process of its own, which stays inside its tool."""

    def __init__(self, url: str, message: str, *, seconds: float = 30, colour: str = "sync") -> None:
        self.held, self.release = processes.Event(), processes.Event()
        self._ends: Any = processes.SimpleQueue()
        options = (url, message, seconds, colour, self.held, self.release, self._ends)
        self.process = processes.Process(target=_turn, args=options)
        self.process.start()
        assert self.held.wait(WAIT)

    def signal(self, number: int) -> None:
        """Send the process a signal; after SIGKILL it is gone when this returns."""
        os.kill(self.process.pid or 0, number)
        if number == signal.SIGKILL:
            self.process.join(WAIT)

    def freeze(self, saver: SQLCheckpointer) -> None:
        """Stop the process where it is in no transaction: what that has locked would stay so until it goes on."""
        self.signal(signal.SIGSTOP)
        while not _is_free(saver.database):
            self.signal(signal.SIGCONT)
            time.sleep(0.02)
            self.signal(signal.SIGSTOP)

    def end(self) -> str:
        """Let the tool go on; what became of the turn."""
        self.release.set()
        self.process.join(WAIT)
        assert self.process.exitcode == 0
        return str(self._ends.get())

    def stop(self) -> None:
        """End the process, whatever it does."""
        self.process.kill()
        self.process.join(WAIT)
        self.process.close()


def _is_free(database: Database) -> bool:
    """Whether nobody has locked a session, or the whole file."""
    try:
        if database.is_sqlite:
            with closing(sqlite3.connect(str(database.url.database), timeout=0.1)) as raw:
                raw.execute("BEGIN IMMEDIATE")
        else:
            with database.engine.connect() as conn:
                conn.execute(select(database.tables.sessions.c.thread).with_for_update(nowait=True)).all()
    except (sqlite3.OperationalError, OperationalError):
        return False
    return True


def _turn(url: str, message: str, seconds: float, colour: str, held: Any, release: Any, ends: Any) -> None:
    with saver_on(url, seconds) as saver:
        ends.put(outcome(desk(saver, held=held, release=release), colour, "invoke", message, thread="t"))


@contextmanager
def elsewhere(url: str, message: str = "go", **options: Any) -> Iterator[Elsewhere]:
    """A turn on thread "t" that holds it from another process."""
    made = Elsewhere(url, message, **options)
    try:
        yield made
    finally:
        made.stop()


def pairs(url: str, who: str, count: int, wait: float, start: Any, ends: Any) -> None:
    """Send one message to each of many threads, each when everybody is ready; tell what became of them."""
    with saver_on(url) as saver:
        agent = desk(saver)
        for n in range(count):
            start.wait(WAIT)
            ends.put((n, who, outcome(agent, "sync", "invoke", who, thread=f"t{n}", wait=wait)))


def until(condition: Any, seconds: float = WAIT) -> None:
    """Wait for it."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not come to be"
        time.sleep(0.02)
