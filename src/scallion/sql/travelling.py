"""Going back in a thread, and going on beside it: a rewind puts a copy of a step on top, a fork begins with the step.

A rewind deletes nothing. The copy is one more row, which shares all values with the step that it is one of and has its
parent, as LangGraph's own copies have, so that delta channels come out the same. What came after it stays where it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from langgraph.checkpoint.base import empty_checkpoint
from langgraph.checkpoint.base.id import uuid6
from sqlalchemy import Connection, delete, select

from scallion.errors import StorageError, ThreadError
from scallion.sql import checkpoints, clock, leases, ledger, lifecycle, names, portable, sessions, shelving, trail
from scallion.sql.checkpoints import StoredCheckpoint
from scallion.sql.failures import Work
from scallion.sql.memory import Known
from scallion.sql.tables import Tables
from scallion.sql.trail import COPY, Choose, Trail
from scallion.sql.translation import APART

if TYPE_CHECKING:
    from scallion.sql.leases import Lease
    from scallion.sql.memory import Memory

BEFORE_ALL = -2
"""The step of a thread that nothing was written to, as LangGraph counts."""


def rewind(
    conn: Connection,
    t: Tables,
    memory: Memory,
    thread: str,
    to: str | None,
    now: Any,
    owner: str | None,
    lease: Lease | None,
) -> None:
    """Have the thread go on from the checkpoint `to`, or from nothing; what it asks is cancelled.

    What the row says of its messages is not true then.
    Raises ThreadError, LeaseLost, StorageError where that checkpoint is gone.
    """
    if sessions.locked(conn, t, thread, owner) is None:
        raise ThreadError(thread, f"there is no thread {thread!r}")
    ledger.close(conn, t, thread, "cancelled")
    claimed = sessions.claim(conn, t, thread, now, owner, lease)
    copy = _copy(conn, t, claimed, thread, to)
    if copy.id <= (claimed.head or ""):
        raise StorageError("the newest step of the thread is of a later time than now: clocks differ; try again")
    known = Known(memory, claimed, thread)
    added = checkpoints.restore(conn, t, known, copy)
    changes = {"version": claimed.version + 1, "bytes": claimed.bytes + added, "head": copy.id}
    sessions.advance(conn, t, known, changes, now)
    sessions.recount(conn, t, claimed.no)


def _copy(conn: Connection, t: Tables, claimed: sessions.Claimed, thread: str, to: str | None) -> StoredCheckpoint:
    id = str(uuid6(clock_seq=-2))
    if to is None:
        return _nothing(claimed, thread, id)
    stored = checkpoints.row(conn, t, claimed.no, "", to)
    if stored is None:
        raise checkpoints.gone(thread, to)
    return replace(stored, id=id, metadata={**stored.metadata, "source": "fork", COPY: to})


def _nothing(claimed: sessions.Claimed, thread: str, id: str) -> StoredCheckpoint:
    """A checkpoint that holds nothing, as a thread has it before its first message."""
    metadata: Mapping[str, Any] = {"source": "fork", "step": BEFORE_ALL, "parents": {}}
    fixed = {key: value for key, value in empty_checkpoint().items() if key not in APART}
    place: dict[str, Any] = {
        "session": claimed.no,
        "generation": claimed.generation,
        "thread": thread,
        "ns": "",
        "id": id,
    }
    return StoredCheckpoint(**place, parent=None, fixed=fixed, versions={}, seen={}, values={}, metadata=metadata)


def cut(conn: Connection, t: Tables, thread: str, at: str) -> None:
    """Leave of a thread, which is a copy that nobody uses yet, only what led to the checkpoint `at`.

    What the thread asks, and what waits for the answer, is not there any more. Raises StorageError if there is no such
    checkpoint.
    """
    session = sessions.locked(conn, t, thread, None)
    assert session is not None
    for table in (t.approvals, t.votes, t.inbound):
        conn.execute(delete(table).where(table.c.session == session))
    every = [row for _, row in checkpoints.every(conn, t, session)]
    line = _line(every, at)
    if at not in line:
        raise checkpoints.gone(thread, at)
    kept = {(row.ns, row.id) for row in every if _is_before(row, line, at)}
    w = t.writes.c
    conn.execute(delete(t.writes).where(w.session == session, w.ns == "", w.checkpoint == at))
    written = conn.execute(select(w.ns, w.checkpoint).distinct().where(w.session == session))
    stored = {(row.ns, row.id) for row in every} | {(ns, id) for ns, id in written}
    lifecycle.drop(conn, t, session, sorted(stored - kept))


def _line(every: list[StoredCheckpoint], at: str) -> set[str]:
    """The checkpoint and its ancestors."""
    parents = {row.id: row.parent for row in every if row.ns == ""}
    found: set[str] = set()
    next_id: str | None = at
    while next_id in parents and next_id not in found:
        found.add(next_id)
        next_id = parents[next_id]
    return found


def _is_before(row: StoredCheckpoint, line: set[str], at: str) -> bool:
    """Whether it is of the line; of a subgraph, whether that ran before the step behind `at`."""
    if row.ns == "":
        return row.id in line
    above = (row.metadata.get("parents") or {}).get("")
    return above in line and above != at


class Travelling:
    """Reads the trail of a thread, rewinds it and forks it, in both colours."""

    def trail(self: Any, thread: str, choose: Choose) -> Trail | None:
        """Every step of the thread, with the messages of the spans that `choose` says; None if there is no thread."""
        found: Trail | None = self.database.run(self._trail(thread, choose))
        return found

    async def atrail(self: Any, thread: str, choose: Choose) -> Trail | None:
        """As `trail`."""
        found: Trail | None = await self.database.arun(self._trail(thread, choose))
        return found

    def rewind_thread(self: Any, thread: str, to: str | None, lease: Lease | None = None) -> None:
        """Have the thread go on from the checkpoint `to`; None: from nothing. What it asks a person is cancelled.

        What came after stays stored. The effects of tools are kept, so that none is run twice. Raises ThreadError if
        there is no such thread, StorageError if there is no such checkpoint.
        """
        self.database.run(self._rewind(thread, to, lease), write=True)

    async def arewind_thread(self: Any, thread: str, to: str | None, lease: Lease | None = None) -> None:
        """As `rewind_thread`."""
        await self.database.arun(self._rewind(thread, to, lease), write=True)

    def fork_thread(self: Any, source: str, target: str, at: str | None = None, lease: Lease | None = None) -> None:
        """Make the thread `target` of what led to the checkpoint `at` of `source`; None: of all of it, as it stands.

        Raises StorageError if there is a thread `target`, or no such checkpoint; ThreadError if there is no `source`.
        """
        work, unsure = self._fork(source, target, at, lease)
        self.database.run(work, write=True, unsure=unsure)

    async def afork_thread(
        self: Any, source: str, target: str, at: str | None = None, lease: Lease | None = None
    ) -> None:
        """As `fork_thread`."""
        work, unsure = self._fork(source, target, at, lease)
        await self.database.arun(work, write=True, unsure=unsure)

    def _trail(self: Any, thread: str, choose: Choose) -> Work[Trail | None]:
        thread = names.text("thread id", thread)

        def work(conn: Connection) -> Trail | None:
            now = clock.stamp(conn, self.database.clock)
            codec = self._translation.codec
            return trail.read(conn, self.database.tables, codec, thread, self.owner, now, choose)

        return work

    def _rewind(self: Any, thread: str, to: str | None, lease: Lease | None) -> Work[None]:
        thread, to = names.text("thread id", thread), names.optional("checkpoint id", to)

        def work(conn: Connection) -> None:
            now = clock.stamp(conn, self.database.clock)
            rewind(conn, self.database.tables, self._memory, thread, to, now, self.owner, lease)
            self._retell(conn, thread)

        return work

    def _fork(
        self: Any, source: str, target: str, at: str | None, lease: Lease | None
    ) -> tuple[Work[None], Work[None]]:
        source, target = names.texts("thread id", (source, target))
        at = names.optional("checkpoint id", at)

        def work(conn: Connection) -> None:
            t, now = self.database.tables, clock.stamp(conn, self.database.clock)
            leases.check(conn, t, lease)
            if sessions.locked(conn, t, source, self.owner) is None:
                raise ThreadError(source, f"there is no thread {source!r}")
            lifecycle.copy(conn, t, source, target, now, self.owner)
            shelving.archive(conn, t, target, None, on=False)
            if at is not None:
                cut(conn, t, target, at)
                self._retell(conn, target)

        return work, portable.once(work, self.database, target)
