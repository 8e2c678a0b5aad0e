"""The short way to PostgreSQL: a whole write as one statement, a read without BEGIN and COMMIT.

Each statement to a server is a way there and back, and a turn writes nine times. Who wrote last to a session knows what
its row holds. So a write is planned as if that were so, and sent as one statement that does nothing unless it is: the
row is changed where it holds what is expected, everything else is inserted for what was changed. Otherwise, and
wherever anything else has to be read, the write is done the usual way. The rules are the same: only the connection that
the work gets is another one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar, cast

from sqlalchemy import (
    CTE,
    Column,
    ColumnElement,
    Connection,
    Engine,
    Insert,
    Select,
    Table,
    bindparam,
    exists,
    func,
    insert,
    select,
    union_all,
    update,
)
from sqlalchemy.exc import SQLAlchemyError

from scallion.sql.clock import ServerNow
from scallion.sql.failures import Vanished
from scallion.sql.prepared import Prepared, prepared
from scallion.sql.statement import NoShortcut, StandIn, Statement
from scallion.sql.tables import Tables

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scallion.sql.sessions import Claimed

T = TypeVar("T")
Planned = tuple[str, Mapping[str, Any]]
"""A whole write: a statement and its parameters."""
Shape = tuple[tuple[int, int, tuple[str, ...]], ...]
"""The statements of a write: which, how many rows, of which parameters."""

MOST = 16
"""A write of more rows is done the usual way: there are not many different statements."""
FIRST = (0, 1)
"""The places of the statements that change the session's row, in `_parts`."""


def has_shortcut(engine: Engine, t: Tables) -> bool:
    """Whether there is a short way: not where values are sealed, as the key must be held meanwhile."""
    return engine.dialect.name == "postgresql" and engine.dialect.driver == "psycopg" and not t.cipher.ids


def written(engine: Engine, t: Tables, work: Callable[[Connection], T], row: Claimed) -> T:
    """What `work` gives for a session whose row is believed to be this one. Raises NoShortcut; then nothing is done."""
    value, planned = plan(engine, t, work, row)
    if all(sent(engine, [planned])):
        return value
    raise NoShortcut


def plan(engine: Engine, t: Tables, work: Callable[[Connection], T], row: Claimed) -> tuple[T, Planned]:
    """As `written`; the write is still to be sent."""
    planned = _Planned(engine.dialect, t, row)
    try:
        value = work(cast("Connection", planned))
    except Exception:  # of a row that may be another by now: the usual way finds out whether it is so
        raise NoShortcut from None
    return value, planned.statement()


def sent(engine: Engine, writes: Sequence[Planned]) -> Sequence[bool]:
    """Whether each of these was written: committed together when this returns. Raises NoShortcut; then none was."""
    with _cursor(engine) as cursor:
        return [send(cursor, *writes[0]) == 1] if len(writes) == 1 else send_together(cursor.connection, writes)


def send(cursor: Any, text: str, parameters: Mapping[str, Any]) -> int:
    """How many sessions were written to; it is committed when this returns."""
    sessions: int = cursor.execute(text, parameters).fetchone()[0]
    return sessions


def send_together(conn: Any, writes: Sequence[Planned]) -> Sequence[bool]:
    """As `sent`, one way there and back for all of them; PostgreSQL has them in one transaction, as nothing ends it."""
    cursors: list[Any] = []
    failed: Exception | None = None
    with conn.pipeline():
        try:
            cursors += [conn.execute(*one) for one in writes]
        except Exception as error:  # psycopg logs what leaves a pipeline
            failed = error
    if failed is not None:
        raise failed
    return [cursor.fetchone()[0] == 1 for cursor in cursors]


def direct(engine: Engine, work: Callable[[Connection], T]) -> T:
    """What `work` gives, whose prepared statements are a transaction each. Raises NoShortcut."""
    with _cursor(engine) as cursor:
        try:
            return work(cast("Connection", _Direct(engine.dialect, cursor)))
        except Vanished:
            raise NoShortcut from None


@contextmanager
def _cursor(engine: Engine) -> Iterator[Any]:
    """A cursor of the driver's that commits by itself. What fails is done again the usual way, which tells of it."""
    try:
        with engine.connect() as conn:
            raw: Any = conn.connection.dbapi_connection
            before = raw.autocommit
            raw.autocommit = True
            try:
                yield raw.cursor()
            finally:
                if raw.closed or raw.info.transaction_status:
                    conn.invalidate()
                else:
                    raw.autocommit = before
    except (SQLAlchemyError, engine.dialect.loaded_dbapi.Error, OSError):
        raise NoShortcut from None


class _Direct(StandIn):
    """Runs each statement with the driver."""

    def __init__(self, dialect: Any, cursor: Any) -> None:
        super().__init__(dialect)
        self._cursor = cursor

    def rows(self, statement: Statement, parameters: Mapping[str, Any]) -> Sequence[Any]:
        text, values = statement.text(self.dialect, parameters)
        found: Sequence[Any] = self._cursor.execute(text, values(parameters)).fetchall()
        return found

    def run(self, statement: Statement, rows: Sequence[Mapping[str, Any]]) -> int:
        if len(rows) != 1:
            raise NoShortcut
        text, values = statement.text(self.dialect, rows[0])
        changed: int = self._cursor.execute(text, values(rows[0])).rowcount
        return changed


class _Planned(StandIn):
    """Writes down what is to be done to the session of this row."""

    def __init__(self, dialect: Any, t: Tables, row: Claimed) -> None:
        super().__init__(dialect)
        self._t = t
        self._row = row
        self._prepared = prepared(cast("Connection", self), t)
        self._parts = _parts(self._prepared)
        self._given: list[tuple[int, Sequence[Mapping[str, Any]]]] = []

    def rows(self, statement: Statement, parameters: Mapping[str, Any]) -> Sequence[Any]:
        if statement is not self._prepared.claim or self._given:
            raise NoShortcut
        return [(*self._row, None)]

    def run(self, statement: Statement, rows: Sequence[Mapping[str, Any]]) -> int:
        if statement not in self._parts or len(rows) > MOST:
            raise NoShortcut
        self._given.append((self._parts.index(statement), rows))
        return len(rows)

    def statement(self) -> Planned:
        """All of it as one statement, and its parameters."""
        shape = tuple((part, len(rows), tuple(rows[0])) for part, rows in self._given)
        text = self._prepared.soles.get(shape)
        if text is None:
            built = _Sole(self._t, shape).built
            text = self._prepared.soles[shape] = str(built.compile(dialect=self.dialect))
        parameters = {f"is_{name}": value for name, value in self._row._asdict().items()}
        for n, (_, rows) in enumerate(self._given):
            for i, row in enumerate(rows):
                parameters.update((f"{name}_{n}_{i}", value) for name, value in row.items())
        return text, parameters


def _parts(p: Prepared) -> tuple[Statement, ...]:
    """The statements that a write may consist of."""
    return p.advance, p.advance_now, p.add_items, p.add_entries, p.add_writes, p.put_checkpoint


class _Sole:
    """The statement for a shape."""

    def __init__(self, t: Tables, shape: Shape) -> None:
        self._t = t
        self._held = self._hold(shape)
        tables = (t.sessions, t.sessions, t.items, t.entries, t.writes, t.checkpoints)
        inserts = [
            self._insert(tables[part], n, count, names).cte(f"part_{n}")
            for n, (part, count, names) in enumerate(shape)
            if part not in FIRST
        ]
        self.built: Select[Any] = select(func.count()).select_from(self._held).add_cte(*inserts)

    def _hold(self, shape: Shape) -> CTE:
        """The session's row, changed and locked, if it holds what is expected.

        If somebody else has locked it, the usual way waits for him: here others may wait for this write.
        """
        s = self._t.sessions
        changed: dict[str, Any] = {}
        for n, (part, _, names) in enumerate(shape):
            if part in FIRST:
                given = {name: bindparam(f"{name}_{n}_0", type_=s.c[name].type) for name in names if name != "of"}
                changed |= given | ({"updated": ServerNow()} if part == 1 else {})
        free = select(s.c.no).where(*self._expected()).with_for_update(skip_locked=True)
        if not changed:
            return free.cte("held")
        its = select(free.cte("free").c.no).scalar_subquery()
        return update(s).where(s.c.no == its).values(changed).returning(s.c.no).cte("held")

    def _expected(self) -> list[ColumnElement[bool]]:
        from scallion.sql.sessions import Claimed

        s = self._t.sessions.c
        same = [_is(s[name], f"is_{name}") for name in Claimed._fields]
        return [*same, ~exists(select(self._t.keyring.c.no))]

    def _insert(self, table: Table, n: int, count: int, names: Sequence[str]) -> Insert:
        """New rows; where one is there already, the whole statement fails, except for a checkpoint."""
        rows = [
            select(
                *(
                    self._held.c.no if name == "session" else bindparam(f"{name}_{n}_{i}", type_=table.c[name].type)
                    for name in names
                )
            )
            for i in range(count)
        ]
        query = union_all(*rows) if count > 1 else rows[0]
        if table is not self._t.checkpoints:
            return insert(table).from_select(list(names), query)
        from sqlalchemy.dialects import postgresql

        key = [column.name for column in table.primary_key]
        new = postgresql.insert(table).from_select(list(names), query)
        others = {name: new.excluded[name] for name in names if name not in key}
        return new.on_conflict_do_update(index_elements=key, set_=others)


def _is(column: Column[Any], name: str) -> ColumnElement[bool]:
    value = bindparam(name, type_=column.type)
    return column.is_not_distinct_from(value) if column.nullable else column == value
