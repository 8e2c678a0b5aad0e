"""What time it is: one clock for everything that is stored, by default the database's."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import BigInteger, Connection, literal, select
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql import ColumnElement
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import FunctionElement

Clock = Callable[[], datetime]
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)


class _ServerNow(FunctionElement[int]):
    type = BigInteger()
    inherit_cache = True


@compiles(_ServerNow, "postgresql")
def _postgresql(element: _ServerNow, compiler: SQLCompiler, **options: Any) -> str:
    return "CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000000 AS BIGINT)"


@compiles(_ServerNow, "mysql")
@compiles(_ServerNow, "mariadb")
def _mysql(element: _ServerNow, compiler: SQLCompiler, **options: Any) -> str:
    return "CAST(UNIX_TIMESTAMP(SYSDATE(6)) * 1000000 AS SIGNED)"


def stamp(conn: Connection, clock: Clock | None) -> ColumnElement[int]:
    """The present instant as an SQL expression, so that storing it needs no question of its own."""
    if clock is not None:
        return literal(to_micros(clock()), BigInteger)
    if conn.dialect.name == "sqlite":  # its clock is this machine's
        return literal(time.time_ns() // 1000, BigInteger)
    return _ServerNow()


def read(conn: Connection, clock: Clock | None) -> datetime:
    """The present instant as a value, UTC and aware."""
    return from_micros(conn.execute(select(stamp(conn, clock))).scalar_one())


def to_micros(moment: datetime) -> int:
    """Microseconds since 1970; a naive time is refused."""
    return (moment - EPOCH) // MICROSECOND


def from_micros(micros: int) -> datetime:
    """The aware UTC time of that many microseconds since 1970."""
    return EPOCH + timedelta(microseconds=micros)
