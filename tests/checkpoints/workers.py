"""What the processes do that the tests start, and how they are started."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.graph import START, MessagesState, StateGraph
from processes import processes

from scallion.sql.saver import SQLCheckpointer


def at_once(target: Callable[..., None], arguments: Sequence[tuple[Any, ...]]) -> list[int | None]:
    """The exit codes of one process for each of these arguments, all running at the same time."""
    workers = [processes.Process(target=target, args=one) for one in arguments]
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


def turns(url: str, worker: int) -> None:
    """Eight turns at a time, each on a thread of its own, and all once more."""
    with SQLCheckpointer(url) as saver, ThreadPoolExecutor(8) as threads:
        graph = two_steps(saver)

        def turn(n: int) -> None:
            graph.invoke({"messages": [HumanMessage("x" * 200)]}, {"configurable": {"thread_id": f"{worker}.{n}"}})

        for _ in range(2):
            list(threads.map(turn, range(8)))


def two_steps(saver: SQLCheckpointer) -> Any:
    """A graph with an answer in two steps."""
    graph = StateGraph(MessagesState)
    for name in ("first", "second"):
        graph.add_node(name, lambda state: {"messages": [AIMessage(f"after {len(state['messages'])}")]})
    return graph.add_edge(START, "first").add_edge("first", "second").compile(checkpointer=saver)


def put_many(url: str, worker: int) -> None:
    """Two hundred checkpoints, every process on the same thread."""
    with SQLCheckpointer(url) as saver:
        for _ in range(200):
            put(saver)
