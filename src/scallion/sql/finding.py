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


class _Indexing:
    """One way through the sessions that are not up to date, those of `owner` if it is given.

    What changes while it is read is left out at first. Behind the last session it is read again, and then who writes it
    has to wait: a thread that is written all the time is found like any other.
    """

    def __init__(self, database: Database, owner: str | None) -> None:
        self._database = database
        self._owner = owner
        self._after = 0
        self._batch: Sequence[Fresh] = ()
        self._is_behind = False
        self._locks = False
        self.goes_on = True
        self.count = 0

    @property
    def writes(self) -> bool:
        """Whether the next step writes: what the step before has read, or what it reads itself."""
        return self._locks or bool(self._batch)

    def step(self, conn: Connection) -> tuple[Sequence[Fresh], int]:
        """A batch that is read, written or both, and of how many sessions it is written."""
        batch = self._batch or self._read(conn)
        if not batch or not self.writes:
            return batch, 0
        from scallion.sql import indexing

        return batch, indexing.write(conn, self._database.tables, batch)

    def _read(self, conn: Connection) -> Sequence[Fresh]:
        t = self._database.tables
        if not searching.is_behind(conn, t, self._owner, self._after):
            return ()
        from scallion.sql import indexing  # knows of messages, which takes pydantic

        return indexing.read(conn, t, self._owner, self._after, locks=self._locks)

    def took(self, batch: Sequence[Fresh], written: int) -> None:
        """A step was taken."""
        if not batch:
            self.goes_on = self._is_behind and not self._locks
            self._locks, self._after = True, 0
        elif self.writes:
            self.count += written
            self._is_behind |= written < len(batch)
            self._batch, self._after = (), batch[-1].session
        else:
            self._batch = batch


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
        while indexing.goes_on:
            indexing.took(*self.database.run(indexing.step, write=indexing.writes, durable=False))
        return indexing.count

    async def _aindex(self, owner: str | None) -> int:
        indexing = _Indexing(self.database, owner)
        while indexing.goes_on:
            indexing.took(*await self.database.arun(indexing.step, write=indexing.writes, durable=False))
        return indexing.count


@contextmanager
def as_far_as_allowed() -> Iterator[None]:
    """Who may only read searches in what others have indexed."""
    try:
        yield
    except StorageError as error:
        if not is_forbidden(error.__cause__):
            raise
