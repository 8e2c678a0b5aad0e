"""Threads of ours, for asyncio callers where the driver has no asyncio side.

What writes does not take a thread each, as there each would only wait for the others, or for the network: what waits at
a moment is written together, and the loops are told at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from threading import Lock
from typing import Any, NamedTuple, Protocol, TypeVar

from scallion.errors import Closed
from scallion.sql.opening import THREADS

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
CLOSED = "the saver or inbox is closed: make a new one"


class Awaited(Protocol[T_co]):
    """Something to be written with others."""

    @property
    def is_written(self) -> bool:
        """Whether it was, or failed for a reason of its own, so that `ended` does not take long."""

    def ended(self) -> T_co:
        """What came of it, or of writing it alone."""


Write = Callable[[Sequence[Any]], Collection[Any]]
"""Writes all of these, or some, and gives those that are to be written next; what is left is written alone."""


class _Waiting(NamedTuple):
    awaited: Awaited[Any]
    loop: asyncio.AbstractEventLoop
    future: asyncio.Future[Any]


class _Told(NamedTuple):
    """What came of something: a value, or an error."""

    future: asyncio.Future[Any]
    value: Any
    error: BaseException | None


class _Queue:
    """What waits to be written, one batch after the other."""

    def __init__(self) -> None:
        self._guard = Lock()
        self._waiting: list[_Waiting] = []
        self._is_writing = False

    def add(self, one: _Waiting) -> bool:
        """Whether somebody has to begin writing."""
        with self._guard:
            self._waiting.append(one)
            begins, self._is_writing = not self._is_writing, True
            return begins

    def add_first(self, those: Sequence[_Waiting]) -> None:
        """These are written next, which is before who writes asks for more."""
        if those:
            with self._guard:
                self._waiting[:0] = those

    def taken(self) -> Sequence[_Waiting]:
        """All that wait; when there are none, the writing ends."""
        with self._guard:
            taken, self._waiting = self._waiting, []
            self._is_writing = bool(taken)
            return taken


class Threads:
    """Where the asyncio callers of a database have work done."""

    def __init__(self) -> None:
        self._guard = Lock()
        self._pool: ThreadPoolExecutor | None = None
        self._is_closed = False
        self._queue = _Queue()

    async def run(self, call: Callable[[], T]) -> T:
        """What `call` gives in a thread. Raises Closed."""
        return await asyncio.wrap_future(self._submitted(call))

    async def written(self, awaited: Awaited[T], write: Write) -> T:
        """What comes of it when it has been written, with what else waits then. Raises Closed.

        It is written too where who awaits it is cancelled.
        """
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        if self._queue.add(_Waiting(awaited, loop, future)):
            try:
                self._submitted(partial(self._write_all, write))
            except BaseException as error:
                while refused := self._queue.taken():
                    _tell((one.loop, _Told(one.future, None, error)) for one in refused)
        return await future

    def close(self, *, wait: bool) -> None:
        """Take no more work; with `wait`, until what there is has been done."""
        self._is_closed = True
        if self._pool is not None:
            self._pool.shutdown(wait=wait)

    def _submitted(self, call: Callable[[], T]) -> Future[T]:
        try:
            return self._started().submit(call)
        except RuntimeError:
            if self._is_closed:
                raise Closed(CLOSED) from None
            raise

    def _started(self) -> ThreadPoolExecutor:
        if self._pool is None:
            with self._guard:
                self._pool = self._pool or ThreadPoolExecutor(THREADS, thread_name_prefix="scallion-sql")
        return self._pool

    def _write_all(self, write: Write) -> None:
        while waiting := self._queue.taken():
            later: Collection[Any] = ()
            with suppress(BaseException):  # each of them is asked for its own
                later = write([one.awaited for one in waiting])
            self._queue.add_first([one for one in waiting if one.awaited in later])
            _tell(map(_end, [one for one in waiting if one.awaited.is_written]))
            for one in waiting:
                if not one.awaited.is_written and one.awaited not in later:
                    self._write_alone(one)

    def _write_alone(self, one: _Waiting) -> None:
        try:
            self._submitted(lambda: _tell([_end(one)]))
        except BaseException as error:
            _tell([(one.loop, _Told(one.future, None, error))])


def _end(one: _Waiting) -> tuple[asyncio.AbstractEventLoop, _Told]:
    try:
        return one.loop, _Told(one.future, one.awaited.ended(), None)
    except BaseException as error:
        return one.loop, _Told(one.future, None, error)


def _tell(endings: Iterable[tuple[asyncio.AbstractEventLoop, _Told]]) -> None:
    """Tell each loop all of its own at once. One that has ended has nobody who waits."""
    by_loop: dict[asyncio.AbstractEventLoop, list[_Told]] = {}
    for loop, told in endings:
        by_loop.setdefault(loop, []).append(told)
    for loop, those in by_loop.items():
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(_set, those)


def _set(endings: Sequence[_Told]) -> None:
    for future, value, error in endings:
        if future.done():  # who waited was cancelled
            continue
        if error is None:
            future.set_result(value)
        else:
            future.set_exception(error)
