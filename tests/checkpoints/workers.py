"""What the processes do that the tests start, and how they are started."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Sequence
from typing import Any

from langchain_core.messages import HumanMessage
from langgraph.checkpoint.base import empty_checkpoint

from scallion.sql.saver import SQLCheckpointer


def at_once(target: Callable[..., None], arguments: Sequence[tuple[Any, ...]]) -> list[int | None]:
    """The exit codes of one process for each of these arguments, all running at the same time."""
    context = multiprocessing.get_context("forkserver")  # imports once what every process needs
    context.set_forkserver_preload(["scallion.sql.saver", "langchain_core.messages", "alembic.command"])
    workers = [context.Process(target=target, args=one) for one in arguments]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return [worker.exitcode for worker in workers]


def put(saver: SQLCheckpointer, thread: str = "t") -> Any:
    """An empty checkpoint of the thread."""
    config: Any = {"configurable": {"thread_id": thread, "checkpoint_ns": ""}}
    return saver.put(config, empty_checkpoint(), {"source": "input", "step": -1, "parents": {}}, {})


def upgrade(url: str) -> None:
    """Bring the database up to date and use it."""
    with SQLCheckpointer(url, auto_upgrade=True) as saver:
        put(saver)


def write(url: str, worker: int) -> None:
    """Twenty checkpoints on three threads, with a write each."""
    with SQLCheckpointer(url) as saver:
        for n in range(20):
            stored = put(saver, f"t{n % 3}")
            saver.put_writes(stored, [("messages", HumanMessage("x" * 200, id=str(n)))], f"task{worker}")
