"""When Python's garbage collector would work in vain."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock

MANY = 50_000
"""So many new objects have it work all the same: nobody knows how long a server takes."""


class _Rest:
    """How many threads want it to rest, and how busy it was before the first of them."""

    def __init__(self) -> None:
        self._changing = Lock()
        self._wanted = 0
        self._before = 0

    def begin(self) -> None:
        with self._changing:
            self._wanted += 1
            if self._wanted == 1:
                self._before, *others = gc.get_threshold()
                gc.set_threshold(max(self._before, MANY) if self._before else 0, *others)

    def end(self) -> None:
        with self._changing:
            self._wanted -= 1
            if self._wanted == 0:
                gc.set_threshold(self._before, *gc.get_threshold()[1:])

    def forked(self) -> None:
        """None of the threads is in the child."""
        if self._wanted:
            gc.set_threshold(self._before, *gc.get_threshold()[1:])
        self._changing, self._wanted = Lock(), 0  # another thread may have held the old one


_rest = _Rest()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_rest.forked)


@contextmanager
def collector_at_rest() -> Iterator[None]:
    """While many objects are made, none of which is garbage, the garbage collector would walk the heap in vain."""
    _rest.begin()
    try:
        yield
    finally:
        _rest.end()
