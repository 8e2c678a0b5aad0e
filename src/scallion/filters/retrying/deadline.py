"""The deadline that a tool call runs under, as what runs inside sees it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from scallion.bridge import in_thread


class Watch:
    """One call under a deadline: whether its time is over, and how many threads still run for it."""

    def __init__(self) -> None:
        self.outer = _watch.get()
        self.is_over = False
        self.threads = 0

    def count(self, change: int) -> None:
        """A thread began (1) or ended (-1), for this deadline and those around it."""
        self.threads += change
        if self.outer is not None:
            self.outer.count(change)


_watch: ContextVar[Watch | None] = ContextVar("scallion_deadline", default=None)


@contextmanager
def watching(watch: Watch) -> Iterator[None]:
    """Within the block the deadline holds."""
    token = _watch.set(watch)
    try:
        yield
    finally:
        _watch.reset(token)


def has_deadline() -> bool:
    """Whether what runs here may be left behind: then it does not belong into a pool of few threads."""
    return _watch.get() is not None


def is_over() -> bool:
    """Whether nobody waits any more for what runs here."""
    watch = _watch.get()
    while watch is not None and not watch.is_over:
        watch = watch.outer
    return watch is not None


async def apart(function: Callable[[], Any]) -> Any:
    """The result of `function` in a thread of its own, which the deadline counts as long as it runs."""
    watch = _watch.get()

    def counted() -> Any:
        try:
            return function()
        finally:
            if watch is not None:
                watch.count(-1)

    if watch is not None:
        watch.count(1)
    return await in_thread(counted)
