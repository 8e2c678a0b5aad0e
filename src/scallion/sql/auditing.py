"""Reading the audit: pages of it, the whole as the lines of a file, and whether it is one chain. In both colours."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from sqlalchemy import ColumnElement, Connection, Row, exists, select

from scallion.approvals import chain
from scallion.approvals.chain import Entry, Head, Link, Verified, Walk
from scallion.errors import ConfigurationError
from scallion.sql import names, sessions
from scallion.sql.clock import from_micros
from scallion.sql.failures import Work
from scallion.sql.sessions import Page
from scallion.sql.tables import Tables
from scallion.sql.view import View

if TYPE_CHECKING:
    from scallion.sql.engines import Database

PORTION = 500
"""How many rows are read at once."""


def page(
    conn: Connection,
    t: Tables,
    *,
    thread: str | None = None,
    event: str | None = None,
    owner: str | None = None,
    limit: int = 50,
    after: str | None = None,
) -> Page[Entry]:
    """Rows, the newest first."""
    a = t.audit.c
    query = select(t.audit).where(
        *(column == given for column, given in ((a.thread, thread), (a.event, event)) if given)
    )
    if owner is not None:
        query = query.where(_is_of(t, owner))
    rows, following = sessions.numbered(conn, query, a.no, limit, after, newest=True)
    return Page([_entry(row) for row in rows], following)


def _is_of(t: Tables, owner: str) -> ColumnElement[bool]:
    """Whether a row is about a thread that belongs to the owner, and that has not been another one's of that name."""
    s, a = t.sessions.c, t.audit.c
    return exists(select(s.no).where(s.thread == a.thread, s.owner == owner, s.created <= a.at))


def _entry(row: Row[Any]) -> Entry:
    link = Link(*(getattr(row, name) for name in Link._fields))
    rest = link.event, link.thread, link.subject, link.by, json.loads(link.detail)
    return Entry(link.no, from_micros(link.at), *rest, row.hash)


class Portion(NamedTuple):
    """Some rows in their order, and the head as it was at that moment."""

    rows: Sequence[tuple[Link, str]]
    head: Head | None


def portion(conn: Connection, t: Tables, after: int) -> Portion:
    """The rows behind that number."""
    a, h = t.audit.c, t.audit_head.c
    ends = [select(column).limit(1).scalar_subquery() for column in (h.last, h.hash)]  # of the same moment as the rows
    query = select(*(a[name] for name in Link._fields), a.hash, *ends).where(a.no > after).order_by(a.no).limit(PORTION)
    rows = conn.execute(query).all()
    last: Any = rows[-1][-2:] if rows else conn.execute(select(h.last, h.hash)).first()
    return Portion([(Link(*row[:-3]), row[-3]) for row in rows], Head(*last) if last and last[0] is not None else None)


class _Reading:
    """Goes through all portions: `at` is where the next one begins, None where all was read."""

    def __init__(self, after: Head) -> None:
        self.at: int | None = after.no
        self.head: Head | None = None
        self._last = after.no
        self._empty = 0

    def take(self, found: Portion) -> None:
        """The next portion. An empty one says nothing of rows that came between it and its head: it is read again."""
        if found.rows:
            self._last = found.rows[-1][0].no
        self.head = found.head
        self._empty = 0 if found.rows else self._empty + 1
        ends = found.head is None or found.head.no <= self._last or self._empty > 1
        is_last = len(found.rows) < PORTION and (bool(found.rows) or ends)
        self.at = None if is_last else self._last


class _Check(_Reading):
    """Whether all that is read is one chain."""

    def __init__(self, since: Head | str | None) -> None:
        super().__init__(Head())
        self._walk = Walk(Head(), chain.head(since))

    def take(self, found: Portion) -> None:
        """The next portion."""
        super().take(found)
        for row in found.rows:
            self._walk.see(*row)

    def end(self) -> Verified:
        """What came of it."""
        return self._walk.end(self.head)


class _Lines(_Reading):
    """The lines of a file."""

    def __init__(self, after: Head | str | None) -> None:
        self._after = chain.head(after)
        self._is_begun = False
        super().__init__(self._after)

    def of(self, found: Portion) -> Iterator[str]:
        """Those of the next portion."""
        self.take(found)
        if not self._is_begun:
            self._is_begun = True
            if (found.head or Head()).no < self._after.no:
                raise ConfigurationError(f"there is no row {self._after.no} to go on from: the audit ends before it")
            yield _line(chain.header(self._after))
        for link, hash in found.rows:
            yield _line({**link._asdict(), "hash": hash})
        if self.at is None:
            yield _line({"end": str(self.head or Head())})


def _line(record: dict[str, Any]) -> str:
    return json.dumps(record) + "\n"


@dataclass(frozen=True)
class Audit(View):
    """What was decided and done in a database, as one chain of hashes; rows are only added."""

    def list(
        self, *, thread: str | None = None, event: str | None = None, limit: int = 50, after: str | None = None
    ) -> Page[Entry]:
        """One page of rows, the newest first. `after`: `next` of the page before.

        Whoever is bound to an owner sees the rows about that owner's threads.
        """
        return self.database.run(self._list(thread, event, limit, after))

    async def alist(
        self, *, thread: str | None = None, event: str | None = None, limit: int = 50, after: str | None = None
    ) -> Page[Entry]:
        """As `list`."""
        return await self.database.arun(self._list(thread, event, limit, after))

    def export(self, *, after: str | None = None) -> Iterator[str]:
        """The whole audit as the lines of a file, or the rows behind a head, such as an export before ended with.

        Read as it is taken, a portion at a time. `scallion.approvals.chain.verify` and `scallion audit verify FILE`
        check it. Raises ConfigurationError for what is no head, or behind the last row, and where this is bound to one
        owner.
        """
        self._check_whole()
        lines = _Lines(after)
        while lines.at is not None:
            yield from lines.of(self.database.run(self._portion(lines.at)))

    async def aexport(self, *, after: str | None = None) -> AsyncIterator[str]:
        """As `export`."""
        self._check_whole()
        lines = _Lines(after)
        while lines.at is not None:
            for line in lines.of(await self.database.arun(self._portion(lines.at))):
                yield line

    def verify(self, *, since: str | None = None) -> Verified:
        """Whether every row is as it was written, and none is missing: the first one that does not fit, and why.

        `since`: the `head` of an earlier look. Without it nobody sees that the end was cut off and the head made to
        fit. Raises ConfigurationError for what is no head, and where this is bound to one owner.
        """
        self._check_whole()
        check = _Check(since)
        while check.at is not None:
            check.take(self.database.run(self._portion(check.at)))
        return check.end()

    async def averify(self, *, since: str | None = None) -> Verified:
        """As `verify`."""
        self._check_whole()
        check = _Check(since)
        while check.at is not None:
            check.take(await self.database.arun(self._portion(check.at)))
        return check.end()

    def _list(self, thread: str | None, event: str | None, limit: int, after: str | None) -> Work[Page[Entry]]:
        wanted: dict[str, Any] = {
            "thread": names.optional("thread id", thread),
            "event": names.optional("event", event),
        }
        wanted |= {"limit": limit, "after": after, "owner": self.owner}
        return lambda conn: page(conn, self.database.tables, **wanted)

    def _portion(self, after: int) -> Work[Portion]:
        return lambda conn: portion(conn, self.database.tables, after)

    def _check_whole(self) -> None:
        if self.owner is not None:
            raise ConfigurationError("this is bound to one owner: the audit is one chain over the whole database")


class Audited:
    """Gives the audit; for whoever has a database and an owner."""

    database: Database
    owner: str | None

    @property
    def audit(self) -> Audit:
        """What was decided and done: listed, exported and verified."""
        return Audit(self.database, self.owner)
