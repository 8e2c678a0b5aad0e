"""The index of a search is brought up to date: by who searches, or before, as after an upgrade."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from sqlalchemy import Connection

from scallion.errors import StorageError
from scallion.sql import searching
from scallion.sql.engines import Database
from scallion.sql.failures import is_forbidden
from scallion.sql.view import View

if TYPE_CHECKING:
    from scallion.sql.indexing import Fresh

PASSES = 2
"""How often all sessions are passed: what changes while the first pass reads it, the second finds as it is."""


class _Indexing:
    """One way through the sessions that are not up to date, those of `owner` if it is given."""

    def __init__(self, database: Database, owner: str | None) -> None:
        self._database = database
        self._owner = owner
        self._passes = PASSES
        self._after = 0
        self._is_behind = False
        self.batch: Sequence[Fresh] = ()
        self.count = 0

    def goes_on(self) -> bool:
        """Whether there may be more to read."""
        return self._passes > 0

    def read(self, conn: Connection) -> Sequence[Fresh]:
        """The next batch."""
        if not searching.is_behind(conn, self._database.tables, self._owner, self._after):
            return ()
        from scallion.sql import indexing  # knows of messages, which takes pydantic

        return indexing.read(conn, self._database.tables, self._owner, self._after)

    def write(self, conn: Connection) -> int:
        """Write the batch that was read; of how many sessions."""
        from scallion.sql import indexing

        return indexing.write(conn, self._database.tables, self.batch)

    def take(self, batch: Sequence[Fresh]) -> bool:
        """Go on behind this batch; whether there is something to write."""
        self.batch = batch
        if batch:
            self._after = batch[-1].session
        else:
            self._passes = self._passes - 1 if self._is_behind else 0
            self._after, self._is_behind = 0, False
        return bool(batch)

    def wrote(self, count: int) -> None:
        """So many of the batch are up to date."""
        self.count += count
        self._is_behind |= count < len(self.batch)


class Finding(View):
    """Indexes the sessions of a database for those who search."""

    def index(self, *, all: bool = False) -> int:
        """Have a search find all that is stored by now; how many sessions were not up to date.

        A search does the same first: done before, after an upgrade or when many threads were moved, it is fast. It may
        be interrupted, and run beside others. `all`: read every session again, also where the index is thought to be up
        to date, as a program of a version without it was still writing after an upgrade.
        """
        if all:
            self.database.run(self._anew, write=True)
        return self._index(self.owner)

    async def aindex(self, *, all: bool = False) -> int:
        """As `index`."""
        if all:
            await self.database.arun(self._anew, write=True)
        return await self._aindex(self.owner)

    def _anew(self, conn: Connection) -> None:
        searching.anew(conn, self.database.tables, self.owner)

    def _index(self, owner: str | None) -> int:
        indexing = _Indexing(self.database, owner)
        while indexing.goes_on():
            if indexing.take(self.database.run(indexing.read)):
                indexing.wrote(self.database.run(indexing.write, write=True, durable=False))
        return indexing.count

    async def _aindex(self, owner: str | None) -> int:
        indexing = _Indexing(self.database, owner)
        while indexing.goes_on():
            if indexing.take(await self.database.arun(indexing.read)):
                indexing.wrote(await self.database.arun(indexing.write, write=True, durable=False))
        return indexing.count


@contextmanager
def as_far_as_allowed() -> Iterator[None]:
    """Who may only read searches in what others have indexed."""
    try:
        yield
    except StorageError as error:
        if not is_forbidden(error.__cause__):
            raise
