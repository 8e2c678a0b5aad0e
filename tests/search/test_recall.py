"""What is found in public catalogues of tools, against the figures of a neighbour."""

from __future__ import annotations

import pytest
from benchmarks.catalogues import CATALOGUES, FLOORS, SHARED, Catalogue, PlainIndex, catalogue, nothing_fits
from langchain_core.utils.function_calling import convert_to_openai_function

from scallion.search import HybridIndex, KeywordIndex
from scallion.tools import tool_search

pytestmark = [pytest.mark.shared, pytest.mark.skipif(not SHARED.exists(), reason="needs the folder shared")]


@pytest.mark.parametrize("name", CATALOGUES)
def test_recall_of_words(name: str) -> None:
    """Not below the floors, nor below plain BM25; and little is sent for it."""
    given = catalogue(name)
    plain, words = (given.found(kind(given.entries)) for kind in (PlainIndex, KeywordIndex))
    for limit, floor in zip((5, 10), FLOORS[name], strict=True):
        assert given.recall(words, limit) >= max(floor, given.recall(plain, limit))
    search_tool, _ = tool_search([])
    assert given.saved(words, convert_to_openai_function(search_tool)) > 0.95


@pytest.mark.slow
@pytest.mark.parametrize("name", CATALOGUES)
def test_meaning_takes_nothing_away(name: str) -> None:
    """Words and meaning together find no less than words alone; of the largest catalogue every third request."""
    given = catalogue(name)
    some = Catalogue(given.tools, given.requests[:: 3 if len(given.tools) > 2_000 else 1])
    words, both = (some.found(kind(some.entries)) for kind in (KeywordIndex, HybridIndex))
    for limit in (5, 10):
        assert some.recall(both, limit) >= some.recall(words, limit)


def test_nothing_fits() -> None:
    """Most requests that no tool fits get none; the neighbour finds one for most of them."""
    assert nothing_fits(KeywordIndex) > 0.6
    assert nothing_fits(HybridIndex) > 0.5
    assert nothing_fits(PlainIndex) < 0.3


@pytest.mark.parametrize("name", CATALOGUES)
def test_every_tool_is_found_by_its_name(name: str) -> None:
    """Whatever its schema is like."""
    given = catalogue(name)
    search_tool, _ = tool_search(list(given.tools.values()), max_results=1, tool_name="find-a-tool")
    for tool in list(given.tools)[::40]:
        assert search_tool.invoke({"query": tool}) == f'["{tool}"]'
