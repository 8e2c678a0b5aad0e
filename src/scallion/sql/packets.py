"""The longest statement that MySQL and MariaDB take: they break the connection off on a longer one, and say no more."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, text
from sqlalchemy.exc import DBAPIError

from scallion.errors import StorageError

SUSPECT = 2**20
"""Bytes from where a statement that failed may have been too long; hardly a server allows less."""

MEGABYTE = 2**20
ESCAPED = b"\0\n\r\x1a\"'\\"
"""What the drivers write as two characters."""


def sent(conn: Connection, error: DBAPIError) -> int:
    """How many bytes the longest row of the failed statement took, where that may have been too many; otherwise 0."""
    if conn.dialect.name not in ("mysql", "mariadb"):
        return 0
    given: Any = error.params or ()
    longest = max(sum(map(_written, _values(row))) for row in (given if isinstance(given, list) else [given]))
    return longest if longest > SUSPECT else 0


def check(conn: Connection, sent: int) -> None:
    """Raise StorageError if the server cannot have taken so many bytes."""
    limit = int(conn.execute(text("SELECT @@max_allowed_packet")).scalar_one())
    if sent >= limit:
        raise StorageError(
            f"a value of {sent / MEGABYTE:.1f} MB is more than the server takes at once: nothing of this was stored; "
            f"its max_allowed_packet is {limit / MEGABYTE:.1f} MB, set that higher"
        )


def _values(row: Any) -> Any:
    return row.values() if isinstance(row, dict) else row


def _written(value: object) -> int:
    data = value.encode(errors="surrogatepass") if isinstance(value, str) else value
    return len(data) + sum(map(data.count, ESCAPED)) if isinstance(data, bytes | bytearray) else 0
