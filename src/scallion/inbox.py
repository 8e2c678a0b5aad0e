"""The inbox: approvals and sessions of a database, without the graphs, and without importing their libraries."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlalchemy.engine import URL, Engine

from scallion.sql.auditing import Audited
from scallion.sql.clock import Clock
from scallion.sql.closing import Closing
from scallion.sql.delivering import Telling
from scallion.sql.engines import Database
from scallion.sql.owners import Owned
from scallion.sql.resuming import Resuming
from scallion.sql.standing import Ruled
from scallion.sql.tables import tables
from scallion.sql.views import Approvals, Sessions

if TYPE_CHECKING:
    from sqlalchemy.ext.asyncio import AsyncEngine


class Inbox(Owned, Resuming, Audited, Ruled, Telling, Closing):
    """What waits for a person in a database, and the threads that it belongs to.

    Takes what SQLCheckpointer takes: a URL or engine; `schema` and `prefix` of its tables, the `key` of its values.
    """

    def __init__(
        self,
        url_or_engine: str | URL | Engine | AsyncEngine,
        *,
        key: Any = None,
        schema: str | None = None,
        prefix: str = "",
        auto_upgrade: bool | None = None,
        clock: Clock | None = None,
    ) -> None:
        self.database = Database(url_or_engine, tables(prefix, schema), key=key, auto_upgrade=auto_upgrade, clock=clock)
        self.approvals = Approvals(self.database)
        self.sessions = Sessions(self.database)
