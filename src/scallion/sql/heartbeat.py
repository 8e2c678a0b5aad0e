"""The thread that keeps leases alive: one for each database and process, while there is something to do."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Protocol
from weakref import WeakSet

log = logging.getLogger("scallion")


class Kept(Protocol):
    """What is kept alive."""

    def beat(self) -> None:
        """Renew it."""

    def leave(self) -> None:
        """Release it, as far as that is possible."""


class Heartbeat:
    """Renews what is added, every so many seconds, until it is removed; and releases what its user could not."""

    def __init__(self, every: float) -> None:
        self.every = every
        self.reset()
        _all.add(self)

    def reset(self) -> None:
        """There is nothing, and no thread: as in a forked child."""
        self._changed = threading.Condition()
        self._kept: dict[Kept, None] = {}
        self._left: deque[Kept] = deque()
        self._thread: threading.Thread | None = None

    def add(self, one: Kept) -> None:
        """Keep it alive from now on."""
        with self._changed:
            self._kept[one] = None
            self._start()

    def remove(self, one: Kept) -> None:
        """Do not renew it any more."""
        self._kept.pop(one, None)

    def give_up(self, one: Kept) -> None:
        """Release it soon: who had it was interrupted."""
        self.remove(one)
        with self._changed:
            self._left.append(one)
            self._changed.notify()
            self._start()

    def _start(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="scallion-leases", daemon=True)
            self._thread.start()

    def _run(self) -> None:
        due, quiet = time.monotonic() + self.every, False
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._left, max(0.0, due - time.monotonic()))
                if quiet and not self._kept and not self._left:
                    self._thread = None
                    return
            while self._left:
                _tried(self._left.popleft().leave)
            if time.monotonic() >= due:
                quiet = not self._kept
                for one in list(self._kept):
                    _tried(one.beat)
                due = time.monotonic() + self.every


def _tried(work: Callable[[], None]) -> None:
    """What fails now is tried again at the next beat, or expires."""
    try:
        work()
    except Exception as error:
        log.warning("a lease could not be renewed or released: %s", type(error).__name__)


_all: WeakSet[Heartbeat] = WeakSet()


def _forked() -> None:
    for one in list(_all):
        one.reset()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)
