"""At a fork no thread is where the child could not go on, and what is open in the parent stays the parent's."""

from __future__ import annotations

import os
from threading import Condition, local
from typing import Any, Protocol
from weakref import WeakSet

from sqlalchemy import Engine, event


class Gate:
    """Which threads are inside of libraries with locks of their own: at a fork nobody may be.

    SQLite has a table of the files that this process has open, too, with what it has locked of them. Whoever connects
    to a server reads certificates, which OpenSSL does under a lock. A child would have copies of them, for ever locked,
    or untrue.
    """

    WAIT = 3.0
    """How many seconds a fork waits for the others."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Nobody is inside."""
        self._changed = Condition()
        self._inside = 0
        self._forks = 0
        self._mine = local()

    def __enter__(self) -> None:
        depth = getattr(self._mine, "depth", 0)
        with self._changed:
            while self._forks and not depth:
                self._changed.wait()
            self._inside += 1
        self._mine.depth = depth + 1

    def __exit__(self, *exc: object) -> None:
        changed = self._changed
        self._mine.depth = getattr(self._mine, "depth", 1) - 1
        with changed:
            self._inside = max(0, self._inside - 1)  # a child may leave what only the parent entered
            if self._forks:
                changed.notify_all()

    def shut(self) -> bool:
        """Let nobody in, and wait until all others are out; whether this thread is not inside either."""
        mine = getattr(self._mine, "depth", 0)
        with self._changed:
            self._forks += 1
            self._changed.wait_for(lambda: self._inside <= mine, self.WAIT)
            return self._inside == 0

    def open(self) -> None:
        """Go on in the parent."""
        with self._changed:
            self._forks -= 1
            self._changed.notify_all()


gate = Gate()


def guard(engine: Engine) -> None:
    """Have no fork while the engine makes a connection to a server."""
    event.listen(engine, "do_connect", _connect)


def _connect(dialect: Any, record: Any, arguments: Any, options: Any) -> Any:
    with gate:
        return dialect.connect(*arguments, **options)


class Watched(Protocol):
    """What has to do with forks."""

    def forking(self) -> None:
        """Close, in the parent, what a child must not have open; nobody uses it."""

    def forked(self) -> None:
        """Begin anew in the child."""


_watched: WeakSet[Watched] = WeakSet()


def watch(one: Watched) -> None:
    """Tell it of forks, as long as somebody else keeps it."""
    _watched.add(one)


def _forking() -> None:
    if gate.shut():
        for one in list(_watched):
            one.forking()


def _forked() -> None:
    gate.reset()
    for one in list(_watched):
        one.forked()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_forking, after_in_parent=gate.open, after_in_child=_forked)
