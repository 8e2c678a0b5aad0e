"""What time it is: one clock for everything that is stored, by default the database's."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import BigInteger, Connection, select
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql import ColumnElement
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import FunctionElement

from scallion.errors import ConfigurationError

Clock = Callable[[], datetime]
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)


class ServerNow(FunctionElement[int]):
    """The present instant by the server's clock."""

    type = BigInteger()
    inherit_cache = True


SERVER_NOW = ServerNow()


@compiles(ServerNow, "postgresql")
def _postgresql(element: ServerNow, compiler: SQLCompiler, **options: Any) -> str:
    return "CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000000 AS BIGINT)"


@compiles(ServerNow, "mysql")
@compiles(ServerNow, "mariadb")
def _mysql(element: ServerNow, compiler: SQLCompiler, **options: Any) -> str:
    return "CAST(UNIX_TIMESTAMP(SYSDATE(6)) * 1000000 AS SIGNED)"


def stamp(conn: Connection, clock: Clock | None) -> int | ColumnElement[int]:
    """The present instant; a server's as an SQL expression, so that storing it needs no question of its own."""
    if clock is not None:
        return to_micros(clock())
    if conn.dialect.name == "sqlite":  # its clock is this machine's
        return time.time_ns() // 1000
    return SERVER_NOW


def read(conn: Connection, clock: Clock | None) -> datetime:
    """The present instant as a value, UTC and aware."""
    now = stamp(conn, clock)
    return from_micros(now if isinstance(now, int) else conn.execute(select(now)).scalar_one())


def to_micros(moment: datetime) -> int:
    """Microseconds since 1970. Raises ConfigurationError for a time without a zone, as a `clock=` may give it."""
    if moment.tzinfo is None:
        raise ConfigurationError("a time has a zone: of a clock= too, as datetime.now(UTC) and not datetime.now()")
    return (moment - EPOCH) // MICROSECOND


def from_micros(micros: int) -> datetime:
    """The aware UTC time of that many microseconds since 1970."""
    return EPOCH + timedelta(microseconds=micros)
