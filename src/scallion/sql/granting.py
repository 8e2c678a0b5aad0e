"""The statements of leases, built once for each set of tables and dialect.

Each of them may be a transaction of its own: what a grant depends on is compared by the statement that makes it.
"""

from __future__ import annotations

from functools import cached_property, lru_cache
from typing import Any

from sqlalchemy import BigInteger, Select, and_, bindparam, delete, exists, func, literal_column, null, select, update

from scallion.sql.clock import ServerNow
from scallion.sql.prepared import unless_there
from scallion.sql.sessions import Claimed
from scallion.sql.statement import Statement
from scallion.sql.tables import Tables

TRACE = ("session", "turn", "part", "fence", "ended", "checkpoint", "data")
"""The columns of a part of a trace."""
_NO_WAIT: Any = literal_column("set_config('synchronous_commit', 'off', true)")
"""PostgreSQL: this transaction is committed without waiting for the disk."""


class Grants:
    """The statements of leases, built once. Without `now` among the parameters the time is the server's."""

    def __init__(self, t: Tables, dialect: str, at_server: bool) -> None:
        self._t = t
        self._dialect = dialect
        self._now: Any = ServerNow() if at_server else bindparam("now", type_=BigInteger)
        self._told: Any = ServerNow() if at_server else null()
        self._is_postgres = dialect == "postgresql"

    def _made(self, built: Any) -> Statement:
        return Statement(built, self._dialect)

    @property
    def _until(self) -> Any:
        return self._now + bindparam("lasts", type_=BigInteger)

    @property
    def _held(self) -> Any:
        s = self._t.sessions.c
        held = and_(s.thread == bindparam("for_thread"), s.fence == bindparam("seen", type_=BigInteger))
        return and_(held, _NO_WAIT == "off") if self._is_postgres else held

    @cached_property
    def look(self) -> Statement:
        """What a taker needs of the session `for_thread`, locked."""
        s = self._t.sessions.c
        row = (s[name] for name in Claimed._fields)
        asynchronous = _NO_WAIT if self._is_postgres else null()
        query = select(*row, s.status, s.holder, s.held_since, s.held_until, self._told, asynchronous)
        return self._made(query.where(s.thread == bindparam("for_thread")).with_for_update())

    @cached_property
    def make(self) -> Statement:
        """A session that the lease is on, unless there is one of that name."""
        s = self._t.sessions
        times = {"created": self._now, "updated": self._now, "held_since": self._now, "held_until": self._until}
        made = unless_there(s, self._dialect).values(times)
        return self._made(made.returning(_NO_WAIT) if self._is_postgres else made)

    @cached_property
    def grant(self) -> Statement:
        """Give the session `of`, whose fence is `seen`, to a holder."""
        s = self._t.sessions
        this = and_(s.c.no == bindparam("of", type_=BigInteger), s.c.fence == bindparam("seen", type_=BigInteger))
        return self._made(
            update(s).where(this).values(held_since=self._now, held_until=self._until, asked_to_stop=null())
        )

    @cached_property
    def renew(self) -> Statement:
        """Have the grant `seen` last from now on."""
        return self._made(update(self._t.sessions).where(self._held).values(held_until=self._until))

    @cached_property
    def asked(self) -> Statement:
        """Whether somebody asked the turn to stop."""
        s = self._t.sessions.c
        return self._made(select(s.asked_to_stop).where(s.thread == bindparam("for_thread")))

    @cached_property
    def release(self) -> Statement:
        """End the grant `seen`; its fence stays, for what it still has on the way."""
        nobody = {"holder": null(), "held_since": null(), "held_until": null(), "asked_to_stop": null()}
        return self._made(update(self._t.sessions).where(self._held).values(nobody))

    @cached_property
    def trace(self) -> Statement:
        """Keep a part of a turn's trace, unless it is there, on the grant `seen`; of a thread that is there at all."""
        s = self._t.sessions.c
        row = self._trace(s.no, s.head).where(self._held, s.head.is_not(None))
        return self._made(unless_there(self._t.traces, self._dialect).from_select(TRACE, row))

    @cached_property
    def release_with_trace(self) -> Statement:
        """As `release` and `trace` in one: how many sessions were released. PostgreSQL's."""
        s = self._t.sessions
        nobody = {"holder": null(), "held_since": null(), "held_until": null(), "asked_to_stop": null()}
        done = update(s).where(self._held).values(nobody).returning(s.c.no, s.c.head).cte("released")
        row = self._trace(done.c.no, done.c.head).where(done.c.head.is_not(None))
        kept = unless_there(self._t.traces, self._dialect).from_select(TRACE, row).cte("kept")
        return self._made(select(func.count()).select_from(done).add_cte(kept))

    def _trace(self, no: Any, head: Any) -> Select[Any]:
        given = self._t.traces.c
        own = (bindparam(name, type_=given[name].type) for name in ("turn", "part"))
        data, seen = bindparam("data", type_=given.data.type), bindparam("seen", type_=BigInteger)
        return select(no, *own, seen, self._now, head, data)

    @cached_property
    def forget(self) -> Any:
        """Delete the session that the grant `seen` made, if nothing was written to it."""
        s = self._t.sessions.c
        empty = [~exists(select(one.c.session).where(one.c.session == s.no)) for one in self._t.belonging]
        return delete(self._t.sessions).where(self._held, *empty)


@lru_cache
def grants(t: Tables, dialect: str, at_server: bool) -> Grants:
    """The statements for these tables in that dialect; `at_server`: it knows what time it is."""
    return Grants(t, dialect, at_server)
