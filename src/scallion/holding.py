"""One turn at a time: who holds a thread, in this process and, where the saver gives leases, in all that share it."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from typing import Any

from scallion.bridge import call, sleep
from scallion.errors import LeaseLost, StorageError, ThreadBusy, ThreadError
from scallion.loop.invocation import Invocation, current_invocation

NEAR, FAR = 0.01, 0.25
"""Seconds between two looks at a thread that is busy: in this process, and at most in the database."""


class Running:
    """The threads that run in this process: a thread runs one turn at a time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._turns: dict[Any, Invocation] = {}

    @contextmanager
    def claim(self, key: Any, here: Invocation, deadline: float) -> Iterator[None]:
        """Hold the thread for the block; raises ThreadBusy when it stays taken until then."""
        while (holder := self._take(key, here)) is not here:
            if time.monotonic() >= deadline:
                raise _busy(here, holder)
            sleep(NEAR)
        try:
            yield
        finally:
            with self._lock:
                del self._turns[key]

    def _take(self, key: Any, here: Invocation) -> Invocation:
        with self._lock:
            return self._turns.setdefault(key, here)

    def get(self, key: Any) -> Invocation | None:
        """The turn that runs on the thread."""
        return self._turns.get(key)


running = Running()
if hasattr(os, "register_at_fork"):  # a turn of the parent does not run in the child
    os.register_at_fork(after_in_child=lambda: running.__init__())  # type: ignore[misc]


def database(saver: Any) -> Any:
    """Where the saver keeps its threads: others may be on the same."""
    return getattr(saver, "database", saver)


def key(saver: Any, thread: str | None) -> Any:
    """What names the thread among all that run in this process."""
    return id(database(saver)), thread


@contextmanager
def holding(saver: Any, here: Invocation, config: dict[str, Any], *, seconds: float = 0, new: bool) -> Iterator[None]:
    """Hold the thread of `here` for the block, in which that is the current invocation; `config` carries the lease.

    It is waited for `seconds`. A thread that is not there is made if it is `new`. Raises ThreadBusy, NotPaused,
    ThreadError where the thread is another owner's, or a history of the saver.
    """
    if hasattr(saver, "is_history") and saver.is_history(here.thread):
        raise ThreadError(str(here.thread), f"thread {here.thread!r} is a history: no turn runs on it")
    deadline = time.monotonic() + seconds
    leases = getattr(saver, "leases", None)
    token = current_invocation.set(here)
    try:
        with running.claim(key(saver, here.thread), here, deadline):
            if leases is None:
                yield
                return
            bound = here.owner if here.only_own else getattr(saver, "owner", None)
            here.lease = _taken(leases, here, deadline, new=new, bound=bound)
            config["configurable"].update(here.lease.configurable)
            here.lease.parts = here.parts
            with _released(leases, here):
                yield
    finally:
        current_invocation.reset(token)


def _taken(leases: Any, here: Invocation, deadline: float, *, new: bool, bound: str | None) -> Any:
    pause = NEAR
    while True:
        try:
            return call(leases.take, leases.atake, here.thread, new=new, owner=here.owner, bound=bound)
        except ThreadBusy:
            if (left := deadline - time.monotonic()) <= 0:
                raise
        sleep(min(pause, left))
        pause = min(FAR, 2 * pause)


@contextmanager
def _released(leases: Any, here: Invocation) -> Iterator[None]:
    """Release the lease behind the block; where the database is away, or who waits is interrupted, soon."""
    failed = True
    try:
        yield
        failed = False
    except LeaseLost:
        raise
    except StorageError:  # do not wait for it once more
        leases.give_up(here.lease)
        raise
    finally:
        if not here.lease.given_up:  # type: ignore[union-attr]
            with suppress(StorageError):  # what was done is done
                call(leases.release, leases.arelease, here.lease, failed=failed)


def _busy(here: Invocation, holder: Invocation) -> ThreadBusy:
    if holder.lease is not None:
        return ThreadBusy(str(here.thread), holder.lease.holder, holder.lease.since)
    begun = datetime.now(UTC) - timedelta(seconds=time.monotonic() - holder.started)
    return ThreadBusy(str(here.thread), f"process {os.getpid()}", begun)
