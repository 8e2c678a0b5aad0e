"""Searching among many threads: a page of 50, with an index that is up to date, and what it takes to make that."""

from __future__ import annotations

import argparse
import asyncio
import json
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate
from random import Random
from typing import Any

from langchain_core.messages import HumanMessage
from langgraph.checkpoint.base import empty_checkpoint
from listing import milliseconds
from many import fill
from sqlalchemy import text
from stores import STORES

from scallion import SQLCheckpointer
from scallion.sql import indexing

DATABASES = ("SQLite", "PostgreSQL")
VOCABULARY, SAID = 30_000, 60
"""How many words people know, and how many of them they say in a thread: as ever, some often and most seldom."""
WEIGHTS = list(accumulate(1 / (rank + 3) for rank in range(VOCABULARY)))


def said(number: int) -> str:
    """What is said in a thread. `w0` is in nearly all, `w100` in a twentieth, `w29999` in none or one."""
    return " ".join(f"w{rank}" for rank in Random(number).choices(range(VOCABULARY), cum_weights=WEIGHTS, k=SAID))


def index(saver: SQLCheckpointer, threads: int) -> None:
    """Write the words of the threads t1, t2, ...: their messages are not there, as storing these takes far longer."""
    for start in range(1, threads + 1, 1_000):
        batch = [
            indexing.Fresh(no, 1, [None, None, None, None]) for no in range(start, min(start + 1_000, threads + 1))
        ]
        for one in batch:
            one.add(None, f"{said(one.session)} t{one.session} n{one.session % 10}")
        saver.database.run(lambda conn, batch=batch: indexing.write(conn, saver.database.tables, batch), write=True)


def tell(saver: SQLCheckpointer, thread: str, number: int, messages: int = 4) -> None:
    """Store a thread of some messages."""
    values = {"messages": [HumanMessage(f"{said(number + n)} {'.' * 100}", id=str(n)) for n in range(messages)]}
    checkpoint: Any = {**empty_checkpoint(), "channel_values": values, "channel_versions": {"messages": 1}}
    place: Any = {"configurable": {"thread_id": thread, "checkpoint_ns": ""}}
    saver.put(place, checkpoint, {"source": "loop", "step": 1}, {"messages": 1})


def searches(saver: SQLCheckpointer) -> dict[str, Callable[[], Any]]:
    """By what is looked for."""
    find = saver.sessions.list
    after = find(search="w0").next
    return {
        "a word that is nowhere": lambda: find(search="nowhere"),
        "a word of few threads": lambda: find(search="w20000"),
        "a word of nearly all threads": lambda: find(search="w0"),
        "the same, a later page": lambda: find(search="w0", after=after),
        "a word of a twentieth of the threads": lambda: find(search="w100"),
        "one of few and one of nearly all": lambda: find(search="w0 w20000"),
        "one of nearly all, of an owner": lambda: find(search="w1", owner="u3"),
        "the beginning of many words": lambda: find(search="w2"),
        "two of a fiftieth each, seldom together": lambda: find(search="w250x w260"),
        "two of a thirtieth each": lambda: find(search="w160 w170"),
    }


def after_a_turn(saver: SQLCheckpointer) -> Iterator[float]:
    """Milliseconds of a search behind one thread that was written since."""
    for number in range(31):
        tell(saver, "t7", number)
        begun = time.perf_counter()
        saver.sessions.list(search="w20000")
        yield 1_000 * (time.perf_counter() - begun)


def first(saver: SQLCheckpointer, threads: int) -> float:
    """Milliseconds that it takes to index a new thread of four messages."""
    saver.sessions.index()
    for number in range(threads):
        tell(saver, f"new{number}", 7 * number)
    begun = time.perf_counter()
    assert saver.sessions.index() == threads
    return 1_000 * (time.perf_counter() - begun) / threads


async def measure(database: str, threads: int) -> dict[str, Any]:
    """One database."""
    async with STORES[f"Scallion, {database}"]() as (saver, size):
        fill(saver, threads, threads // 100)
        before = size()
        index(saver, threads)
        found: dict[str, Any] = {"bytes": (size() - before) / threads}
        if database == "PostgreSQL":
            saver.database.run(lambda conn: conn.execute(text("ANALYZE")))
        found["milliseconds"] = milliseconds(searches(saver), 11)
        found["milliseconds"]["a word of few threads, after a turn"] = round(min(after_a_turn(saver)), 3)
        found["first"] = first(saver, 1_000)
    return found


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--threads", type=int, default=100_000)
    parser.add_argument("--databases", nargs="*", default=list(DATABASES), choices=DATABASES)
    options = parser.parse_args(arguments)
    found = {database: asyncio.run(measure(database, options.threads)) for database in options.databases}
    print(json.dumps({"threads": options.threads, "found": found}))


if __name__ == "__main__":
    main()
