"""BM25 over names, descriptions and parameters of tools."""

from __future__ import annotations

import heapq
import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from itertools import chain

from scallion.search.entry import Entry, best, check_score
from scallion.search.words import query_words, words

K1, B = 2.0, 0.5
"""How much a word gains by coming again, and how much a long text loses: measured, see the docs on tool search."""
NAME, DESCRIPTION, PARAMETERS = 3.0, 1.0, 0.5
"""How often a word counts where it stands."""
RAREST = 4
"""So many of the query's words are taken as what a tool has to have: a long query is mostly talk."""


class KeywordIndex:
    """Find tools by their words.

    A score is the share of what the four rarest words of the query could give; tools below `min_score` (0 to 1 and
    more) do not fit. 0.1 loses no tool that is found otherwise in the benchmark, and finds nothing for two thirds of
    the requests that have no tool.
    """

    def __init__(self, entries: Iterable[Entry], *, min_score: float = 0.1) -> None:
        texts = {one.name: _weights(one) for one in entries}
        holders = Counter(chain.from_iterable(texts.values()))
        mean = sum(map(_length, texts.values())) / max(len(texts), 1)
        self._min_score = check_score("min_score", min_score)
        self._rarity = {word: _rarity(len(texts), count) for word, count in holders.items()}
        self._unknown = _rarity(len(texts), 0)
        self._gains: dict[str, list[tuple[str, float]]] = defaultdict(list)
        for name, text in texts.items():
            slowness = K1 * (1 - B + B * _length(text) / mean) if mean else K1
            for word, weight in text.items():
                gain = self._rarity[word] * weight * (K1 + 1) / (weight + slowness)
                self._gains[word].append((name, gain))

    def search(self, query: str, limit: int) -> Sequence[str]:
        """Names of the tools that fit, the best first."""
        return best(self.scores(query), limit)

    def scores(self, query: str) -> dict[str, float]:
        """The score of each tool that fits."""
        asked = query_words(query)
        gained: dict[str, float] = defaultdict(float)
        for word in asked:
            for name, gain in self._gains.get(word, ()):
                gained[name] += gain
        whole = sum(heapq.nlargest(RAREST, (self._rarity.get(word, self._unknown) for word in asked)))
        return {name: score for name, gain in gained.items() if (score := gain / whole) >= self._min_score}


def _weights(one: Entry) -> dict[str, float]:
    """How often each word counts in the texts of a tool."""
    found: dict[str, float] = defaultdict(float)
    for weight, text in ((NAME, one.name), (DESCRIPTION, one.description), (PARAMETERS, " ".join(one.parameters))):
        for word in words(text):
            found[word] += weight
    return found


def _length(weights: dict[str, float]) -> float:
    return sum(weights.values())


def _rarity(texts: int, holders: int) -> float:
    """The inverse document frequency of BM25, in the form that is never negative."""
    return math.log(1 + (texts - holders + 0.5) / (holders + 0.5))
