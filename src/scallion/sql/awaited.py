"""Threads of ours, for asyncio callers where the driver has no asyncio side.

What writes to SQLite does not take a thread each, as each would only wait for the others: one thread writes all that
waits at a moment, in one transaction, and tells the loops at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from threading import Lock
from typing import Any, NamedTuple, TypeVar

from scallion.errors import Closed
from scallion.sql.commits import Piece
from scallion.sql.opening import THREADS

T = TypeVar("T")
CLOSED = "the saver or inbox is closed: make a new one"


class _Awaited(NamedTuple):
    """A piece, and how it is written with others; `settled` gives what came of it, or raises."""

    piece: Piece
    write: Callable[[Sequence[Piece]], None]
    settled: Callable[[], Any]
    loop: asyncio.AbstractEventLoop
    future: asyncio.Future[Any]


class _Told(NamedTuple):
    """What came of something: a value, or an error."""

    future: asyncio.Future[Any]
    value: Any
    error: BaseException | None


class Threads:
    """Where the asyncio callers of a database have work done."""

    def __init__(self) -> None:
        self._guard = Lock()
        self._pool: ThreadPoolExecutor | None = None
        self._is_closed = False
        self._waiting: list[_Awaited] = []
        self._is_writing = False

    async def run(self, call: Callable[[], T]) -> T:
        """What `call` gives in a thread. Raises Closed."""
        return await asyncio.wrap_future(self._submitted(call))

    async def written(self, piece: Piece, write: Callable[[Sequence[Piece]], None], settled: Callable[[], T]) -> T:
        """What `settled` gives once the piece has been written, with all that waits then. Raises Closed.

        It is written too where who awaits it is cancelled.
        """
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        with self._guard:
            self._waiting.append(_Awaited(piece, write, settled, loop, future))
            is_first, self._is_writing = not self._is_writing, True
        if is_first:
            self._begin()
        return await future

    def close(self, *, wait: bool) -> None:
        """Take no more work; with `wait`, until what there is has been done."""
        self._is_closed = True
        if self._pool is not None:
            self._pool.shutdown(wait=wait)

    def _begin(self) -> None:
        try:
            self._submitted(self._write_all)
        except BaseException as error:
            _tell((one.loop, _Told(one.future, None, error)) for one in self._taken())
            self._taken()

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

    def _write_all(self) -> None:
        while awaited := self._taken():
            with suppress(BaseException):  # each of them is asked for its own, and tries by itself
                awaited[0].write([one.piece for one in awaited])
            _tell((one.loop, _Told(one.future, *_ending(one.settled))) for one in awaited)

    def _taken(self) -> list[_Awaited]:
        """All that wait; when there are none, the writing ends."""
        with self._guard:
            taken, self._waiting = self._waiting, []
            self._is_writing = bool(taken)
            return taken


def _ending(settled: Callable[[], T]) -> tuple[T | None, BaseException | None]:
    try:
        return settled(), None
    except BaseException as error:
        return None, error


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
