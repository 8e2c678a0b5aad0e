"""A conversation that grows, and many at once: our saver against LangGraph's, one process for each that is measured."""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from random import Random
from typing import Annotated, Any, Required

from langchain.agents import create_agent
from langchain.agents.middleware import AgentState
from langchain_core.messages import AnyMessage, HumanMessage
from langchain_core.tools import tool
from langgraph.channels import DeltaChannel
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.graph.message import _messages_delta_reducer
from parts import Model
from stores import STORES, is_async

HERE = Path(__file__).parent
MARKS = (10, 100, 400, 1000)
"""The turns at which time and bytes are read."""
AROUND = 10
"""A time is the median of that many turns up to the mark."""
DURABILITIES = ("exit", "async", "sync")
CHANNELS = ("list", "delta")
TURNS_AT_ONCE = 8
"""How many turns each of the threads at once makes."""
CLOCKS = {"clock": time.perf_counter, "processor": time.process_time}
"""What time is taken of: the processor's is that of the process alone, which other programs do not lengthen."""


def prose(seed: int, length: int = 300) -> str:
    """A text that no other resembles, so that no database makes it small."""
    letters = Random(seed)
    return "".join(letters.choices("etaoinshrdlu ", k=length))


class Talker(Model):
    """Calls the tool once, then answers; says nothing twice."""

    def _generate(self, messages: Any, *args: Any, **kwargs: Any) -> Any:
        result = super()._generate(messages, *args, **kwargs)
        said, turn = result.generations[0].message, len(messages)
        said.content = said.content and prose(turn)
        for call in said.tool_calls:
            call["args"] = {"order": turn}
        return result


@tool("look")
def look(order: int) -> str:
    """Look an order up."""
    return prose(-order)


class Delta(AgentState[Any]):
    """The state whose messages are kept as changes."""

    messages: Required[Annotated[list[AnyMessage], DeltaChannel(_messages_delta_reducer)]]


def agent(saver: Any, channel: str = "list") -> Any:
    """LangChain's agent with this saver."""
    return create_agent(Talker(), [look], checkpointer=saver, state_schema=Delta if channel == "delta" else None)


async def turn(app: Any, who: str, thread: str, messages: list[AnyMessage], **options: Any) -> list[AnyMessage]:
    """The messages after one turn."""
    config: Any = {"configurable": {"thread_id": thread}}
    given: Any = {"messages": messages}
    state = await app.ainvoke(given, config, **options) if is_async(who) else app.invoke(given, config, **options)
    return list(state["messages"])


async def growing(who: str, durability: str, channel: str, turns: int, now: Callable[[], float]) -> dict[str, Any]:
    """Milliseconds and bytes at each mark of one conversation, and the bytes of what was said."""
    taken: list[float] = []
    sizes: dict[int, int] = {}
    async with STORES[who]() as (saver, size):
        app = agent(saver, channel)
        options = {"durability": durability} if saver else {}
        said: list[AnyMessage] = []
        for n in range(1, turns + 1):
            asked = [HumanMessage(prose(n))]
            given = asked if saver else [*said, *asked]
            begun = now()
            said = await turn(app, who, "t", given, **options)
            taken.append((now() - begun) * 1e3)
            if n in MARKS:
                sizes[n] = size()
    distinct = sum(len(JsonPlusSerializer().dumps_typed(message)[1]) for message in said)
    times = {n: statistics.median(taken[max(0, n - AROUND) : n]) for n in sizes}
    return {"milliseconds": times, "bytes": sizes, "distinct": distinct}


async def at_once(who: str, threads: int, now: Callable[[], float]) -> float:
    """Turns per second of that many threads, each of which makes some turns one after the other."""
    async with STORES[who]() as (saver, _):
        app = agent(saver)

        async def talk(thread: str, turns: int) -> None:
            for n in range(turns):
                await turn(app, who, thread, [HumanMessage(prose(n))])

        await talk("warm", 3)
        begun = now()
        await asyncio.gather(*(talk(str(n), TURNS_AT_ONCE) for n in range(threads)))
        return threads * TURNS_AT_ONCE / (now() - begun)


def apart(time: str, *arguments: Any) -> Any:
    """What a process of its own measures."""
    command = [sys.executable, str(HERE / "checkpointer.py"), "--time", time, "--one", *map(str, arguments)]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def growth(options: argparse.Namespace) -> list[dict[str, Any]]:
    """One row for each saver, durability and channel; times as multiples of the graph without a saver."""
    plain = least(
        apart(options.time, "growing", "no saver", "async", "list", options.turns) for _ in range(options.runs)
    )
    rows = []
    for channel in options.channel:
        for durability in options.durability:
            for who in options.savers:
                case = (who, durability, channel)
                found = least(apart(options.time, "growing", *case, options.turns) for _ in range(options.runs))
                times = found["milliseconds"]
                rows.append(
                    {
                        "saver": who,
                        "durability": durability,
                        "channel": channel,
                        "times": {n: round(times[n] / plain["milliseconds"][n], 2) for n in times},
                        "bytes": {n: found["bytes"][n] for n in times},
                        "of distinct": round(max(found["bytes"].values()) / found["distinct"], 2),
                    }
                )
                print(f"{', '.join(case)}: {rows[-1]['times']}", file=sys.stderr)
    return rows


def least(runs: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """The runs as one, with the least of the times at each mark: what disturbs a run makes it only slower."""
    found = list(runs)
    times = {n: min(run["milliseconds"][n] for run in found) for n in found[0]["milliseconds"]}
    return {**found[0], "milliseconds": times}


PAIRS = {"AsyncSqliteSaver": "Scallion, SQLite, async", "AsyncPostgresSaver": "Scallion, PostgreSQL, async"}
"""Theirs, and ours on the same database."""


def concurrency(options: argparse.Namespace) -> list[dict[str, Any]]:
    """Turns per second of theirs and ours, in turns, the best of each."""
    rows = []
    for threads in options.threads:
        for theirs, ours in PAIRS.items():
            if not {theirs, ours} <= set(options.savers):
                continue
            runs = [
                [apart(options.time, "at_once", who, threads) for who in (theirs, ours)] for _ in range(options.runs)
            ]
            best = [round(max(speeds), 1) for speeds in zip(*runs, strict=True)]
            rows.append({"threads": threads, "theirs": theirs, "turns": best, "ratio": round(best[1] / best[0], 2)})
            print(f"{threads} threads, {theirs} and ours: {best}", file=sys.stderr)
    return rows


def parsed() -> argparse.Namespace:
    """What is to be measured: everything, or the parts that are named."""
    names = [name for name in STORES if name != "no saver"]
    parser = argparse.ArgumentParser()
    parser.add_argument("--turns", type=int, default=400, help="how long the conversation gets; 0 leaves it out")
    parser.add_argument("--threads", type=int, nargs="*", default=[32, 128], help="how many conversations at once")
    parser.add_argument("--savers", nargs="*", choices=names, default=names)
    parser.add_argument("--durability", nargs="*", choices=DURABILITIES, default=DURABILITIES)
    parser.add_argument("--channel", nargs="*", choices=CHANNELS, default=CHANNELS)
    parser.add_argument("--runs", type=int, default=1, help="each time is the least of that many runs")
    parser.add_argument("--time", choices=CLOCKS, default="clock", help="of what the time is taken")
    parser.add_argument("--one", nargs="*", help=argparse.SUPPRESS)
    return parser.parse_args()


def main() -> None:
    """Print all figures as JSON, or be one of the measured processes."""
    options = parsed()
    if options.one:
        name, who, *rest = options.one
        now = CLOCKS[options.time]
        if name == "growing":
            print(json.dumps(asyncio.run(growing(who, rest[0], rest[1], int(rest[2]), now))))
        else:
            print(json.dumps(asyncio.run(at_once(who, int(rest[0]), now))))
        return
    rows = growth(options) if options.turns else []
    print(json.dumps({"growth": rows, "at once": concurrency(options)}, indent=2))


if __name__ == "__main__":
    main()
