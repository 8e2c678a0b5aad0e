"""What test_fork.py runs in processes of their own, each within a time limit."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
import time
import traceback
from collections.abc import Callable
from typing import Any

from langchain_core.messages import HumanMessage
from langgraph.checkpoint.base import empty_checkpoint

from scallion.sql import memory
from scallion.sql.saver import SQLCheckpointer


def config(thread: str) -> Any:
    return {"configurable": {"thread_id": thread, "checkpoint_ns": ""}}


def checkpoint(text: str) -> Any:
    return {**empty_checkpoint(), "channel_values": {"m": [HumanMessage(text * 100)]}, "channel_versions": {"m": 1}}


METADATA: Any = {"source": "loop", "step": 1, "parents": {}}


def put(saver: SQLCheckpointer, thread: str) -> None:
    saver.put(config(thread), checkpoint(thread), METADATA, {"m": 1})
    assert saver.get_tuple(config(thread)) is not None


async def aput(saver: SQLCheckpointer, thread: str) -> None:
    await saver.aput(config(thread), checkpoint(thread), METADATA, {"m": 1})
    assert await saver.aget_tuple(config(thread)) is not None


def child(work: Callable[[], Any]) -> int:
    """The exit status of a forked child that does the work, -14 if it hung."""
    pid = os.fork()
    if pid == 0:
        signal.alarm(10)
        code = 1
        try:
            work()
            code = 0
        except BaseException:
            os.write(2, traceback.format_exc().encode())
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def after_async_use(saver: SQLCheckpointer) -> None:
    """Both colours in the parent, both in the child, and the parent goes on."""

    async def parent() -> None:
        await asyncio.gather(*(aput(saver, f"p{n}") for n in range(4)))
        assert child(lambda: put(saver, "inside")) == 0
        await aput(saver, "p5")

    put(saver, "p")
    asyncio.run(parent())
    for n in range(3):
        assert child(lambda n=n: asyncio.run(aput(saver, f"c{n}"))) == 0
        assert child(lambda n=n: put(saver, f"s{n}")) == 0
        put(saver, f"q{n}")
    asyncio.run(aput(saver, "last"))
    assert {"inside", "c0", "s2", "q2", "last"} <= {one.thread for one in saver.sessions.list().items}


def while_another_writes(saver: SQLCheckpointer) -> None:
    """A thread of the parent is inside of a write at each fork."""
    stop = threading.Event()

    def writes() -> None:
        while not stop.is_set():
            put(saver, "busy")

    threads = [threading.Thread(target=writes, daemon=True) for _ in range(3)]
    for thread in threads:
        thread.start()
    try:
        for n in range(12):
            assert child(lambda n=n: put(saver, f"c{n}")) == 0
            time.sleep(0.01)
    finally:
        stop.set()
    for thread in threads:
        thread.join()
    assert {f"c{n}" for n in range(12)} <= {one.thread for one in saver.sessions.list().items}


def while_another_connects(saver: SQLCheckpointer) -> None:
    """A thread of the parent has a lock of the driver's at the fork, as who reads certificates has one of OpenSSL's."""
    put(saver, "p")
    dialect, lock, held = saver.database.engine.dialect, threading.Lock(), threading.Event()
    connect = dialect.connect

    def slow(*arguments: Any, **options: Any) -> Any:
        with lock:
            held.set()
            time.sleep(0.5)
            return connect(*arguments, **options)

    dialect.connect = slow  # type: ignore[method-assign]
    saver.database.forking()
    saver.database.engine.dispose()
    thread = threading.Thread(target=lambda: put(saver, "busy"), daemon=True)
    thread.start()
    held.wait()
    assert child(lambda: put(saver, "c")) == 0
    thread.join()


def with_locks_held(saver: SQLCheckpointer) -> None:
    """Every lock is held by another thread at the moment of the fork."""
    put(saver, "p")
    held, done = threading.Event(), threading.Event()

    def hold(_: Any) -> None:
        with saver.database._guard, memory._changing:
            held.set()
            done.wait(30)

    thread = threading.Thread(target=lambda: saver.database.run(hold, write=True), daemon=True)
    thread.start()
    held.wait()
    code = child(lambda: saver.get_tuple(config("p")) and asyncio.run(saver.aget_tuple(config("p"))))
    done.set()
    thread.join()
    assert code == 0
    put(saver, "q")


def run(case: str, url: str) -> None:
    """The case of that name."""
    work: Callable[[SQLCheckpointer], None] = globals()[case]
    with SQLCheckpointer(url, auto_upgrade=True) as saver:
        work(saver)
    print("fine")
