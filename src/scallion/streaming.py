"""A turn as a stream of events: the turn runs beside the reader, and stops soon after the reader goes away."""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextvars import copy_context
from typing import Any

from scallion.bridge import enter_async, enter_sync
from scallion.events import Event, Reasoning, Token, ToolCallDelta
from scallion.loop.invocation import Cancelled, Invocation
from scallion.values import Completed, Paused

Result = Completed | Paused
Work = Callable[[], Result]


def stream(work: Work, here: Invocation) -> Iterator[Event | Result]:
    """The events of `work` as they happen, then its result; an error is raised. Closing the stream stops the turn."""
    events: queue.SimpleQueue[Any] = queue.SimpleQueue()
    ended = object()
    outcome: list[Any] = []

    def emit(event: Event) -> None:
        if not _stopped(here, event):
            events.put(event)

    def run() -> None:
        try:
            with enter_sync():
                outcome.append(work())
        except BaseException as error:  # raised again on the reader's side
            outcome.append(error)
        finally:
            events.put(ended)

    here.emit = emit
    worker = threading.Thread(target=copy_context().run, args=(run,), name="scallion-stream", daemon=True)
    worker.start()
    try:
        while (event := events.get()) is not ended:
            yield event
        yield _raised_or_result(outcome[0])
    finally:
        here.cancelled = True
        worker.join()


async def astream(work: Work, here: Invocation) -> AsyncIterator[Event | Result]:
    """The same on the running event loop."""
    events: asyncio.Queue[Any] = asyncio.Queue()
    loop = asyncio.get_running_loop()
    owner = threading.get_ident()

    def emit(event: Event) -> None:
        if _stopped(here, event):
            return
        if threading.get_ident() == owner:
            events.put_nowait(event)
        else:  # a synchronous tool that runs in a thread
            loop.call_soon_threadsafe(events.put_nowait, event)

    here.emit = emit
    task = asyncio.ensure_future(enter_async(work))
    task.add_done_callback(events.put_nowait)
    try:
        while (event := await events.get()) is not task:
            yield event
        yield _raised_or_result(task.exception() or task.result())
    finally:
        here.cancelled = True
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def _stopped(here: Invocation, event: Event) -> bool:
    """Whether the reader is gone. A text is cut short then; what finished is kept, and the next call is not begun."""
    if here.cancelled and isinstance(event, Token | Reasoning | ToolCallDelta):
        raise Cancelled
    return here.cancelled


def _raised_or_result(outcome: Any) -> Any:
    if isinstance(outcome, BaseException):
        raise outcome
    return outcome
