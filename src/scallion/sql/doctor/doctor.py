"""The doctor: finds what is not as it should be in threads, says what it is, and mends it where that is safe."""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar, cast

from langgraph.checkpoint.base import CheckpointTuple
from sqlalchemy import Connection

from scallion.approvals.questions import Question
from scallion.bridge import call, enter_async, enter_sync
from scallion.errors import ThreadError, TypeBlocked
from scallion.sql import clock, leases, names, sessions, strays, summary
from scallion.sql.asking import Place
from scallion.sql.clock import Clock
from scallion.sql.doctor import heads, outcomes, standing, traced
from scallion.sql.doctor.examination import Examination, examine, expired, unread
from scallion.sql.doctor.findings import Finding
from scallion.sql.doctor.heads import REPAIR, Head
from scallion.sql.doctor.sound import sound
from scallion.sql.doctor.standing import Opened, Standing
from scallion.sql.failures import Work
from scallion.sql.memory import Codec, Known, Memory
from scallion.sql.sessions import Page
from scallion.sql.tables import Tables

if TYPE_CHECKING:
    from scallion.sql.leases import Lease
    from scallion.sql.saver import SQLCheckpointer

T = TypeVar("T")


@dataclass(frozen=True)
class Doctor:
    """Examines the threads of a saver, of any graph, and repairs them. No tool and no model is ever run."""

    saver: SQLCheckpointer

    def list(self, *, limit: int = 200, after: str | None = None) -> Page[Finding]:
        """What is wrong with the next `limit` threads, in the order in which they were made; often nothing.

        A thread that runs or waits for a person is not wrong. `after`: `next` of the page before.
        """
        with enter_sync():
            return self._list(limit, after)

    async def alist(self, *, limit: int = 200, after: str | None = None) -> Page[Finding]:
        """As `list`."""
        return await enter_async(self._list, limit, after)

    def examine(self, thread: str) -> Sequence[Finding]:
        """What is wrong with the thread; where a turn runs on it, who runs it. Raises ThreadError if there is none."""
        with enter_sync():
            return self._examine(thread)

    async def aexamine(self, thread: str) -> Sequence[Finding]:
        """As `examine`."""
        return await enter_async(self._examine, thread)

    def repair(self, thread: str, *, give_up: bool = False) -> Sequence[Finding]:
        """Mend what `examine` finds, as far as that is safe, and give what was mended; a second time that is nothing.

        A conversation is mended by one more checkpoint, which `undo` takes back. `give_up`: end a turn, too, that
        stopped in the middle and that its graph could still go on with. Raises ThreadBusy where a turn runs,
        ThreadError if there is no such thread, NotSerializable where a message is of a class that is not allowed here.
        """
        with enter_sync():
            return self._repair(thread, give_up)

    async def arepair(self, thread: str, *, give_up: bool = False) -> Sequence[Finding]:
        """As `repair`."""
        return await enter_async(self._repair, thread, give_up)

    def undo(self, thread: str) -> Sequence[str]:
        """Take the checkpoint back that the last repair added; gives the kinds of what that had mended.

        The thread stands where it stood, its open tasks included; approvals stay as they are. Raises ThreadError where
        the newest checkpoint is no repair, ThreadBusy.
        """
        with enter_sync():
            return self._undo(thread)

    async def aundo(self, thread: str) -> Sequence[str]:
        """As `undo`."""
        return await enter_async(self._undo, thread)

    def _list(self, limit: int, after: str | None) -> Page[Finding]:
        sessions.check_limit(limit)
        place = sessions.cursor(after, 1)[0] if after is not None else 0
        rows = self._run(lambda conn: standing.page(conn, self._tables, self._clock, self.saver.owner, limit, place))
        codec = Codec(self.saver.serde, Memory())
        well = self._run(lambda conn: sound(conn, self._tables, codec, rows))
        flawed = self._run(lambda conn: traced.flaws(conn, self._tables, [row.no for row in rows]))
        ill = (self._again(row) for row in rows if row.no not in well or row.no in flawed)
        looked_at = (self._forgetful()._examined(row) for row in ill if row is not None)
        found = [one for seen in looked_at for one in seen.findings if one.kind != "running"]
        return Page(found, str(rows[-1].no) if len(rows) == limit else None)

    def _forgetful(self) -> Doctor:
        """One that remembers nothing: what the saver remembers is of threads that are used."""
        saver = copy(self.saver)
        saver._memory = Memory()
        return replace(self, saver=saver)

    def _examine(self, thread: str) -> Sequence[Finding]:
        return self._examined(self._standing(thread)).findings

    def _standing(self, thread: str) -> Standing:
        thread = names.text("thread id", thread)
        first = self._look(thread)
        found = first and self._again(first)
        if found is None:
            raise ThreadError(thread, f"there is no thread {thread!r}")
        return found

    def _look(self, thread: str) -> Standing | None:
        return self._run(lambda conn: standing.one(conn, self._tables, self._clock, self.saver.owner, thread))

    def _again(self, row: Standing) -> Standing | None:
        """The thread as a second look shows it, where its holder seemed to be gone: it may just have ended."""
        return self._look(row.thread) if row.was_left else row

    def _examined(self, row: Standing) -> Examination:
        found = self._conversation(row)
        if row.is_held:
            return found
        flaws = self._run(lambda conn: traced.flaws(conn, self._tables, [row.no])).get(row.no, ())
        return replace(found, findings=[*found.findings, *traced.findings(row.thread, flaws)])

    def _conversation(self, row: Standing) -> Examination:
        try:
            head = None if row.is_held or row.head is None else self._head(row.thread)
        except TypeBlocked as error:
            return Examination([*expired(row), unread(row, str(error))])
        if row.head is not None and head is None and not row.is_held:
            return Examination()  # deleted while it was looked at
        known = self._known(row, head) if head is not None else set()
        return examine(row, head, known, partial(self._waits, row), self._begun(row, head) if head else ())

    def _head(self, thread: str) -> Head | None:
        found = self._tuple(thread, "", None)
        if found is None:
            return None
        channels = summary.deltas(found.checkpoint["channel_values"], found.metadata or {})
        for channel in channels:
            if messages := self._added_up(found, channel):
                return Head(found, channel, messages)
        named = None if channels else summary.channel(found.checkpoint["channel_values"])
        return Head(found, named, heads.listed(found.checkpoint["channel_values"].get(named or "")))

    def _added_up(self, found: CheckpointTuple, channel: str) -> Sequence[Any]:
        """The messages of a delta channel."""
        saver = self.saver
        asked = {"config": found.config, "channels": [channel]}
        past = call(saver.get_delta_channel_history, saver.aget_delta_channel_history, **asked)[channel]
        seed = [past["seed"]] if "seed" in past else []
        return heads.added_up(channel, [*seed, *(value for _, _, value in past["writes"])])

    def _known(self, row: Standing, head: Head) -> set[str]:
        """The questions of the head that have a row, be it closed; those that are read already may be all of them."""
        known = {one.id for one in row.open if one.root == head.id}
        if {question.id for those in head.asked.values() for question in those} <= known:
            return known
        return self._run(lambda conn: standing.asked_at(conn, self._tables, row.no, head.id))

    def _begun(self, row: Standing, head: Head) -> Sequence[outcomes.Begun]:
        """What was begun and came to no end that is known."""
        calls = outcomes.asks_for(head)
        return self._run(lambda conn: outcomes.begun(conn, self._tables, row, calls)) if calls else ()

    def _waits(self, row: Standing, opened: Opened) -> bool:
        """Whether the task of a subgraph, which alone has written so far, asks this."""
        found = self._tuple(row.thread, opened.ns, opened.checkpoint) if opened.ns else None
        asked = heads.waiting(found) if found is not None else {}
        return any(one.interrupt == opened.interrupt for those in asked.values() for one in those)

    def _repair(self, thread: str, give_up: bool) -> Sequence[Finding]:
        before = self._standing(thread)
        with self._held(before.thread) as lease:
            freed = [] if lease is None else expired(before)
            row = self._standing(before.thread).here()
            found = self._examined(row)
            if row.is_empty:
                self._write(lease, lambda conn: standing.remove_empty(conn, self._tables, row))
            else:
                self._mend(row, found, lease, give_up)
        return [*freed, *(one for one in found.findings if one.is_mended(give_up))]

    def _mend(self, row: Standing, found: Examination, lease: Lease | None, give_up: bool) -> None:
        head = self._head(row.thread) if row.head is not None and found.findings else None
        if rows := found.kinds("approval_without_pause", "pause_without_approval", "wrong_count"):
            missing = self._asking(row, head, found.missing) if head is not None else []
            self._write(
                lease,
                lambda conn: standing.mend(
                    conn, self._tables, row, found.stale, missing, clock.stamp(conn, self._clock)
                ),
            )
        told = found.kinds("unreadable_trace", "orphan_trace")
        if turns := [str(one.subject) for one in told]:
            self._write(lease, lambda conn: strays.drop(conn, self._tables, row.no, turns))
        ends = give_up and any(one.by == "give_up" for one in found.findings)
        messages = found.messages if head is None or not ends else head.given_up or []
        if head is not None and messages is not None:
            kinds = [one.kind for one in found.findings if one not in [*rows, *told] and one.is_mended(give_up)]
            self._append(row, head, messages, kinds, lease)

    def _asking(self, row: Standing, head: Head, ids: Set[str]) -> Sequence[tuple[Place, Sequence[Question]]]:
        """The tasks that ask these, each with all that it asks; not those that only pass it on."""
        found: dict[str, tuple[Place, Sequence[Question]]] = {}
        left, asked = set(ids), {("", head.id): head.asked}
        tasks = self._run(lambda conn: standing.asking_tasks(conn, self._tables, row.no, head.id)) if left else []
        for ns, checkpoint, task in tasks:
            if (ns, checkpoint) not in asked:
                inner = self._tuple(row.thread, ns, checkpoint)
                asked[ns, checkpoint] = heads.waiting(inner) if inner is not None else {}
            its = asked[ns, checkpoint].get(task, ())
            if own := left & {one.id for one in its}:
                left -= own
                found[task] = replace(head.place(row, task), ns=ns, checkpoint=checkpoint), its
        return list(found.values())

    def _append(
        self, row: Standing, head: Head, messages: Sequence[Any], kinds: Sequence[str], lease: Lease | None
    ) -> None:
        new, metadata, versions = heads.next_checkpoint(head, messages, self.saver.get_next_version, kinds)
        place = {"thread_id": row.thread, "checkpoint_ns": "", "checkpoint_id": head.id}
        put, _ = self.saver._put({"configurable": place}, new, metadata, versions)

        def work(conn: Connection) -> Known:
            standing.stay(conn, self._tables, row.thread, head.id, new["id"])
            return put(conn)

        self._write(lease, work).keep()

    def _undo(self, thread: str) -> Sequence[str]:
        row = self._standing(thread)
        with self._held(row.thread) as lease:
            head = self._head(row.thread)
            kinds = head.metadata.get(REPAIR) if head is not None else None
            if head is None or not kinds or not self._has_parent(head):
                raise ThreadError(row.thread, f"the newest checkpoint of thread {row.thread!r} is no repair")
            drop = self.saver._delete_runs([str(head.metadata["run_id"])])

            def work(conn: Connection) -> None:
                standing.stay(conn, self._tables, row.thread, head.id)
                drop(conn)

            self._write(lease, work)
        return list(kinds)

    def _has_parent(self, head: Head) -> bool:
        """Whether the checkpoint is still there that it repaired."""
        before = (head.found.parent_config or {}).get("configurable")
        return before is not None and self._tuple(before["thread_id"], "", before["checkpoint_id"]) is not None

    @contextmanager
    def _held(self, thread: str) -> Iterator[Lease | None]:
        leases = self.saver.leases
        if leases is None:
            yield None
            return
        lease = call(leases.take, leases.atake, thread, new=False, bound=self.saver.owner)
        try:
            yield lease
        finally:
            call(leases.release, leases.arelease, lease, failed=False)

    def _tuple(self, thread: str, ns: str, checkpoint: str | None) -> CheckpointTuple | None:
        place = {"thread_id": thread, "checkpoint_ns": ns}
        config: Any = {"configurable": place | ({"checkpoint_id": checkpoint} if checkpoint else {})}
        return call(self.saver.get_tuple, self.saver.aget_tuple, config)

    def _run(self, work: Work[T]) -> T:
        return cast("T", call(self.saver.database.run, self.saver.database.arun, work))

    def _write(self, lease: Lease | None, work: Work[T]) -> T:
        def held(conn: Connection) -> T:
            leases.check(conn, self._tables, lease)
            return work(conn)

        return cast("T", call(self.saver.database.run, self.saver.database.arun, held, write=True))

    @property
    def _tables(self) -> Tables:
        return self.saver.database.tables

    @property
    def _clock(self) -> Clock | None:
        return self.saver.database.clock


class Examining:
    """Gives the doctor, for a saver."""

    @property
    def doctor(self) -> Doctor:
        """Examines and repairs threads; those of one owner where this is bound to one."""
        return Doctor(cast("SQLCheckpointer", self))
