"""Where a listing of checkpoints is, which reads page after page and holds nothing open in between."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from langchain_core.runnables import RunnableConfig

from scallion.errors import ConfigurationError
from scallion.sql import names
from scallion.sql.checkpoints import StoredCheckpoint

LISTED = 20
"""How many checkpoints are read at a time."""


class Walk:
    """Where a listing is: what it asks for, what was read last, how many are still wanted."""

    def __init__(
        self,
        config: RunnableConfig | None,
        filter: Mapping[str, Any] | None,
        before: RunnableConfig | None,
        limit: int | None,
    ) -> None:
        place = names.configurable(config or {})
        last = names.configurable(before or {})
        if not isinstance(limit, int | None) or not isinstance(filter, Mapping | None):
            raise ConfigurationError("`limit` is a number, and `filter` a mapping of metadata, or None")
        self.filter = filter or {}
        self.left = limit
        self.is_open = limit is None or limit > 0
        self.arguments: dict[str, Any] = {
            "thread": names.text("thread id", place["thread_id"]) if "thread_id" in place else None,
            "ns": names.optional("checkpoint namespace", place.get("checkpoint_ns")),
            "id": names.optional("checkpoint id", place.get("checkpoint_id")),
            "before": names.optional("checkpoint id", last.get("checkpoint_id")),
            "after": None,
            "limit": LISTED,
        }

    def chosen(self, page: Sequence[StoredCheckpoint]) -> Sequence[StoredCheckpoint]:
        """Those of the page that the listing wants."""
        fit = [row for row in page if all(row.metadata.get(key) == value for key, value in self.filter.items())]
        return fit[: self.left]

    def go_on(self, page: Sequence[StoredCheckpoint], chosen: int) -> None:
        """Remember where the next page begins. Not part of reading one, which may happen twice."""
        if self.left is not None:
            self.left -= chosen
        self.is_open = len(page) == LISTED and self.left != 0
        self.arguments["after"] = page[-1] if page else None
