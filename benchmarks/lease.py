"""What the lease on a thread and the ledger of effects cost a turn whose tool is neither gated nor guarded.

On: leases, and `filters.once` around another tool. Off: a saver without leases, and no such filter. Beside it a turn
whose own tool is guarded: two more commits that wait for the disk, which is what "at most once" costs anywhere.
"""

from __future__ import annotations

import argparse
import gc
import json
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import count
from typing import Any

from parts import Model, look
from stores import postgres_database, sqlite_file

from scallion import Agent, Filter, SQLCheckpointer, filters

Turn = Callable[[], Any]


def pay(order: int) -> str:
    """Pay an order."""
    return "paid"


def turns(url: str) -> Iterator[tuple[str, Turn, SQLCheckpointer]]:
    """A turn on a thread of its own, each time: off, on, and guarded."""
    stacks: dict[str, tuple[float | None, list[Filter]]] = {
        "off": (None, []),
        "on": (30, [filters.once("pay")]),
        "guarded": (30, [filters.once("look")]),
    }
    for name, (seconds, stack) in stacks.items():
        saver = SQLCheckpointer(url, lease_seconds=seconds, auto_upgrade=True)
        agent = Agent(Model(), tools=[look, pay], filters=stack, checkpointer=saver)
        numbers = count()
        yield name, lambda agent=agent, n=numbers, name=name: agent.invoke("q", thread=f"{name}{next(n)}"), saver


def measured(cases: dict[str, Turn], rounds: int) -> dict[str, dict[str, list[float]]]:
    """Seconds of each turn, by the clock and of the processor: all take turns, in another order each round."""
    taken: dict[str, dict[str, list[float]]] = {name: {"clock": [], "processor": []} for name in cases}
    names = list(cases)
    for number in range(rounds + 5):
        gc.collect()
        for name in names[number % len(names) :] + names[: number % len(names)]:
            gc.disable()
            begun, used = time.perf_counter(), time.process_time()
            cases[name]()
            spent = {"clock": time.perf_counter() - begun, "processor": time.process_time() - used}
            gc.enable()
            if number >= 5:
                for kind, seconds in spent.items():
                    taken[name][kind].append(seconds)
    return taken


def ratios(taken: dict[str, dict[str, list[float]]], name: str) -> dict[str, float]:
    """As multiples of the turn without: of the processor's time the medians, by the clock the quiet quarter."""
    ours, off, median = taken[name], taken["off"], statistics.median
    return {
        "clock": round(_quiet(ours["clock"]) / _quiet(off["clock"]), 3),
        "processor": round(median(ours["processor"]) / median(off["processor"]), 3),
    }


def _quiet(seconds: Sequence[float]) -> float:
    """The upper end of the fastest quarter: what else the machine does at the time counts less."""
    return statistics.quantiles(seconds, n=4)[0]


def measure(url: str, rounds: int) -> dict[str, Any]:
    """Both ratios, and the milliseconds of a turn without."""
    made = list(turns(url))
    taken = measured({name: turn for name, turn, _ in made}, rounds)
    for _, _, saver in made:
        saver.close()
    off = {kind: round(1e3 * _quiet(seconds), 2) for kind, seconds in taken["off"].items()}
    return {"off, milliseconds": off, "on": ratios(taken, "on"), "guarded": ratios(taken, "guarded")}


def on_each(measure: Callable[[str, int], Any], rounds: int, arguments: Sequence[str] | None) -> None:
    """Measure on each database that is asked for, and print; `rounds`: how many, unless that is asked for too."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=rounds)
    parser.add_argument("--databases", nargs="*", default=["SQLite", "PostgreSQL"])
    options = parser.parse_args(arguments)
    found: dict[str, Any] = {}
    if "SQLite" in options.databases:
        with sqlite_file() as (path, _):
            found["SQLite"] = measure(f"sqlite:///{path}", options.rounds)
    if "PostgreSQL" in options.databases:
        with postgres_database() as (url, _):
            found["PostgreSQL"] = measure(url, options.rounds)
    print(json.dumps(found, indent=2))


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print."""
    on_each(measure, 200, arguments)


if __name__ == "__main__":
    main()
