"""The fuzzer of token transforms finds what is wrong, with and without hypothesis."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scallion import ConfigurationError, TokenTransform, filters, token_transform
from scallion.testing import check_chunking, fuzz

PIECES = ["sk-", "sk-123", "123", " ", "a", "K", "\n"]
KEY = r"sk-\w+"


@pytest.fixture(params=["hypothesis", "random"])
def source(request: Any, monkeypatch: pytest.MonkeyPatch) -> str:
    """Where the examples come from."""
    if request.param == "random":
        monkeypatch.setattr(fuzz, "find_spec", lambda name: None)
    return request.param


def whole(text: str) -> str:
    return re.sub(KEY, "[KEY]", text)


def test_an_exact_transform_passes(source: str) -> None:
    """Alone, and behind another one."""
    check_chunking(filters.redact_tokens(KEY, "[KEY]"), whole, PIECES)
    first = TokenTransform(lambda token, state: ([token.text.lower()], state))
    check_chunking([first, filters.redact_tokens(KEY, "[KEY]")], lambda text: whole(text.lower()), PIECES, examples=50)


def test_one_that_looks_at_each_piece_by_itself_fails(source: str) -> None:
    """And what was delivered of which pieces is told."""

    @token_transform
    def each(token, state):
        return [whole(token.text)], state

    with pytest.raises(AssertionError, match=r"cut as \[.*\] it delivers '.*', the whole gives '.*KEY") as caught:
        check_chunking(each, whole, PIECES)
    if source == "hypothesis":
        assert len(re.findall(r"the whole gives '(.*)'", str(caught.value))[0]) <= len("[KEY]-")  # the smallest text


def test_one_that_forgets_its_end_fails(source: str) -> None:
    """What is held back at the end of the text is part of it."""
    held = TokenTransform(lambda token, state: ([state], token.text), init="")
    with pytest.raises(AssertionError, match="the whole gives"):
        check_chunking(held, str, PIECES)


def test_an_asynchronous_step_is_waited_for(source: str) -> None:
    async def step(token: Any, state: Any) -> Any:
        return [token.text.upper()], state

    check_chunking(TokenTransform(step), str.upper, ["a", "b"], examples=10)


def test_examples_are_the_same_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fuzz, "find_spec", lambda name: None)

    def texts(seed: int) -> list[str]:
        seen: list[str] = []
        same = TokenTransform(lambda token, state: ([token.text], state))
        check_chunking(same, lambda text: seen.append(text) or text, PIECES, seed=seed)
        return seen

    assert texts(1) == texts(1) != texts(2)


def test_what_cannot_be_fuzzed_is_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"transforms\[0\] has no token transform"):
        check_chunking(filters.approval(), str, PIECES)
    with pytest.raises(ConfigurationError, match="pieces are texts"):
        check_chunking(filters.redact_tokens("a", "b"), str, [])


@settings(max_examples=5, deadline=None)
@given(st.sampled_from(["[KEY]", "[SECRET]"]))
def test_it_may_be_called_in_a_test_of_hypothesis(word: str) -> None:
    """Which makes the smallest example itself; what is wrong is found there too."""
    check_chunking(filters.redact_tokens(KEY, word), lambda text: re.sub(KEY, word, text), PIECES, examples=5)
    each = TokenTransform(lambda token, state: ([re.sub(KEY, word, token.text)], state))
    with pytest.raises(AssertionError, match="the whole gives"):
        check_chunking(each, lambda text: re.sub(KEY, word, text), PIECES)
