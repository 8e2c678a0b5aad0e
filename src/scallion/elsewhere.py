"""Pauses of other graphs on the thread of an agent, as those of `as_graph()`: only who asked goes on with them."""

from __future__ import annotations

from typing import Any

from scallion.bridge import call
from scallion.errors import NotPaused, ThreadPaused
from scallion.loop.invocation import invocation

WAY = "another graph asks, as agent.as_graph() does, and it alone goes on or supersedes that"


def refuse_message(saver: Any, thread: str) -> None:
    """Raise ThreadPaused where a thread that waits for nobody here waits by another graph."""
    if _waits(saver, thread):
        page = call(saver.approvals.list, saver.approvals.alist, thread=thread)
        raise ThreadPaused(thread, page.items, WAY)


def refuse_resume(saver: Any, thread: str) -> None:
    """Raise NotPaused, and say so where another graph is what waits."""
    raise NotPaused(thread, f"thread {thread!r} is paused: {WAY}" if _waits(saver, thread) else "")


def _waits(saver: Any, thread: str) -> bool:
    """The row is read again: what waited when the turn got its lease may have gone on under it."""
    lease = invocation().lease
    return lease is not None and lease.status == "paused" and call(saver.status, saver.astatus, thread) == "paused"
