"""What event loops write to PostgreSQL: writes that wait at one moment go there together, and are one commit."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from contextlib import ExitStack, suppress
from threading import Lock
from typing import TYPE_CHECKING

from sqlalchemy import Connection, Engine

from scallion.sql import shortcut
from scallion.sql.garbage import collector_at_rest
from scallion.sql.statement import NoShortcut
from scallion.sql.tables import Tables

if TYPE_CHECKING:
    from scallion.sql.memory import Known, Memory

MOST = 32
"""How many writes are one commit: behind them the next ones wait, and their sessions are locked."""


class Stored:
    """A write to the session of a thread. `alone` does it by itself, the usual way if need be."""

    __slots__ = ("_alone", "is_written", "memory", "thread", "work")

    def __init__(
        self, work: Callable[[Connection], Known], memory: Memory, thread: str, alone: Callable[[], None]
    ) -> None:
        self.work = work
        self.memory = memory
        self.thread = thread
        self._alone = alone
        self.is_written = False

    def ended(self) -> None:
        """As in `Awaited`."""
        if not self.is_written:
            self._alone()


_Plan = tuple[Stored, "Known", shortcut.Planned]


def write(engine: Engine, t: Tables, lock: Callable[[str], Lock], writes: Sequence[Stored]) -> Collection[Stored]:
    """Write those that can go the short way, and give those that are next: a session is written to once at a time."""
    locks: set[Lock] = set()
    later: set[Stored] = set()
    plans: list[_Plan] = []
    with ExitStack() as held, collector_at_rest():
        for one in writes:
            its, row = lock(one.thread), one.memory.rows.get(one.thread)
            if its in locks or len(plans) == MOST:
                later.add(one)
            elif row is not None and its.acquire(blocking=False):
                held.callback(its.release)
                locks.add(its)
                with suppress(NoShortcut):
                    plans.append((one, *shortcut.plan(engine, t, one.work, row)))
        if plans:
            _send(engine, plans)
    return later


def _send(engine: Engine, plans: Sequence[_Plan]) -> None:
    with suppress(NoShortcut):
        were_written = shortcut.sent(engine, [planned for _, _, planned in plans])
        for (one, known, _), was_written in zip(plans, were_written, strict=True):
            if was_written:
                known.keep()
                one.is_written = True
