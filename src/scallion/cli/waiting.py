"""What `watch` looks at: the threads that run or wait, and what they wait for. Langgraph is not imported."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal

from scallion.inspect.card import heading
from scallion.values import Approval

if TYPE_CHECKING:
    from scallion.inbox import Inbox
    from scallion.sql.sessions import Session

WATCHED = ("paused", "running")
"""The statuses of a thread on which something is open."""

TOLD = 5
"""How many approvals of a thread are looked at; how many there are its session counts."""


@dataclass(frozen=True)
class Row:
    """A thread on which something is open, with the approvals that it waits at, the oldest first."""

    session: Session
    now: datetime
    """When it was so, by the clock of the database."""
    approvals: Sequence[Approval] = ()
    is_deleted: bool = False

    @property
    def is_held(self) -> bool:
        """Whether a process has the thread, as far as that is sure."""
        until = self.session.held_until
        return until is not None and until > self.now

    @property
    def state(self) -> str:
        """Its status in a word; `interrupted`: it ran in a process that has not said for long that it lives."""
        if self.is_deleted:
            return "deleted"
        lost = self.session.status == "running" and self.session.holder is not None and not self.is_held
        return "interrupted" if lost else self.session.status

    @property
    def since(self) -> datetime:
        """Since when: the oldest question that is open, or the beginning of what runs."""
        if self.session.status == "paused":
            return min((one.created_at for one in self.approvals if one.created_at), default=self.session.updated)
        return self.session.held_since or self.session.updated

    @property
    def waits_for(self) -> str:
        """What it waits for: the tools or questions that nobody decided yet, or a resume."""
        if self.state != "paused":
            return ""
        pending = [heading(one) for one in self.approvals if one.status == "pending"]
        if pending:
            more = self.session.pending_count - len(pending)
            return ", ".join(pending) + (f" and {more} more" if more > 0 else "")
        decided = [heading(one) for one in self.approvals if one.status == "decided"]
        return f"resume: {', '.join(decided)} decided" if decided else "resume: expired"

    def differs(self, other: Row | None) -> bool:
        """Whether something happened between the two; the steps of a turn that runs do not count."""
        return other is None or self._standing() != other._standing()

    def _standing(self) -> tuple[object, ...]:
        waits = [(one.id, one.status) for one in self.approvals]
        return self.state, self.session.holder, self.session.held_since, self.session.pending_count, waits

    def to_json(self) -> dict[str, Any]:
        """Plain data, times as ISO 8601 texts."""
        one = self.session
        return {
            "thread": one.thread,
            "status": self.state,
            "agent": one.agent,
            "owner": one.owner,
            "title": one.title,
            "since": self.since.isoformat(),
            "holder": one.holder,
            "pending_count": one.pending_count,
            "waits_for": [
                {"id": one.id, "kind": one.kind, "tool": one.tool, "status": one.status} for one in self.approvals
            ],
        }


@dataclass(frozen=True)
class Look:
    """What one look at the database found; `more`: there are more threads than were asked for."""

    now: datetime
    rows: Sequence[Row]
    more: bool = False
    away: datetime | None = None
    """Since when, by the clock of this machine, the database has given no answer: the rows are those of before."""

    def without_answer(self) -> Look:
        """The same, where the database did not say what it is now."""
        return replace(self, away=self.away or datetime.now().astimezone())


@dataclass(frozen=True)
class Watched:
    """The threads that run or wait; `wanted` chooses among them, as for `sessions.list`."""

    inbox: Inbox
    status: Literal["paused", "running"] | None
    wanted: Mapping[str, Any]

    def look(self) -> Look:
        """Those of now: what waits stands before what runs, and the oldest first. Raises StorageError."""
        now = self._now()
        statuses = WATCHED if self.status is None else (self.status,)
        pages = [self.inbox.sessions.list(status=status, **self.wanted) for status in statuses]
        rows = [self._row(one, now) for page in pages for one in page.items]
        return Look(now, sorted(rows, key=_place), more=any(page.next for page in pages))

    def changes(self, known: Sequence[Row], look: Look) -> Iterator[Row]:
        """What happened since those rows were known; a thread that is not among them any more as it is now."""
        before, now = ({row.session.thread: row for row in rows} for rows in (known, look.rows))
        left = (self._left(row, look.now) for thread, row in before.items() if thread not in now)
        yield from (row for row in (*left, *look.rows) if row.differs(before.get(row.session.thread)))

    def _left(self, row: Row, now: datetime) -> Row:
        session = self.inbox.sessions.get(row.session.thread)
        return replace(row, now=now, approvals=(), is_deleted=True) if session is None else self._row(session, now)

    def _row(self, session: Session, now: datetime) -> Row:
        found: Sequence[Approval] = ()
        if session.status == "paused":
            listed = self.inbox.approvals.list
            found = listed("pending", thread=session.thread, limit=TOLD).items
            found = found or listed("decided", thread=session.thread, limit=TOLD).items
        return Row(session, now, found)

    def _now(self) -> datetime:
        from scallion.sql import clock

        database = self.inbox.database
        return database.run(lambda conn: clock.read(conn, database.clock))


def _place(row: Row) -> tuple[bool, datetime]:
    return row.session.status != "paused", row.since
