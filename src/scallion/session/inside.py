"""What an agent lets its own sessions do."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

from scallion.loop.invocation import Invocation
from scallion.options import CallOptions
from scallion.threads import Threads
from scallion.values import Completed, Paused
from scallion.while_paused import Find

First = Callable[[Invocation], object]
"""Done once the thread is held, before its turn goes on."""


class Again(Protocol):
    """Runs a turn on messages that are found once the thread is held."""

    def __call__(self, thread: str, find: Find, options: CallOptions) -> Completed | Paused: ...


class Further(Protocol):
    """Goes on with the turn of a thread, after what is done first."""

    def __call__(self, thread: str, first: First, options: CallOptions) -> Completed | Paused: ...


class Inside(NamedTuple):
    """The agent's threads, and its verbs for a thread on which something is done first, under the same lease."""

    threads: Threads
    again: Again
    further: Further
