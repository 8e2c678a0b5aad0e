"""Words as an index compares them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scallion.search.words import query_words, spaced, stem, words


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("canvas_create_edge", ["canva", "creat", "edge"]),
        ("getHTTPServer", ["get", "http", "server"]),
        ("list-open.pull/requests", ["list", "open", "pull", "request"]),
        ("sha256sum", ["sha", "256", "sum"]),
        ("GrößeÄndern", ["grösse", "ändern"]),
        ("please show me the orders of a user", ["show", "order", "user"]),
        ("ＦＵＬＬ　width", ["full", "width"]),
        ("", []),
    ],
)
def test_identifiers_are_split_and_stop_words_left_out(text: str, found: list[str]) -> None:
    """In any of the ways in which names of tools are put together."""
    assert words(text) == query_words(text) == found


@pytest.mark.parametrize(
    "forms",
    [
        ("email", "emails"),
        ("query", "queries"),
        ("box", "boxes"),
        ("update", "updates", "updated", "updating"),
        ("calculate", "calculator", "calculation", "calculating"),
        ("run", "running"),
        ("retrieve", "retrieval"),
        ("replace", "replacement"),
        ("match", "matches", "matching"),
        ("translate", "translation", "translations"),
    ],
)
def test_forms_of_a_word_are_one(forms: tuple[str, ...]) -> None:
    """Defect 26 of the seeds: "emails" found nothing."""
    assert len({stem(form) for form in forms}) == 1


@pytest.mark.parametrize(
    "pair", [("address", "add"), ("status", "state"), ("sing", "s"), ("bed", "b"), ("moment", "mo"), ("real", "re")]
)
def test_different_words_stay_different(pair: tuple[str, str]) -> None:
    """Lightly means that much is left alone."""
    assert stem(pair[0]) != stem(pair[1])


def test_unspaced_scripts_are_cut_into_pairs() -> None:
    """A text has the single characters too, so that a query of one finds it; a longer query asks for pairs only."""
    assert words("天气预报") == ["天", "气", "预", "报", "天气", "气预", "预报"]
    assert query_words("天气") == ["天气"]
    assert query_words("雨") == ["雨"]
    assert query_words("查询 weather 天气") == ["查询", "weather", "天气"]
    assert query_words("พยากรณ์")[:2] == ["พย", "ยา"]


def test_an_identifier_is_read_out() -> None:
    """For embeddings, which know words."""
    assert spaced("create_edge") == "create edge"
    assert spaced("getHTTPServer") == "get HTTP Server"


@given(st.text())
def test_any_text_has_words(text: str) -> None:
    """A query comes from a model: nothing in it is an error, and every word asked for can be found in the same text."""
    assert set(query_words(text)) <= set(words(text))


@given(st.from_regex("[a-z]{1,12}", fullmatch=True))
def test_a_stem_is_not_empty(word: str) -> None:
    """And no longer than the word."""
    assert 1 <= len(stem(word)) <= len(word)
