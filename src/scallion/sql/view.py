"""A view of a database: of everybody's things, or of one owner's; and what it changes, maybe under a lease."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Self

from sqlalchemy import Connection

from scallion.sql import clock, leases, owners
from scallion.sql.engines import Database
from scallion.sql.leases import Lease


@dataclass(frozen=True, repr=False)
class View:
    """What is seen of a database."""

    database: Database
    owner: str | None = None

    def __repr__(self) -> str:
        return f"{type(self).__name__}({'' if self.owner is None else f'owner={self.owner!r}'})"

    def for_owner(self, owner: str) -> Self:
        """The same view of what belongs to `owner` only; another owner's things are unknown to it."""
        return replace(self, owner=owners.narrow(self.owner, owner))

    def _scope(self, owner: str | None) -> str | None:
        return self.owner if owner is None else owners.narrow(self.owner, owner)

    def _now(self, conn: Connection) -> Any:
        return clock.stamp(conn, self.database.clock)


@dataclass(frozen=True, repr=False)
class Leased(View):
    """What a turn may change only while it holds the thread."""

    lease: Lease | None = None

    def under(self, lease: Lease) -> Self:
        """The same for a turn that holds this lease: what changes anything raises LeaseLost when it is lost."""
        return replace(self, lease=lease)

    def _check_lease(self, conn: Connection) -> None:
        leases.check(conn, self.database.tables, self.lease)
