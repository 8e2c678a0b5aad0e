"""Regular expressions over names and descriptions of tools, in time that is linear in the text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from scallion.errors import ConfigurationError
from scallion.search.entry import Entry

LONGEST = 1_000
"""Characters of a query: what is longer is no expression that a model meant."""


class RegexIndex:
    """Find tools whose name or description the query matches, as a regular expression in the syntax of RE2.

    The query comes from a model, so the engine is one that cannot be made slow (google-re2, from `scallion[search]`);
    without it a ConfigurationError is raised. A query that is no valid expression is looked for as it stands.
    """

    expects = "A regular expression (RE2) for names and descriptions of tools, such as `invoice|receipt`."

    def __init__(self, entries: Iterable[Entry], *, case_sensitive: bool = False) -> None:
        self._engine = _engine()
        self._options = self._engine.Options()
        self._options.log_errors = False
        self._options.case_sensitive = case_sensitive
        self._texts = sorted((one.name, one.description) for one in entries)

    def search(self, query: str, limit: int) -> Sequence[str]:
        """Names that match in the order of the alphabet, then those whose description does."""
        if not query:
            return []
        pattern = self._compiled(query[:LONGEST])
        by_name = [name for name, _ in self._texts if pattern.search(name)]
        if len(by_name) >= limit:
            return by_name[:limit]
        named = set(by_name)
        told = (name for name, description in self._texts if name not in named and pattern.search(description))
        return [*by_name, *(name for name, _ in zip(told, range(limit - len(by_name)), strict=False))]

    def _compiled(self, query: str) -> Any:
        try:
            return self._engine.compile(query, self._options)
        except self._engine.error:
            return self._engine.compile(self._engine.escape(query), self._options)


def _engine() -> Any:
    try:
        import re2
    except ImportError:
        raise ConfigurationError(
            "a regex index needs an engine that a model cannot make slow: pip install 'scallion[search]'"
        ) from None
    return re2
