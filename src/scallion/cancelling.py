"""Stopping the turn of a thread from outside: one that runs, here or in another process, or one that waits."""

from __future__ import annotations

from typing import Any

from scallion.bridge import call
from scallion.course import new_turn_id
from scallion.errors import NotPaused, ThreadBusy
from scallion.holding import holding, key, running
from scallion.loop.invocation import Invocation
from scallion.options import graph_config
from scallion.threads import CANCELLED, Threads


class Cancelling:
    """Stops turns of one agent."""

    def __init__(self, saver: Any, threads: Threads, agent: str) -> None:
        self._saver = saver
        self._threads = threads
        self._agent = agent
        self._bound = getattr(saver, "owner", None)

    def cancel(self, thread: str) -> bool:
        """Have the turn of the thread stop, or close it; whether there was one."""
        if (turn := running.get(key(self._saver, thread))) is not None:
            if self._bound not in (None, turn.owner):
                return False  # another owner's, which is unknown here
            turn.cancelled = True
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
            head = self._threads.whole(config)
            if not head.open and not head.marker:
                return False
            self._threads.close(config, thread, head, CANCELLED, "cancelled")
            return True
