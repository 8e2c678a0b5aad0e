"""What 10,000 open pauses cost everybody else: the same steps in a database that has them and in one that has none."""

from __future__ import annotations

import argparse
import gc
import json
import statistics
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from itertools import count
from typing import Any

from many import fill
from parts import Model, look
from sqlalchemy import text
from stores import postgres_database, sqlite_file

from scallion import Agent, SQLCheckpointer, approve, filters

STEPS = ("pause", "list", "decide", "resume", "turn of another thread", "deliver")


class Desk:
    """One agent whose tool is gated and one whose is not, on one database."""

    def __init__(self, url: str, pauses: int) -> None:
        self.saver = SQLCheckpointer(url, auto_upgrade=True, outbox=True)
        self.saver.setup()
        if pauses:
            fill(self.saver, pauses, pauses)
        if pauses and not self.saver.database.is_sqlite:
            self.saver.database.run(lambda conn: conn.execute(text("ANALYZE")))
        gate = filters.approval({"look": True})
        self._gated = Agent(Model(), tools=[look], filters=[gate], checkpointer=self.saver)
        self._free = Agent(Model(), tools=[look], checkpointer=self.saver)
        self._numbers = count()

    def round(self) -> dict[str, float]:
        """Milliseconds of each step."""
        thread = f"new{next(self._numbers)}"
        paused, pause = timed(lambda: self._gated.invoke("q", thread=thread))
        (asked,) = paused.approvals
        steps: list[Callable[[], Any]] = [
            lambda: self.saver.approvals.list(thread=thread),  # a page of one in both databases
            lambda: self.saver.approvals.decide(asked.id, approve(), by="ana"),
            lambda: self._gated.resume(thread),
            lambda: self._free.invoke("q", thread=f"free-{thread}"),
            lambda: self.saver.outbox.deliver(lambda notification: None),
        ]
        return dict(zip(STEPS, [pause, *(timed(step)[1] for step in steps)], strict=True))


def timed(step: Callable[[], Any]) -> tuple[Any, float]:
    """What it gives, and how many milliseconds it took."""
    gc.disable()
    begun = time.perf_counter()
    given = step()
    taken = (time.perf_counter() - begun) * 1e3
    gc.enable()
    return given, taken


def measure(urls: Sequence[str], pauses: int, rounds: int) -> dict[str, Any]:
    """By step the milliseconds without, and how many times that it takes with them: of rounds in turns, quiet ones."""
    desks = [Desk(url, number) for url, number in zip(urls, (0, pauses), strict=True)]
    found = [[desk.round() for desk in desks] for _ in range(rounds + 3)][3:]
    for desk in desks:
        desk.saver.close()
    return {
        step: {
            "milliseconds": round(_quiet([none[step] for none, _ in found]), 2),
            "ratio": round(_quiet([many[step] for _, many in found]) / _quiet([none[step] for none, _ in found]), 2),
        }
        for step in STEPS
    }


def _quiet(milliseconds: Sequence[float]) -> float:
    """The upper end of the fastest quarter: what else the machine does at the time counts less."""
    return statistics.quantiles(milliseconds, n=4)[0]


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--pauses", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=60)
    options = parser.parse_args(arguments)
    found: dict[str, Any] = {}
    with ExitStack() as stack:
        files = [stack.enter_context(sqlite_file())[0] for _ in range(2)]
        found["SQLite"] = measure([f"sqlite:///{path}" for path in files], options.pauses, options.rounds)
        servers = [stack.enter_context(postgres_database())[0] for _ in range(2)]
        found["PostgreSQL"] = measure(servers, options.pauses, options.rounds)
    print(json.dumps({"pauses": options.pauses, "rounds": options.rounds, "steps": found}, indent=2))


if __name__ == "__main__":
    main()
