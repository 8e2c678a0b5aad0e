"""A name that is no filter says which one is meant."""

from __future__ import annotations

import traceback

import pytest

from scallion import filters


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("aproval", "approval"),
        ("summarize", "summarise"),
        ("retry_models", "retry_model"),
        ("PIIMiddleware", "pii"),
        ("HumanInTheLoopMiddleware", "approval"),
        ("ModelCallLimitMiddleware", "limit_calls"),
        ("TodoListMiddleware", "todo"),
        ("wrap_model_call", "around_chat"),
        ("before_agent", "before_turn"),
        ("safeguard_filter", "safeguard"),
        ("ValidateAnswer", "validate_answer"),
        ("retries", "retry_model"),
    ],
)
def test_the_filter_that_is_meant_is_named(given: str, meant: str) -> None:
    """A mistake in typing, another spelling, the name that a neighbour has for it."""
    with pytest.raises(AttributeError, match=rf"^there is no filters\.{given}: did you mean filters\.{meant}\?"):
        getattr(filters, given)


def test_python_adds_no_suggestion_of_its_own() -> None:
    """It would say the same twice, or another one."""
    for name in ("retry_tools", "retries"):
        with pytest.raises(AttributeError) as refused:
            getattr(filters, name)
        assert "".join(traceback.format_exception(refused.value)).lower().count("did you mean") == 1


def test_what_is_like_no_filter_is_told_where_they_are() -> None:
    """Without a guess; and whoever asks for an attribute that may be missing is not disturbed."""
    with pytest.raises(AttributeError, match=r"there is no filters\.qqq; there are after_chat, .*validate_schema"):
        filters.qqq
    assert not hasattr(filters, "__wrapped__")
    with pytest.raises(ImportError):
        from scallion.filters import nothing_like_it  # noqa: F401
