"""Going on with a graph that is not ours: what was decided, as the values that its interrupts resume with."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, select

from scallion.approvals import questions
from scallion.errors import DecisionError, NotPaused
from scallion.sql import ledger
from scallion.sql.sessions import OPEN
from scallion.sql.tables import Tables

if TYPE_CHECKING:
    from langgraph.types import Command

    from scallion.sql.views import Approvals


def answers(conn: Connection, t: Tables, thread: str, owner: str | None = None) -> dict[str, Any]:
    """What the interrupts of the thread resume with, by their ids, as far as all about them is decided.

    What a task took before it failed is left out, as LangGraph keeps it: without an answer the graph goes on with that.
    Raises NotPaused where nothing is open, DecisionError where nothing is decided.
    """
    a = t.approvals.c
    query = select(a.session, a.id, a.payload, a.decision).join(t.sessions, t.sessions.c.no == a.session).order_by(a.no)
    query = query.where(t.sessions.c.thread == thread, a.status.in_(OPEN))
    if owner is not None:
        query = query.where(a.owner == owner)
    rows = conn.execute(query).all()
    if not rows:
        raise NotPaused(thread)
    asked = [(ledger.question_of(t, row), ledger.decision_of(t, row)) for row in rows]
    new = [(question, decision) for question, decision in asked if decision is not None and not question.taken]
    found = questions.answers(new)
    if not found and not any(question.taken for question, _ in asked):
        waiting = sum(decision is None for _, decision in asked)
        raise DecisionError(f"thread {thread!r} waits for {waiting} decision(s): decide before it goes on")
    return found


class Resuming:
    """Makes the command that a graph goes on with; for whoever has `approvals`."""

    approvals: Approvals

    def command_for(self, thread: str) -> Command[Any]:
        """The `Command(resume=...)` that carries what was decided about the thread, for a graph that is not an Agent.

        An interrupt is answered when all that it asks is decided; the others stay open. Nothing is marked here: the
        approvals are used when the graph goes on. Raises NotPaused, or DecisionError where nothing is decided.
        """
        return _command(self.approvals.answers(thread))

    async def acommand_for(self, thread: str) -> Command[Any]:
        """As `command_for`."""
        return _command(await self.approvals.aanswers(thread))


def _command(values: dict[str, Any]) -> Command[Any]:
    from langgraph.types import Command  # the inbox does without, but for this

    return Command(resume=values)
