"""One colour: synchronous code that can wait for asynchronous code, in either kind of run.

Under an async entry the onion runs in a greenlet (`spawn`), and `wait` hands the awaitable to the event loop below, the
technique of SQLAlchemy's asyncio extension. In a sync run `wait` uses a long-lived loop in a background thread, so
that it also works inside a running loop (Jupyter). `call` picks the colour of a graph or saver by the public entry that
was used, not by the greenlet that happens to run.
"""

from __future__ import annotations

import asyncio
import inspect
import os
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar, copy_context
from typing import Any, TypeVar, cast

from sqlalchemy.util.concurrency import await_, greenlet_spawn, in_greenlet

T = TypeVar("T")

_sync_entry: ContextVar[bool] = ContextVar("scallion_sync_entry", default=False)


_depth: ContextVar[int] = ContextVar("scallion_depth", default=0)
"""How many background loops wait for the code that runs: what it waits for goes to the next one."""


class _Background:
    """The loops on which sync runs wait: one for each depth, made at first use, and anew in a forked child.

    They live as long as the process, so that the connections of a client stay with their loop. Each has an executor of
    its own: what runs in it waits only for deeper ones, so that none can starve.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loops: list[asyncio.AbstractEventLoop] = []

    def run(self, awaitable: Awaitable[T]) -> T:
        depth = _depth.get()
        outcome: list[Any] = []
        future = asyncio.run_coroutine_threadsafe(_settled(awaitable, depth + 1, outcome), self._loop(depth))
        try:
            future.result()
        except BaseException:
            future.cancel()
            raise
        result, error = outcome
        if error is not None:
            raise error
        return cast("T", result)

    def _loop(self, depth: int) -> asyncio.AbstractEventLoop:
        with self._lock:
            while len(self._loops) <= depth:
                loop = asyncio.new_event_loop()
                name = f"scallion-loop-{len(self._loops)}"
                threading.Thread(target=loop.run_forever, name=name, daemon=True).start()
                self._loops.append(loop)
            return self._loops[depth]


async def _settled(awaitable: Awaitable[Any], depth: int, outcome: list[Any]) -> None:
    """Bring result or error across as values: asyncio would stop the loop for some errors, and change others."""
    _depth.set(depth)
    try:
        outcome += [await awaitable, None]
    except BaseException as error:
        outcome += [None, error]


_background = _Background()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=lambda: _background.__init__())  # type: ignore[misc]


def wait(awaitable: Awaitable[T]) -> T:
    """The result of `awaitable`, waited for from synchronous code of either kind of run."""
    if in_greenlet():
        return await_(awaitable)
    return _background.run(awaitable)


def awaited(value: Any) -> Any:
    """What a function gave that may be `def` or `async def`: waited for where it has to be."""
    return wait(value) if inspect.isawaitable(value) else value


def is_cancelled() -> bool:
    """Whether the running task is being cancelled: any other CancelledError is a failure of what was called."""
    try:
        task = asyncio.current_task()
    except RuntimeError:  # no loop runs
        return False
    return task is not None and task.cancelling() > 0


def sleep(seconds: float) -> None:
    """Wait in either kind of run, without blocking a running loop."""
    if in_greenlet():
        await_(asyncio.sleep(seconds))
    else:
        time.sleep(seconds)


async def spawn(function: Callable[..., T], *args: Any, **kwargs: Any) -> T:
    """Run synchronous `function` so that `wait` inside it awaits on the running loop."""
    return cast("T", await greenlet_spawn(function, *args, **kwargs))


async def enter_async(function: Callable[..., T], *args: Any, **kwargs: Any) -> T:
    """`spawn` for a public async verb: graphs and savers below are called asynchronously."""
    token = _sync_entry.set(False)
    try:
        return await spawn(function, *args, **kwargs)
    finally:
        _sync_entry.reset(token)


@contextmanager
def enter_sync() -> Iterator[None]:
    """Mark a public sync verb: graphs and savers below are called synchronously."""
    token = _sync_entry.set(True)
    try:
        yield
    finally:
        _sync_entry.reset(token)


def call(sync: Callable[..., T], asynchronous: Callable[..., Awaitable[T]], *args: Any, **kwargs: Any) -> T:
    """Call the half that fits the public entry.

    A sync half that is reached on an event loop (an async hook of a sync run) runs in a thread of its own, not in the
    loop's executor: a whole turn in there could starve the very calls that it waits for.
    """
    if not _sync_entry.get() and in_greenlet():
        return await_(asynchronous(*args, **kwargs))
    if in_greenlet():
        return await_(in_thread(lambda: sync(*args, **kwargs)))
    return sync(*args, **kwargs)


def waits_on_loop() -> bool:
    """Whether `wait` would await on a running loop (and blocking would block that loop)."""
    return bool(in_greenlet())


async def in_thread(function: Callable[[], T]) -> T:
    """The result of `function` in a daemon thread of its own; where the waiting is cancelled, it is left behind."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()

    def settle(setter: Callable[[Any], None], value: Any) -> None:
        if not future.cancelled():
            setter(value)

    def tell(setter: Callable[[Any], None], value: Any) -> None:
        with suppress(RuntimeError):  # the loop was closed meanwhile: nobody waits
            loop.call_soon_threadsafe(settle, setter, value)

    def work() -> None:
        try:
            result = function()
        except StopIteration as error:  # no future takes one
            tell(future.set_exception, RuntimeError(f"StopIteration: {error}"))
        except BaseException as error:  # carried over to the waiting side
            tell(future.set_exception, error)
        else:
            tell(future.set_result, result)

    threading.Thread(target=copy_context().run, args=(work,), daemon=True).start()
    return await future
