"""Stopping the turn of a thread from outside: one that runs, here or in another process, or one that waits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from scallion.bridge import call
from scallion.course import new_turn_id
from scallion.elsewhere import refuse_message
from scallion.errors import NotPaused, StorageError, ThreadBusy
from scallion.holding import holding, key, running
from scallion.loop.invocation import Cancelled, Invocation
from scallion.options import graph_config, this_thread
from scallion.settling import CANCELLED, UNKNOWN_OUTCOME
from scallion.threads import Head, Threads
from scallion.values import Paused

T = TypeVar("T")


class Cancelling:
    """Stops turns of one agent."""

    def __init__(self, saver: Any, threads: Threads, agent: str) -> None:
        self._saver = saver
        self._threads = threads
        self._agent = agent
        self._bound = getattr(saver, "owner", None)

    def cancel(self, thread: str) -> bool:
        """Have the turn of the thread stop, or close it; whether there was one."""
        thread = this_thread(thread, {})
        if (turn := running.get(key(self._saver, thread))) is not None:
            if self._bound not in (None, turn.owner):
                return False  # another owner's, which is unknown here
            turn.cancelled = turn.given_up = True
            return True
        if self._saver is None:
            return False
        try:
            return self._close(thread)
        except NotPaused:
            return False
        except ThreadBusy:  # in another process
            leases = getattr(self._saver, "leases", None)
            if leases is not None and call(leases.ask_to_stop, leases.aask_to_stop, thread, self._bound):
                return True
            return self._close(thread)  # it has just come to its end

    def _close(self, thread: str) -> bool:
        here = Invocation(turn=new_turn_id(), thread=thread, owner=self._bound)
        config = graph_config(here, {}, self._agent)
        with holding(self._saver, here, config, new=False):
            return self._end(config, thread, CANCELLED)

    def _end(self, config: dict[str, Any], thread: str, text: str) -> bool:
        head = self._threads.whole(config)
        if not head.open and not head.marker:
            refuse_message(self._saver, thread)
            return False
        self._threads.close(config, thread, head, text, "cancelled")
        return True

    def heeded(self, run: Callable[[dict[str, Any]], T], here: Invocation, config: dict[str, Any]) -> T:
        """What `run` gives. A turn that is cancelled meanwhile is closed, unless it completes, while it has its thread.

        Raises Cancelled where it has paused.
        """
        try:
            result = run(config)
        except StorageError:
            raise
        except BaseException:
            if self._gives_up(here):
                self._end(config, str(here.thread), CANCELLED)
            raise
        if isinstance(result, Paused) and self._gives_up(here):
            self._end(config, str(here.thread), CANCELLED)
            raise Cancelled
        return result

    def _gives_up(self, here: Invocation) -> bool:
        asked = here.given_up or (here.lease is not None and here.lease.asked_to_stop)
        return asked and self._saver is not None and not (here.lease is not None and here.lease.lost)

    def whole(self, here: Invocation, config: dict[str, Any]) -> Head:
        """Where a thread stands that is to go on. Raises NotPaused where a turn was cancelled and its process died."""
        thread = str(here.thread)
        if here.lease is not None and here.lease.was_cancelled and self._end(config, thread, UNKNOWN_OUTCOME):
            raise NotPaused(thread, f"the turn of thread {thread!r} was cancelled; it is closed now")
        return self._threads.whole(config)
