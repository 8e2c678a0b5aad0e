"""Cost of a turn and of one more layer, against a hand-written graph and `create_agent`, at several stack depths."""

from __future__ import annotations

import argparse
import asyncio
import json
from collections.abc import Callable
from typing import Any

from parts import at_depth, interleaved, neighbour_agent, question, raw_graph, scallion_agent

DEPTHS = (0, 3, 7, 20)
"""Extra frames below each turn; a figure is the worst of them."""


def sync_cases(depth: int) -> dict[str, Callable[[int], None]]:
    """Each case runs a number of turns in a row."""
    raw = raw_graph(asynchronous=False)
    ours = {n: scallion_agent(n) for n in (0, 20)}
    theirs = {n: neighbour_agent(n) for n in (0, 20)}
    turns: dict[str, Callable[[], Any]] = {"raw": lambda: raw.invoke(question())}
    turns |= {f"scallion {n}": (lambda agent=agent: agent.invoke("q")) for n, agent in ours.items()}
    turns |= {f"create_agent {n}": (lambda agent=agent: agent.invoke(question())) for n, agent in theirs.items()}

    def repeat(turn: Callable[[], Any]) -> Callable[[int], None]:
        return lambda times: at_depth(depth, lambda: [turn() for _ in range(times)])

    return {name: repeat(turn) for name, turn in turns.items()}


def async_cases() -> dict[str, Callable[[int], None]]:
    """The same on an event loop; layers are `async def`, and for us `def` too."""
    raw = raw_graph(asynchronous=True)
    ours = {"scallion 0": scallion_agent(0), "scallion 20 def": scallion_agent(20)}
    ours["scallion 20"] = scallion_agent(20, asynchronous=True)
    theirs = {f"create_agent {n}": neighbour_agent(n, asynchronous=True) for n in (0, 20)}
    turns: dict[str, Callable[[], Any]] = {"raw": lambda: raw.ainvoke(question())}
    turns |= {name: (lambda agent=agent: agent.ainvoke("q")) for name, agent in ours.items()}
    turns |= {name: (lambda agent=agent: agent.ainvoke(question())) for name, agent in theirs.items()}
    runner = asyncio.Runner()

    def repeat(turn: Callable[[], Any]) -> Callable[[int], None]:
        async def many(times: int) -> None:
            for _ in range(times):
                await turn()

        return lambda times: runner.run(many(times))

    return {name: repeat(turn) for name, turn in turns.items()}


def ratios(times: dict[str, float]) -> dict[str, float]:
    """Milliseconds as multiples of the hand-written graph."""
    return {name: round(value / times["raw"], 3) for name, value in times.items()}


def layer_cost(times: dict[str, float], who: str) -> float:
    """Microseconds of one more layer, per call: a turn makes three (model, tool, model)."""
    return round((times[f"{who} 20"] - times[f"{who} 0"]) / 20 / 3 * 1e3, 2)


def main() -> None:
    """Print all figures as JSON."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--repeats", type=int, default=10)
    options = parser.parse_args()
    by_depth = {d: interleaved(sync_cases(d), rounds=options.rounds, repeats=options.repeats) for d in DEPTHS}
    turns = {depth: ratios(times) for depth, times in by_depth.items()}
    asynchronous = interleaved(async_cases(), rounds=options.rounds, repeats=options.repeats)
    report = {
        "sync, by depth": turns,
        "sync, worst": {name: max(turns[d][name] for d in DEPTHS) for name in turns[0]},
        "sync, microseconds a layer": {who: layer_cost(by_depth[0], who) for who in ("scallion", "create_agent")},
        "async": ratios(asynchronous),
        "async, microseconds a layer": {who: layer_cost(asynchronous, who) for who in ("scallion", "create_agent")},
        "raw, milliseconds": {"sync": round(by_depth[0]["raw"], 2), "async": round(asynchronous["raw"], 2)},
    }
    print(json.dumps(report, indent=2))


if __name__ == "__main__":
    main()
