"""Listing what waits for a person: a page of our index, against what LangGraph's savers and graphs offer for it."""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import time
from collections.abc import Callable, Sequence
from typing import Any

from langgraph.checkpoint.base import empty_checkpoint
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import Interrupt
from many import fill
from sqlalchemy import text
from stores import STORES

from scallion import SQLCheckpointer

DATABASES = {"SQLite": "SqliteSaver", "PostgreSQL": "PostgresSaver"}
"""Where both are measured, and LangGraph's saver there."""
TASK = "00000000-0000-0000-0000-000000000001"


def ours(saver: SQLCheckpointer) -> dict[str, Callable[[], Any]]:
    """Pages of 50; the second page of a list is as dear as its last one."""
    sessions, approvals = saver.sessions.list, saver.approvals.list
    after, used = approvals().next, sessions().next
    return {
        "pending approvals": approvals,
        "pending approvals, a later page": lambda: approvals(after=after),
        "pending approvals of an owner": lambda: approvals(owner="u0"),
        "pending approvals of a thread": lambda: approvals(thread="t100"),
        "pending approvals of a tool": lambda: approvals(tool="pay"),
        "sessions, last used": sessions,
        "sessions, a later page": lambda: sessions(after=used),
        "sessions, paused": lambda: sessions(status="paused"),
        "sessions of an owner": lambda: sessions(owner="u3"),
        "sessions of a tag": lambda: sessions(tag="tag1"),
    }


def theirs(saver: Any, threads: int, paused: int) -> dict[str, Callable[[], Any]]:
    """Which threads are interrupted, by the public API: all checkpoints, or the state of each known thread."""
    for number in range(threads):
        config: Any = {"configurable": {"thread_id": f"t{number}", "checkpoint_ns": ""}}
        stored = saver.put(config, empty_checkpoint(), {"source": "loop", "step": 1, "parents": {}}, {})
        if number % (threads // paused) == 0:
            saver.put_writes(stored, [("__interrupt__", [Interrupt("ok?", id=f"i{number}")])], TASK)
    graph = StateGraph(MessagesState).add_node("a", lambda state: None).add_edge(START, "a").compile(checkpointer=saver)

    def by_list() -> list[str]:
        found = {one.config["configurable"]["thread_id"]: one for one in saver.list(None)}
        return [name for name, one in found.items() if any(write[1] == "__interrupt__" for write in one.pending_writes)]

    def by_state() -> list[str]:
        names = (f"t{number}" for number in range(threads))
        return [name for name in names if graph.get_state({"configurable": {"thread_id": name}}).interrupts]

    return {"saver.list(None)": by_list, "graph.get_state() for each thread": by_state}


def seconds(ask: Callable[[], Any], runs: int) -> float:
    """The best of some runs: what other processes do at the time does not count."""
    taken = []
    for _ in range(runs):
        gc.collect()
        gc.disable()
        begun = time.perf_counter()
        ask()
        taken.append(time.perf_counter() - begun)
        gc.enable()
    return min(taken)


def milliseconds(cases: dict[str, Callable[[], Any]], runs: int) -> dict[str, float]:
    """Each case."""
    return {name: round(1_000 * seconds(ask, runs), 3) for name, ask in cases.items()}


async def measure(database: str, threads: int, paused: int, theirs_threads: int) -> dict[str, Any]:
    """Both savers on one database; theirs with fewer threads, as its API reads all of them."""
    async with STORES[f"Scallion, {database}"]() as (saver, _):
        fill(saver, threads, paused)
        if database == "PostgreSQL":
            saver.database.run(lambda conn: conn.execute(text("ANALYZE")))
        found: dict[str, Any] = {"ours": milliseconds(ours(saver), 31)}
    async with STORES[DATABASES[database]]() as (saver, _):
        found["theirs"] = milliseconds(theirs(saver, theirs_threads, theirs_threads // 100), 1)
    return found


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--threads", type=int, default=100_000)
    parser.add_argument("--paused", type=int, default=1_000)
    parser.add_argument("--theirs", type=int, default=2_000, help="threads in LangGraph's saver")
    parser.add_argument("--databases", nargs="*", default=list(DATABASES), choices=list(DATABASES))
    options = parser.parse_args(arguments)
    chosen = options.threads, options.paused, options.theirs
    found = {database: asyncio.run(measure(database, *chosen)) for database in options.databases}
    print(json.dumps({"threads": options.threads, "theirs": options.theirs, "milliseconds": found}))


if __name__ == "__main__":
    main()
