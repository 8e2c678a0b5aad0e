"""What everything that holds a database has: it closes, and is a context manager of both kinds."""

from __future__ import annotations

from typing import Self

from scallion.sql.engines import Database


class Closing:
    """Holds a database."""

    database: Database

    def close(self) -> None:
        """Close the connections; every later use raises Closed."""
        self.database.close()

    async def aclose(self) -> None:
        """As `close`."""
        await self.database.aclose()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.aclose()
