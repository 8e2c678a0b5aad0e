"""`approvals` and `sessions`: what a person or a program asks about, in both colours, without langgraph."""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection

from scallion.approvals import naming
from scallion.errors import ConfigurationError, ThreadError
from scallion.shown import Shown
from scallion.sql import clock, deciding, ledger, lines, listing, marks, names, resuming, searching, sessions
from scallion.sql.expiring import Sweeping
from scallion.sql.failures import Work
from scallion.sql.finding import Finding, as_far_as_allowed
from scallion.sql.lines import Spool
from scallion.sql.sessions import Page, Session, SessionOrder
from scallion.sql.shelving import Shelving
from scallion.sql.traced import Traced
from scallion.values import Approval, ApprovalStatus


@dataclass(frozen=True, repr=False)
class Approvals(Sweeping, Shown, drawn_as="listing"):
    """The approvals of every thread of a database."""

    def list(
        self,
        status: ApprovalStatus | None = "pending",
        *,
        thread: str | None = None,
        owner: str | None = None,
        tool: str | None = None,
        kind: str | None = None,
        limit: int = 50,
        after: str | None = None,
    ) -> Page[Approval]:
        """One page of approvals, the oldest first; `status=None` means all. What has expired is not pending.

        Those that one step of a thread asks are in the order of its calls within a page. `after`: `next` of the page
        before.
        """
        return self.database.run(self._list(status, thread, owner, tool, kind, limit, after))

    async def alist(
        self,
        status: ApprovalStatus | None = "pending",
        *,
        thread: str | None = None,
        owner: str | None = None,
        tool: str | None = None,
        kind: str | None = None,
        limit: int = 50,
        after: str | None = None,
    ) -> Page[Approval]:
        """As `list`."""
        return await self.database.arun(self._list(status, thread, owner, tool, kind, limit, after))

    def get(self, id: str, *, thread: str | None = None) -> Approval:
        """The approval of that id. Raises UnknownApproval; `thread` tells copies of a thread apart."""
        return self.database.run(self._get(id, thread))

    async def aget(self, id: str, *, thread: str | None = None) -> Approval:
        """As `get`."""
        return await self.database.arun(self._get(id, thread))

    def decide(self, id: str, decision: Any, by: str | None = None, *, thread: str | None = None) -> Approval:
        """Store the decision, if it fits, this person may decide, and nobody was first.

        `decision`: a Decision or its JSON. `thread` tells copies of a thread apart. Where several people have to agree,
        the approval is pending until they have, and `votes` says who has.
        Raises UnknownApproval, InvalidDecision, AlreadyDecided or ApprovalExpired; then nothing was stored.
        """
        return self.decide_all({names.text("approval id", id): decision}, by, thread=thread)[0]

    async def adecide(self, id: str, decision: Any, by: str | None = None, *, thread: str | None = None) -> Approval:
        """As `decide`."""
        return (await self.adecide_all({names.text("approval id", id): decision}, by, thread=thread))[0]

    def decide_all(
        self, decisions: Mapping[str, Any], by: str | None = None, *, thread: str | None = None
    ) -> Sequence[Approval]:
        """Store all of the decisions, by approval id, or none of them. Raises as `decide`."""
        work, unsure = self._decide(decisions, by, thread)
        return self.database.run(work, write=True, unsure=unsure)

    async def adecide_all(
        self, decisions: Mapping[str, Any], by: str | None = None, *, thread: str | None = None
    ) -> Sequence[Approval]:
        """As `decide_all`."""
        work, unsure = self._decide(decisions, by, thread)
        return await self.database.arun(work, write=True, unsure=unsure)

    def withdraw(self, id: str, by: str | None = None, *, thread: str | None = None) -> Approval:
        """Take a decision back that was not used yet, or one's vote. Raises UnknownApproval, DecisionError if none."""
        work, unsure = self._withdraw(id, by, thread)
        return self.database.run(work, write=True, unsure=unsure)

    async def awithdraw(self, id: str, by: str | None = None, *, thread: str | None = None) -> Approval:
        """As `withdraw`."""
        work, unsure = self._withdraw(id, by, thread)
        return await self.database.arun(work, write=True, unsure=unsure)

    def answers(self, thread: str) -> dict[str, Any]:
        """What the interrupts of the thread resume with, by their ids, as far as all about them is decided.

        Plain data, for whoever has no `Command` but a server that takes it. Raises NotPaused where nothing is open,
        DecisionError where nothing is decided.
        """
        self.sweep(thread=thread)
        return self.database.run(self._answers(thread))

    async def aanswers(self, thread: str) -> dict[str, Any]:
        """As `answers`."""
        await self.asweep(thread=thread)
        return await self.database.arun(self._answers(thread))

    def close(self, thread: str, status: ApprovalStatus) -> int:
        """Mark what is pending or decided on the thread "superseded", "cancelled" or "expired"; how many there were."""
        work, unsure = self._close(thread, status)
        return self.database.run(work, write=True, unsure=unsure)

    async def aclose(self, thread: str, status: ApprovalStatus) -> int:
        """As `close`."""
        work, unsure = self._close(thread, status)
        return await self.database.arun(work, write=True, unsure=unsure)

    def _list(
        self,
        status: str | None,
        thread: str | None,
        owner: str | None,
        tool: str | None,
        kind: str | None,
        limit: int,
        after: str | None,
    ) -> Work[Page[Approval]]:
        wanted: dict[str, Any] = {"status": status, "thread": names.optional("thread id", thread), "after": after}
        wanted |= {"tool": names.optional("tool", tool), "kind": names.optional("kind of approval", kind)}
        wanted |= {"owner": self._scope(owner), "limit": limit}
        return lambda conn: ledger.page(conn, self.database.tables, self._now(conn), **wanted)

    def _get(self, id: str, thread: str | None) -> Work[Approval]:
        id, thread = names.text("approval id", id), names.optional("thread id", thread)
        return lambda conn: ledger.get(conn, self.database.tables, id, self._now(conn), thread=thread, owner=self.owner)

    def _decide(
        self, decisions: Mapping[str, Any], by: str | None, thread: str | None
    ) -> tuple[Work[Sequence[Approval]], Work[Sequence[Approval]]]:
        if not isinstance(decisions, Mapping):
            raise ConfigurationError(
                f"decisions are given by approval id, as a mapping, not {type(decisions).__name__}"
            )
        decisions = {names.text("approval id", id): decision for id, decision in decisions.items()}
        by, thread = names.optional("name of who decides", by), names.optional("thread id", thread)
        wanted = {"by": by, "thread": thread, "owner": self.owner}
        tried: list[datetime] = []

        def work(conn: Connection) -> Sequence[Approval]:
            self._check_lease(conn)
            tried.append(clock.read(conn, self.database.clock))
            return deciding.decide(conn, self.database.tables, decisions, tried[-1], **wanted)

        def unsure(conn: Connection) -> Sequence[Approval]:  # nobody is to be told that they were first themselves
            return deciding.decided(conn, self.database.tables, decisions, tried[-1], **wanted) or work(conn)

        return work, unsure

    def _answers(self, thread: str) -> Work[dict[str, Any]]:
        thread = names.text("thread id", thread)
        return lambda conn: resuming.answers(conn, self.database.tables, self._now(conn), thread, self.owner)

    def _withdraw(self, id: str, by: str | None, thread: str | None) -> tuple[Work[Approval], Work[Approval]]:
        id, thread = names.text("approval id", id), names.optional("thread id", thread)
        by = names.optional("name of who withdraws", by)
        wanted: dict[str, Any] = {"by": by, "thread": thread, "owner": self.owner, "in_turn": self.lease is not None}

        def work(conn: Connection) -> Approval:
            self._check_lease(conn)
            now = self._now(conn)
            return deciding.withdraw(conn, self.database.tables, id, now, **wanted)

        def unsure(conn: Connection) -> Approval:
            found = self._get(id, thread)(conn)
            is_done = found.status == "pending" and all(vote.by != by for vote in found.votes)
            return found if is_done else work(conn)

        return work, unsure

    def _close(self, thread: str, status: ApprovalStatus) -> tuple[Work[int], Work[int]]:
        if status not in ("superseded", "cancelled", "expired"):
            raise ConfigurationError(f'approvals are closed as "superseded", "cancelled" or "expired", not {status!r}')
        thread = names.text("thread id", thread)
        closed: list[int] = []

        def work(conn: Connection) -> int:
            self._check_lease(conn)
            closed.append(ledger.close(conn, self.database.tables, thread, status, self.owner))
            return closed[-1]

        def unsure(conn: Connection) -> int:
            return work(conn) or max(closed)

        return work, unsure


class Sessions(Shelving, Finding, Traced, Shown, drawn_as="listing"):
    """The threads of a database."""

    def list(
        self,
        *,
        status: str | None = None,
        owner: str | None = None,
        tag: str | None = None,
        agent: str | None = None,
        search: str | None = None,
        archived: bool | None = False,
        order: SessionOrder = "updated",
        limit: int = 50,
        after: str | None = None,
    ) -> Page[Session]:
        """One page of sessions; filters add up.

        `search`: those with all of its words, as the beginnings of words in the thread's name, its title, or in what
        people and models said in it, which is indexed first where it is new; `found` of a session says where.
        `archived`: False leaves those out that were put away, True gives only those, None all.
        `order`: "updated", the last used first, or "created", the newest first. `after`: `next` of the page before, of
        the same order; what nobody touches in between comes once. Raises ConfigurationError for another order, status,
        limit or cursor, and for a search for more than 50 words.
        """
        asked = self._asked(search)
        work = self._list(status, owner, tag, agent, asked, archived, order, limit, after)
        if asked:
            with as_far_as_allowed():
                self._index(self._scope(owner))
        return self.database.run(work)

    async def alist(
        self,
        *,
        status: str | None = None,
        owner: str | None = None,
        tag: str | None = None,
        agent: str | None = None,
        search: str | None = None,
        archived: bool | None = False,
        order: SessionOrder = "updated",
        limit: int = 50,
        after: str | None = None,
    ) -> Page[Session]:
        """As `list`."""
        asked = self._asked(search)
        work = self._list(status, owner, tag, agent, asked, archived, order, limit, after)
        if asked:
            with as_far_as_allowed():
                await self._aindex(self._scope(owner))
        return await self.database.arun(work)

    def get(self, thread: str) -> Session | None:
        """The session of the thread, or None."""
        return self.database.run(self._get(thread))

    async def aget(self, thread: str) -> Session | None:
        """As `get`."""
        return await self.database.arun(self._get(thread))

    def delete(self, thread: str) -> None:
        """Delete the thread and everything that belongs to it; no error if there is none."""
        self.database.run(self._delete(thread), write=True)

    async def adelete(self, thread: str) -> None:
        """As `delete`."""
        await self.database.arun(self._delete(thread), write=True)

    def tag(self, thread: str, *tags: str) -> bool:
        """Give the session exactly these tags; False if there is no such session."""
        return self.database.run(self._tag(thread, tags), write=True)

    async def atag(self, thread: str, *tags: str) -> bool:
        """As `tag`."""
        return await self.database.arun(self._tag(thread, tags), write=True)

    def export(self, thread: str) -> Iterator[str]:
        """The whole thread as the lines of a file, for `load` of this or any other database; plain data.

        The first line is read from the database with all others. It raises StorageError if there is no such thread.
        """
        with lines.spool() as file:
            self.database.run(self._export(thread, file))
            yield from lines.read(file)

    async def aexport(self, thread: str) -> AsyncIterator[str]:
        """As `export`."""
        with lines.spool() as file:
            await self.database.arun(self._export(thread, file))
            for line in lines.read(file):
                yield line

    def load(self, exported: Iterable[str | bytes], thread: str | None = None) -> str:
        """Store an exported thread, under the name `thread` or its own, which is returned: all of it or nothing.

        `exported`: the lines, as an open file gives them. Raises StorageError if they are not whole, or of a newer
        program, or if there is such a thread.
        """
        with lines.spool() as file:
            lines.fill(file, exported)
            name, work, unsure = self._load(file, thread)
            self.database.run(work, write=True, unsure=unsure)
        return name

    async def aload(
        self, exported: Iterable[str | bytes] | AsyncIterable[str | bytes], thread: str | None = None
    ) -> str:
        """As `load`; it also takes what `aexport` gives."""
        with lines.spool() as file:
            if isinstance(exported, AsyncIterable):
                async for line in exported:
                    lines.fill(file, [line])
            else:
                lines.fill(file, exported)
            name, work, unsure = self._load(file, thread)
            await self.database.arun(work, write=True, unsure=unsure)
        return name

    def _export(self, thread: str, file: Spool) -> Work[None]:
        from scallion.sql import portable  # knows of messages, which takes pydantic: who only lists does without

        thread = names.text("thread id", thread)
        return lambda conn: portable.export(conn, self.database.tables, thread, self.owner, file)

    def _load(self, file: Spool, thread: str | None) -> tuple[str, Work[None], Work[None]]:
        from scallion.sql import portable

        header = lines.checked(file)
        name = names.text("thread id", header["thread"] if thread is None else thread)
        if self.owner is not None and header.get("owner") != self.owner:
            raise ThreadError(name, f"the file of thread {header['thread']!r} is that of another owner, or of nobody")

        def work(conn: Connection) -> None:
            portable.load(conn, self.database.tables, file, header, name)

        return name, work, portable.once(work, self.database, name)

    def _asked(self, search: str | None) -> Sequence[str] | None:
        return None if search is None else searching.asked(naming.as_text("text to look for", search))

    def _list(
        self,
        status: str | None,
        owner: str | None,
        tag: str | None,
        agent: str | None,
        search: Sequence[str] | None,
        archived: bool | None,
        order: str,
        limit: int,
        after: str | None,
    ) -> Work[Page[Session]]:
        wanted: dict[str, Any] = {"status": status, "order": order, "limit": limit, "after": after}
        wanted |= {"tag": names.optional("tag", tag), "agent": names.optional("agent", agent)}
        wanted |= {
            "archived": archived,
            "search": search,
            "owner": self._scope(owner),
        }
        return lambda conn: listing.page(conn, self.database.tables, **wanted)

    def _get(self, thread: str) -> Work[Session | None]:
        thread = names.text("thread id", thread)
        return lambda conn: listing.get(conn, self.database.tables, thread, self.owner)

    def _delete(self, thread: str) -> Work[None]:
        thread = names.text("thread id", thread)
        return lambda conn: sessions.remove(conn, self.database.tables, thread, self.owner)

    def _tag(self, thread: str, tags: Sequence[str]) -> Work[bool]:
        thread, tags = names.text("thread id", thread), names.texts("tag", tags)
        marks.check(tags)
        return lambda conn: sessions.tag(conn, self.database.tables, thread, tags, self.owner)
