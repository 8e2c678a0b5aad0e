"""Messages that came while their thread was paused: they wait until a checkpoint of the thread takes them up.

Who puts one holds the row of its session and says where the thread stood when it looked, so that none is put behind a
turn that has looked for the last time. A message is gone in the transaction of the checkpoint that has it: after a
crash it is either there or still waits.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Row, Select, delete, func, insert, select

from scallion.errors import NotSerializable, ThreadBusy
from scallion.sql import clock, names
from scallion.sql.clock import from_micros, to_micros
from scallion.sql.encoding import Refused, Serde, pack, unpack
from scallion.sql.engines import Database
from scallion.sql.failures import Work
from scallion.sql.tables import Tables
from scallion.sql.view import Leased
from scallion.values import Queued

MESSAGE = "inbound.message"


def put(
    conn: Connection, t: Tables, thread: str, row: Mapping[str, Any], at: str | None, owner: str | None = None
) -> bool:
    """Store a message behind those that wait, if the thread still stands at this checkpoint."""
    s = t.sessions.c
    query = select(s.no, s.head).where(s.thread == thread)
    if owner is not None:
        query = query.where(s.owner == owner)
    found = conn.execute(query.with_for_update()).one_or_none()
    if found is None or found.head != at:
        return False
    _insert(conn, t, found.no, row)
    return True


def _insert(conn: Connection, t: Tables, session: int, row: Mapping[str, Any]) -> None:
    sealed = t.cipher.seal(row["message"], MESSAGE, session, row["created"])
    conn.execute(insert(t.inbound).values({**row, "session": session, "message": sealed}))


def take(conn: Connection, t: Tables, session: int, no: int) -> bool:
    """The message waits no more."""
    i = t.inbound.c
    return conn.execute(delete(t.inbound).where(i.session == session, i.no == no)).rowcount == 1


def every(conn: Connection, t: Tables, session: int) -> Iterator[dict[str, Any]]:
    """All messages that wait in a session, the oldest first, opened."""
    i = t.inbound.c
    for row in conn.execute(select(t.inbound).where(i.session == session).order_by(i.no)):
        yield {"created": row.created, "by": row.by, "message": _opened(t, row)}


def restore(conn: Connection, t: Tables, session: int, rows: Iterable[Mapping[str, Any]]) -> None:
    """Store messages as `every` gave them. What is none raises ConfigurationError, KeyError, ..."""
    for row in rows:
        names.check("user", row["by"])
        _loaded(row["message"])
        _insert(conn, t, session, row)


def _loaded(data: bytes) -> tuple[str, bytes]:
    """The type by which a serializer knows what it is, and its bytes; ValueError for what is neither."""
    match unpack(data):
        case [str() as type, bytes() as serialised]:
            return type, serialised
    raise ValueError


def _opened(t: Tables, row: Row[Any]) -> bytes:
    return t.cipher.open(bytes(row.message), MESSAGE, row.session, row.created)


@dataclass(frozen=True)
class Inbound(Leased):
    """The messages that wait for the end of a pause, of every thread of a database."""

    serde: Serde | None = None

    def list(self, thread: str) -> Sequence[Queued]:
        """What waits on the thread, the oldest first."""
        return self._read(thread, self.database.run(self._rows(thread)))

    async def alist(self, thread: str) -> Sequence[Queued]:
        """As `list`."""
        return self._read(thread, await self.database.arun(self._rows(thread)))

    def first(self, thread: str) -> Queued | None:
        """What waits longest; None where nothing does."""
        return next(iter(self._read(thread, self.database.run(self._rows(thread, 1)))), None)

    async def afirst(self, thread: str) -> Queued | None:
        """As `first`."""
        return next(iter(self._read(thread, await self.database.arun(self._rows(thread, 1)))), None)

    def count(self, thread: str) -> int:
        """How many wait on the thread."""
        return self.database.run(self._count(thread))

    async def acount(self, thread: str) -> int:
        """As `count`."""
        return await self.database.arun(self._count(thread))

    def put(self, thread: str, messages: Sequence[Any], *, by: str | None, at: str | None) -> None:
        """Have the messages of one turn wait behind the others; `at` is the checkpoint where the thread was paused.

        Raises ThreadBusy where it stands elsewhere by now, NotSerializable for a message.
        """
        work, unsure = self._put(thread, messages, by, at)
        self.database.run(work, write=True, unsure=unsure)

    async def aput(self, thread: str, messages: Sequence[Any], *, by: str | None, at: str | None) -> None:
        """As `put`."""
        work, unsure = self._put(thread, messages, by, at)
        await self.database.arun(work, write=True, unsure=unsure)

    def drop(self, thread: str, no: int) -> bool:
        """Have the message of that number not wait any more, and nobody answer it; whether it was there."""
        return self.database.run(self._drop(thread, no), write=True)

    async def adrop(self, thread: str, no: int) -> bool:
        """As `drop`."""
        return await self.database.arun(self._drop(thread, no), write=True)

    def _rows(self, thread: str, most: int | None = None) -> Work[Sequence[tuple[Row[Any], bytes]]]:
        query = self._of(select(self.database.tables.inbound), thread).order_by(self.database.tables.inbound.c.no)
        return lambda conn: [(row, _opened(self.database.tables, row)) for row in conn.execute(query.limit(most))]

    def _count(self, thread: str) -> Work[int]:
        query = self._of(select(func.count()).select_from(self.database.tables.inbound), thread)
        return lambda conn: conn.execute(query).scalar() or 0

    def _put(
        self, thread: str, messages: Sequence[Any], by: str | None, at: str | None
    ) -> tuple[Work[None], Work[None]]:
        thread, row = names.text("thread id", thread), {"by": names.fitting(by), "message": self._dumped(messages)}
        tried: list[int] = []

        def work(conn: Connection) -> None:
            self._check_lease(conn)
            tried.append(to_micros(clock.read(conn, self.database.clock)))
            if not put(conn, self.database.tables, thread, {**row, "created": tried[-1]}, at, self.owner):
                raise ThreadBusy(thread)

        def unsure(conn: Connection) -> None:
            found = self._rows(thread)(conn)
            if not any(one.created in tried and data == row["message"] for one, data in found):
                work(conn)

        return work, unsure

    def _drop(self, thread: str, no: int) -> Work[bool]:
        chosen = self._of(select(self.database.tables.inbound.c.session), thread).limit(1)

        def work(conn: Connection) -> bool:
            session = conn.execute(chosen).scalar()
            return session is not None and take(conn, self.database.tables, session, no)

        return work

    def _of(self, query: Select[Any], thread: str) -> Select[Any]:
        t = self.database.tables
        query = query.join(t.sessions, t.sessions.c.no == t.inbound.c.session)
        query = query.where(t.sessions.c.thread == names.text("thread id", thread))
        return query if self.owner is None else query.where(t.sessions.c.owner == self.owner)

    def _read(self, thread: str, rows: Sequence[tuple[Row[Any], bytes]]) -> Sequence[Queued]:
        return [
            Queued(row.no, thread, row.by, from_micros(row.created), self._serde.loads_typed(_loaded(data)))
            for row, data in rows
        ]

    def _dumped(self, messages: Sequence[Any]) -> bytes:
        try:
            return pack(list(self._serde.dumps_typed([*messages])))
        except Refused as refused:
            raise NotSerializable("inbound", refused.type, str(refused)) from None

    @property
    def _serde(self) -> Serde:
        assert self.serde is not None
        return self.serde


class Receiving:
    """Gives what waits for the end of a pause; for whoever has a database, an owner and a serializer."""

    database: Database
    owner: str | None
    serde: Any

    @property
    def inbound(self) -> Inbound:
        """Messages that came while their thread was paused: see `on_message_while_paused`."""
        return Inbound(self.database, self.owner, serde=self.serde)
