"""The ledger of effects: an attempt at a tool call is a row before the tool runs, and has its result afterwards.

Whoever begins an attempt holds the row of its session, so that of several one begins it and the others see it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, get_args

from sqlalchemy import Connection, Row, Select, insert, select, update

from scallion.approvals.effects import Attempt, AttemptStatus, Wanted
from scallion.errors import LeaseLost, NotSerializable
from scallion.sql import asking, audit, clock, names, sessions
from scallion.sql.clock import from_micros, to_micros
from scallion.sql.encoding import Refused, Serde, pack, unpack
from scallion.sql.engines import Database
from scallion.sql.failures import Work
from scallion.sql.tables import Tables
from scallion.sql.view import Leased
from scallion.values import Effect

RESULT = "effects.result"
STATUSES = get_args(AttemptStatus)
CARRIED = ("call", "attempt", "args", "key", "tool", "status", "begun", "ended")
"""The columns that mean the same in every database."""


@dataclass(frozen=True, slots=True)
class Begun:
    """The attempt that was begun, or the one that is in the way."""

    row: Mapping[str, Any]
    is_new: bool


def begin(conn: Connection, t: Tables, wanted: Wanted, over: int, now: int, owner: str | None) -> Begun | None:
    """Begin an attempt, unless one is in the way; None while the checkpoint that holds the call is not there."""
    session = sessions.locked(conn, t, wanted.thread, owner)
    if session is None or not _is_stored(conn, t, session, wanted):
        return None
    before = conn.execute(_attempts(t, session, [wanted.call])).all()
    last = before[-1] if before else None
    if last is not None and _is_in_the_way(last, wanted, over):
        return Begun(dict(last._mapping), False)
    if last is not None and last.status == "begun":
        _end(conn, t, session, wanted.call, last.attempt, {"status": "open", "ended": now})
        _audited(conn, t, wanted, last.key, last.attempt, "open", now)
    number = last.attempt + 1 if last is not None else 1
    key: str = next((row.key for row in before if row.args == wanted.args), wanted.key)
    row = {
        "session": session,
        "call": wanted.call,
        "attempt": number,
        "args": wanted.args,
        "key": key,
        "tool": names.fitting(wanted.tool),
        "status": "begun",
        "begun": now,
        "result": None,
    }
    fence = select(t.sessions.c.fence).where(t.sessions.c.no == session).scalar_subquery()
    conn.execute(insert(t.effects).values({**row, "fence": fence}))
    _audited(conn, t, wanted, key, number, "begun", now)
    asking.begin(conn, t, session, str(row["tool"]), wanted.call_id)
    return Begun(row, True)


def _audited(conn: Connection, t: Tables, wanted: Wanted, key: str, attempt: int, status: str, now: int) -> None:
    detail = {"tool": names.fitting(wanted.tool), "attempt": attempt}
    audit.add(conn, t, f"effect_{status}", thread=wanted.thread, subject=key, detail=detail, now=now)


def _is_stored(conn: Connection, t: Tables, session: int, wanted: Wanted) -> bool:
    """Whether a crash would leave the call: one whose message is lost is made anew, under another id."""
    c = t.checkpoints.c
    this = (c.session == session, c.ns == wanted.ns, c.id == wanted.checkpoint)
    return conn.execute(select(c.id).where(*this)).first() is not None


def _is_in_the_way(last: Row[Any], wanted: Wanted, over: int) -> bool:
    if last.attempt <= over or last.status == "open":
        return False
    return last.status != "failed" or bool(last.args == wanted.args)


def begun(conn: Connection, t: Tables, wanted: Wanted, now: int) -> Begun | None:
    """The attempt that `begin` began at this instant, if it did."""
    row = next(iter(conn.execute(_newest(t, wanted.thread, [wanted.call])).all()), None)
    return Begun(dict(row._mapping), True) if row is not None and row.begun == now and row.status == "begun" else None


def end(
    conn: Connection, t: Tables, wanted: Wanted, attempt: int, values: Mapping[str, Any], owner: str | None
) -> None:
    """Write what came of an attempt. Raises LeaseLost where somebody else has said so, or the thread is gone."""
    session = sessions.locked(conn, t, wanted.thread, owner)
    if session is None:
        raise LeaseLost(wanted.thread)
    result = values["result"]
    sealed = result and t.cipher.seal(result, RESULT, session, wanted.call, attempt)
    if not _end(conn, t, session, wanted.call, attempt, {**values, "result": sealed}):
        raise LeaseLost(wanted.thread)
    e = t.effects.c
    key = conn.execute(select(e.key).where(e.session == session, e.call == wanted.call, e.attempt == attempt)).scalar()
    _audited(conn, t, wanted, str(key), attempt, values["status"], values["ended"])


def _end(conn: Connection, t: Tables, session: int, call: str, attempt: int, values: Mapping[str, Any]) -> bool:
    e = t.effects.c
    this = (e.session == session, e.call == call, e.attempt == attempt, e.status == "begun")
    return conn.execute(update(t.effects).where(*this).values(values)).rowcount == 1


def ended(conn: Connection, t: Tables, wanted: Wanted, attempt: int, values: Mapping[str, Any]) -> bool:
    """Whether `end` wrote this."""
    e = t.effects.c
    query = select(e.status, e.ended).join(t.sessions, t.sessions.c.no == e.session)
    row = conn.execute(
        query.where(t.sessions.c.thread == wanted.thread, e.call == wanted.call, e.attempt == attempt)
    ).first()
    return row is not None and (row.status, row.ended) == (values["status"], values["ended"])


def _attempts(t: Tables, session: int, calls: Sequence[str]) -> Select[Any]:
    e = t.effects.c
    return select(t.effects).where(e.session == session, e.call.in_(calls)).order_by(e.call, e.attempt)


def attempts(conn: Connection, t: Tables, session: int, calls: Sequence[str]) -> Sequence[Row[Any]]:
    """All attempts at these calls of a session, of each the first first."""
    return conn.execute(_attempts(t, session, calls)).all() if calls else []


def _newest(t: Tables, thread: str, calls: Sequence[str] | None, owner: str | None = None) -> Select[Any]:
    """The attempts at these calls, or at all, the newest of a call first."""
    e, s = t.effects.c, t.sessions.c
    query = select(t.effects).join(t.sessions, s.no == e.session).where(s.thread == thread)
    if calls is not None:
        query = query.where(e.call.in_(calls))
    if owner is not None:
        query = query.where(s.owner == owner)
    return query.order_by(e.call, e.attempt.desc())


def every(conn: Connection, t: Tables, session: int) -> Iterator[dict[str, Any]]:
    """All attempts of a session: columns by name, the result opened."""
    e = t.effects.c
    query = select(t.effects).where(e.session == session).order_by(e.begun, e.call, e.attempt)
    for row in conn.execute(query).mappings():
        yield {**{name: row[name] for name in CARRIED}, "result": _opened(t, dict(row))}


def restore(conn: Connection, t: Tables, session: int, rows: Iterable[Mapping[str, Any]]) -> None:
    """Store attempts as `every` gave them. What is none raises StorageError, ConfigurationError, KeyError, ..."""
    for row in rows:
        sessions.check_choice("status", row["status"], STATUSES)
        names.check("name of a tool", row["tool"])
        for name in ("call", "args", "key"):
            names.check("approval id", row[name])
        place = RESULT, session, row["call"], row["attempt"]
        sealed = None if row["result"] is None else t.cipher.seal(row["result"], *place)
        carried = {name: row[name] for name in CARRIED}
        conn.execute(insert(t.effects).values({**carried, "result": sealed, "session": session, "fence": 0}))


def _opened(t: Tables, row: Mapping[str, Any]) -> bytes | None:
    if row["result"] is None:
        return None
    return t.cipher.open(bytes(row["result"]), RESULT, row["session"], row["call"], row["attempt"])


@dataclass(frozen=True)
class Effects(Leased):
    """The effects of every thread of a database: what was begun, and what came of it."""

    serde: Serde | None = None

    def list(self, thread: str) -> Sequence[Effect]:
        """Every attempt of a thread, the oldest first; "begun" are those that run, or whose outcome nobody knows."""
        return self.database.run(self._list(thread))

    async def alist(self, thread: str) -> Sequence[Effect]:
        """As `list`."""
        return await self.database.arun(self._list(thread))

    def begin(self, wanted: Wanted, *, over: int = 0) -> Attempt | None:
        """Begin an attempt at a call, or give the one in the way; None while the call itself is not stored.

        In the way stands what was begun, done, stopped or failed, unless its number is `over`.
        """
        work, unsure = self._begin(wanted, over)
        return self._attempt(self.database.run(work, write=True, unsure=unsure))

    async def abegin(self, wanted: Wanted, *, over: int = 0) -> Attempt | None:
        """As `begin`."""
        work, unsure = self._begin(wanted, over)
        return self._attempt(await self.database.arun(work, write=True, unsure=unsure))

    def end(self, wanted: Wanted, number: int, status: AttemptStatus, result: Any = None) -> None:
        """Say what came of an attempt. Raises LeaseLost if somebody else did, NotSerializable for the result."""
        work, unsure = self._end(wanted, number, status, result)
        self.database.run(work, write=True, unsure=unsure)

    async def aend(self, wanted: Wanted, number: int, status: AttemptStatus, result: Any = None) -> None:
        """As `end`."""
        work, unsure = self._end(wanted, number, status, result)
        await self.database.arun(work, write=True, unsure=unsure)

    def known(self, thread: str, calls: Sequence[str]) -> Mapping[str, Attempt]:
        """The newest attempt at each of these calls."""
        return self._by_call(self.database.run(self._known(thread, calls)))

    async def aknown(self, thread: str, calls: Sequence[str]) -> Mapping[str, Attempt]:
        """As `known`."""
        return self._by_call(await self.database.arun(self._known(thread, calls)))

    def _list(self, thread: str) -> Work[Sequence[Effect]]:
        thread = names.text("thread id", thread)

        def work(conn: Connection) -> Sequence[Effect]:
            rows = conn.execute(_newest(self.database.tables, thread, None, self.owner)).all()
            return [_shown(thread, row) for row in sorted(rows, key=lambda row: (row.begun, row.attempt))]

        return work

    def _begin(self, wanted: Wanted, over: int) -> tuple[Work[_Opened | None], Work[_Opened | None]]:
        tried: list[int] = []

        def work(conn: Connection) -> _Opened | None:
            self._check_lease(conn)
            tried.append(self._instant(conn))
            return self._open(begin(conn, self.database.tables, wanted, over, tried[-1], self.owner))

        def unsure(conn: Connection) -> _Opened | None:
            found = begun(conn, self.database.tables, wanted, tried[-1]) if tried else None
            return self._open(found) if found else work(conn)

        return work, unsure

    def _end(self, wanted: Wanted, number: int, status: AttemptStatus, result: Any) -> tuple[Work[None], Work[None]]:
        data = None if result is None else self._dumped(result)
        tried: list[dict[str, Any]] = []

        def work(conn: Connection) -> None:
            self._check_lease(conn)
            tried.append({"status": status, "result": data, "ended": self._instant(conn)})
            end(conn, self.database.tables, wanted, number, tried[-1], self.owner)

        def unsure(conn: Connection) -> None:
            if not tried or not ended(conn, self.database.tables, wanted, number, tried[-1]):
                work(conn)

        return work, unsure

    def _known(self, thread: str, calls: Sequence[str]) -> Work[Sequence[_Opened]]:
        thread = names.text("thread id", thread)

        def work(conn: Connection) -> Sequence[_Opened]:
            rows = [dict(row._mapping) for row in conn.execute(self._of(thread, calls))]
            newest = {row["call"]: row for row in reversed(rows)}
            return [_Opened(Begun(row, False), _opened(self.database.tables, row)) for row in newest.values()]

        return work

    def _of(self, thread: str, calls: Sequence[str]) -> Select[Any]:
        return _newest(self.database.tables, thread, calls, self.owner)

    def _by_call(self, found: Sequence[_Opened]) -> Mapping[str, Attempt]:
        return {one.begun.row["call"]: self._read(one) for one in found}

    def _instant(self, conn: Connection) -> int:
        return to_micros(clock.read(conn, self.database.clock))

    def _open(self, found: Begun | None) -> _Opened | None:
        return None if found is None else _Opened(found, _opened(self.database.tables, found.row))

    def _attempt(self, found: _Opened | None) -> Attempt | None:
        return None if found is None else self._read(found)

    def _read(self, found: _Opened) -> Attempt:
        row, result = found.begun.row, None
        if found.data is not None:
            type, data = unpack(found.data)
            result = self._serde.loads_typed((type, data))
        return Attempt(row["attempt"], row["status"], row["args"], row["key"], result, found.begun.is_new)

    def _dumped(self, result: Any) -> bytes:
        try:
            return pack(list(self._serde.dumps_typed(result)))
        except Refused as refused:
            raise NotSerializable("effects", refused.type, str(refused)) from None

    @property
    def _serde(self) -> Serde:
        assert self.serde is not None
        return self.serde


@dataclass(frozen=True, slots=True)
class _Opened:
    begun: Begun
    data: bytes | None


def _shown(thread: str, row: Row[Any]) -> Effect:
    return Effect(
        thread=thread,
        tool=row.tool,
        key=row.key,
        attempt=row.attempt,
        status=row.status,
        begun_at=from_micros(row.begun),
        ended_at=from_micros(row.ended) if row.ended is not None else None,
    )


class Keeping:
    """Gives the ledger of effects; for whoever has a database, an owner and a serializer."""

    database: Database
    owner: str | None
    serde: Any

    @property
    def effects(self) -> Effects:
        """What tools that are run at most once did: see `filters.once`."""
        return Effects(self.database, self.owner, serde=self.serde)
