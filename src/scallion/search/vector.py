"""Embeddings of tools, compared with those of the query."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any

from langchain_core.embeddings import Embeddings

from scallion.errors import ConfigurationError
from scallion.search.entry import Entry, best, check_score
from scallion.search.words import spaced

_SENTENCE = re.compile(r"(?<=[.!?;])\s+|(?<=[。！？；])|\n+")
SHORTEST = 8
"""Characters of a sentence that is worth to be searched for by itself."""
MOST = 20
"""Sentences of a query that are."""
EXTRA = "pip install 'scallion[search]'"


class VectorIndex:
    """Find tools by what they mean.

    `embeddings`: any of langchain-core's; None takes the small ones of `wordllama`, which are in the package and need
    no network (`scallion[search]`). A query of several sentences is compared as a whole and sentence by sentence.
    A score is the cosine of the closest; tools below `min_score` (-1 to 1) do not fit. 0.2 is measured with the small
    embeddings; other ones have other scales.
    """

    def __init__(
        self, entries: Iterable[Entry], *, embeddings: Embeddings | None = None, min_score: float = 0.2
    ) -> None:
        if embeddings is not None and not isinstance(embeddings, Embeddings):
            raise ConfigurationError(f"embeddings is langchain-core's Embeddings, not {type(embeddings).__name__}")
        self._numpy = _numpy()
        self._embeddings = SmallEmbeddings() if embeddings is None else embeddings
        self._min_score = check_score("min_score", min_score)
        texts = {one.name: _text(one) for one in entries}
        self._names = list(texts)
        self._vectors = self._unit(self._embeddings.embed_documents(list(texts.values()))) if texts else None

    def search(self, query: str, limit: int) -> Sequence[str]:
        """Names of the tools that fit, the best first."""
        return best(self.scores(query), limit)

    def scores(self, query: str) -> dict[str, float]:
        """The score of each tool that fits."""
        if self._vectors is None or not query.strip():
            return {}
        asked = self._unit([self._embeddings.embed_query(part) for part in _parts(query)])
        cosines = (self._vectors @ asked.T).max(axis=1)
        fitting = (cosines >= self._min_score).nonzero()[0].tolist()
        return dict(zip((self._names[at] for at in fitting), cosines[fitting].tolist(), strict=True))

    def _unit(self, vectors: Sequence[Sequence[float]]) -> Any:
        """The vectors as rows of length one; a vector of zeros stays."""
        rows = self._numpy.asarray(vectors, dtype="float32")
        lengths = self._numpy.linalg.norm(rows, axis=1, keepdims=True)
        return rows / self._numpy.where(lengths, lengths, 1)


class SmallEmbeddings(Embeddings):
    """The 256-dimensional embeddings that `wordllama` brings along; nothing is downloaded."""

    def __init__(self) -> None:
        self._model = _wordllama()

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """One vector for each text."""
        vectors: list[list[float]] = self._model.embed(texts).tolist()
        return vectors

    def embed_query(self, text: str) -> list[float]:
        """The vector of the text."""
        return self.embed_documents([text])[0]


@cache
def _wordllama() -> Any:
    try:
        with _untouched_root():
            import wordllama
    except ImportError:
        raise ConfigurationError(f"the small embeddings are in an extra: {EXTRA}, or give embeddings=") from None
    return wordllama.WordLlama.load(cache_dir=os.path.dirname(wordllama.__file__), disable_download=True)


@contextmanager
def _untouched_root() -> Iterator[None]:
    """Keep the root logger as it is: importing wordllama sets the whole program to INFO, on stderr."""
    root = logging.getLogger()
    level, handlers = root.level, root.handlers[:]
    try:
        yield
    finally:
        root.setLevel(level)
        root.handlers[:] = handlers


def _numpy() -> Any:
    try:
        import numpy
    except ImportError:
        raise ConfigurationError(f"a vector index needs numpy: {EXTRA}") from None
    return numpy


def _text(one: Entry) -> str:
    return f"{spaced(one.name)}. {one.description} {' '.join(one.parameters)}"


def _parts(query: str) -> list[str]:
    """The query and its sentences."""
    sentences = [part for part in _SENTENCE.split(query) if len(part) > SHORTEST]
    return [query, *sentences[:MOST]] if len(sentences) > 1 else [query]
