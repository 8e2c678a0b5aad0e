"""One statement that is run many times, and what may stand in for a connection that runs it.

SQLite runs in the process, so that even SQLAlchemy's way to its driver is the larger part of the time. There a
statement goes to the driver as the text that SQLAlchemy compiled: numbers, texts and bytes need no conversion.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import itemgetter
from typing import Any

from sqlalchemy import Connection


class NoShortcut(Exception):
    """What is to be done needs a real transaction."""


class StandIn:
    """What a piece of work may get instead of a connection. Whatever it cannot do raises NoShortcut."""

    def __init__(self, dialect: Any) -> None:
        self.dialect = dialect

    def rows(self, statement: Statement, parameters: Mapping[str, Any]) -> Sequence[Any]:
        """As `Statement.rows`."""
        raise NoShortcut

    def run(self, statement: Statement, rows: Sequence[Mapping[str, Any]]) -> int:
        """As `Statement.run_many`."""
        raise NoShortcut

    def execute(self, *arguments: Any, **options: Any) -> Any:
        """Any other statement."""
        raise NoShortcut


class Statement:
    """One statement, to be run any number of times."""

    def __init__(self, built: Any, dialect: str) -> None:
        self.built = built
        self._raw = dialect == "sqlite"
        self._texts: dict[tuple[str, ...], tuple[str, Any]] = {}

    def rows(self, conn: Connection, **parameters: Any) -> Sequence[Any]:
        """The rows that it gives."""
        if isinstance(conn, StandIn):
            return conn.rows(self, parameters)
        if not self._raw:
            return conn.execute(self.built, parameters).all()
        text, values = self.text(conn.dialect, parameters)
        found: Sequence[Any] = _driver(conn).execute(text, values(parameters)).fetchall()
        return found

    def run(self, conn: Connection, parameters: Mapping[str, Any]) -> int:
        """How many rows it inserted or changed; -1 if the driver does not count."""
        if isinstance(conn, StandIn):
            return conn.run(self, [parameters])
        if not self._raw:
            return conn.execute(self.built, parameters).rowcount
        text, values = self.text(conn.dialect, parameters)
        changed: int = _driver(conn).execute(text, values(parameters)).rowcount
        return changed

    def run_many(self, conn: Connection, rows: Sequence[Mapping[str, Any]]) -> int:
        """As `run`, once for each row."""
        if isinstance(conn, StandIn):
            return conn.run(self, rows)
        if not self._raw:
            return conn.execute(self.built, rows).rowcount
        text, values = self.text(conn.dialect, rows[0])
        changed: int = _driver(conn).executemany(text, map(values, rows)).rowcount
        return changed

    def text(self, dialect: Any, parameters: Mapping[str, Any]) -> tuple[str, Any]:
        """What the driver gets for parameters of these names, and what brings their values in its order."""
        names = tuple(parameters)
        found = self._texts.get(names)
        if found is None:
            compiled = self.built.compile(dialect=dialect, column_keys=list(names))
            own = compiled.params  # with what the statement itself gives, as the number of a LIMIT
            order = compiled.positiontup
            if order is None:
                found = self._texts[names] = compiled.string, lambda given: {**own, **given}
            elif len(order) > 1 and parameters.keys() >= set(order):  # as nearly always, and it is three times as fast
                found = self._texts[names] = compiled.string, itemgetter(*order)
            else:
                bring = lambda given: [given.get(name, own[name]) for name in order]  # noqa: E731
                found = self._texts[names] = compiled.string, bring
        return found


def _driver(conn: Connection) -> Any:
    return conn.connection.dbapi_connection
