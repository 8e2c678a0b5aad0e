"""`sessions.trace`, `sessions.traced`: what happened in a turn, in both colours, without langgraph."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from sqlalchemy import Connection

from scallion.sql import names, traces
from scallion.sql.failures import Work
from scallion.sql.view import View

if TYPE_CHECKING:
    from scallion.tracing.trace import Trace


class Traced(View):
    """Reads the traces of a database."""

    def trace(self, thread: str, turn: str | None = None) -> Trace | None:
        """What happened in a turn of the thread, the last one by default; None where no trace of it is kept.

        `turn`: its id, or that of the checkpoint that it ended with. The last one is that which the thread stands at:
        behind a rewind the one there, behind a turn without a trace none. One that failed before its first step is the
        last until something else changes the thread.
        """
        return self.database.run(self._trace(thread, turn))

    async def atrace(self, thread: str, turn: str | None = None) -> Trace | None:
        """As `trace`."""
        return await self.database.arun(self._trace(thread, turn))

    def traced(self, thread: str) -> Sequence[str]:
        """The ids of the turns of the thread that a trace is kept of, the oldest first."""
        return self.database.run(self._traced(thread))

    async def atraced(self, thread: str) -> Sequence[str]:
        """As `traced`."""
        return await self.database.arun(self._traced(thread))

    def _traced(self, thread: str) -> Work[Sequence[str]]:
        thread = names.text("thread id", thread)
        return lambda conn: traces.turns(conn, self.database.tables, thread, self.owner)

    def _trace(self, thread: str, turn: str | None) -> Work[Trace | None]:
        thread, turn = names.text("thread id", thread), names.optional("turn id", turn)

        def work(conn: Connection) -> Trace | None:
            return traces.read(conn, self.database.tables, self._now(conn), thread, turn, self.owner)

        return work
