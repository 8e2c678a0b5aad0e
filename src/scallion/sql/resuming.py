"""Going on with a graph that is not ours: what was decided, as the values that its interrupts resume with."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection

from scallion.approvals import questions
from scallion.approvals.forms import EXPIRED
from scallion.errors import DecisionError, NotPaused
from scallion.sql import ledger, sessions
from scallion.sql.tables import Tables
from scallion.values import Approval, Decision

if TYPE_CHECKING:
    from langgraph.types import Command

    from scallion.sql.views import Approvals


def answers(conn: Connection, t: Tables, now: Any, thread: str, owner: str | None = None) -> dict[str, Any]:
    """What the interrupts of the thread resume with, by their ids, as far as all about them is decided.

    What a task took before it failed is left out, as LangGraph keeps it: without an answer the graph goes on with that.
    Raises NotPaused where nothing is open, DecisionError where nothing is decided.
    """
    a = t.approvals.c
    query = (
        ledger.rows(t, now)
        .where(t.sessions.c.thread == thread, sessions.waits(t), sessions.has_asked(t))
        .order_by(a.no)
    )
    if owner is not None:
        query = query.where(a.owner == owner)
    rows = conn.execute(query).all()
    if not rows:
        raise NotPaused(thread)
    asked = list(
        zip((ledger.question_of(t, row) for row in rows), map(_timed, ledger.read(conn, t, rows)), strict=True)
    )
    new = [(question, one) for question, one in asked if one.decision is not None and not question.taken]
    found = questions.answers(new)
    if not found and not any(question.taken for question, _ in asked):
        waiting = sum(one.decision is None for _, one in asked)
        raise DecisionError(f"thread {thread!r} waits for {waiting} decision(s): decide before it goes on")
    return found


def _timed(approval: Approval) -> Approval:
    """What has expired is answered by time."""
    return approval.replace(decision=Decision(EXPIRED)) if approval.status == "expired" else approval


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
