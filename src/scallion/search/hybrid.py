"""Words and meaning together."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from langchain_core.embeddings import Embeddings

from scallion.search.entry import Entry, best, check_score
from scallion.search.keyword import KeywordIndex
from scallion.search.vector import VectorIndex


class HybridIndex:
    """Find tools by their words and by what they mean.

    The scores of both indexes are added, each divided by the best of its kind. A tool fits if one of them says so:
    `min_words` is the keyword index's `min_score`, `min_meaning` the vector index's.
    """

    def __init__(
        self,
        entries: Iterable[Entry],
        *,
        embeddings: Embeddings | None = None,
        min_words: float = 0.1,
        min_meaning: float = 0.3,
    ) -> None:
        given = list(entries)
        self._words = KeywordIndex(given, min_score=0)
        self._meaning = VectorIndex(given, embeddings=embeddings, min_score=0)
        self._min_words = check_score("min_words", min_words)
        self._min_meaning = check_score("min_meaning", min_meaning)

    def search(self, query: str, limit: int) -> Sequence[str]:
        """Names of the tools that fit, the best first."""
        words, meaning = self._words.scores(query), self._meaning.scores(query)
        fitting = {name for name, score in words.items() if score >= self._min_words}
        fitting |= {name for name, score in meaning.items() if score >= self._min_meaning}
        of_words, of_meaning = _of_best(words), _of_best(meaning)
        return best({name: of_words(name) + of_meaning(name) for name in fitting}, limit)


def _of_best(scores: Mapping[str, float]) -> Callable[[str], float]:
    """What share of the best score a tool has."""
    top = max(scores.values(), default=0) or 1
    return lambda name: scores.get(name, 0) / top
