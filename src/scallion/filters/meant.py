"""Which filter is meant by a name that is none: a mistake in typing, or the name that a neighbour has for it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from difflib import get_close_matches

NEIGHBOURS = {
    "after_agent": "after_turn",
    "after_model": "after_chat",
    "before_agent": "before_turn",
    "before_model": "before_chat",
    "context_editing": "trim",
    "guardrail": "safeguard",
    "human_in_the_loop": "approval",
    "llm_tool_selector": "tool_search",
    "model_call_limit": "limit_calls",
    "model_fallback": "fallback",
    "model_retry": "retry_model",
    "open_ai_moderation": "moderation",
    "rag": "retrieve",
    "retries": "retry_model",
    "retry": "retry_model",
    "schema_validation_turn": "validate_schema",
    "structured_output_retry": "validate_schema",
    "summarization": "summarise",
    "todo_list": "todo",
    "token_redact": "redact_tokens",
    "tool_call_limit": "limit_calls",
    "tool_retry": "retry_tool",
    "tool_selection": "tool_search",
    "validation_turn": "validate_answer",
    "wrap_model_call": "around_chat",
    "wrap_tool_call": "around_tool",
}
"""The names of LangChain, BeamWeaver, beamai and Arc, as `plain` writes them."""


def no_such_filter(name: str, there: Sequence[str]) -> AttributeError:
    """The error of a name that is none of those that are there, with the one that is meant."""
    if name.startswith("_"):
        return AttributeError(f"module 'scallion.filters' has no attribute {name!r}")
    meant = _meant(_plain(name), there)
    told = f"did you mean filters.{meant}?" if meant else f"there are {', '.join(sorted(filter(str.islower, there)))}"
    # With an object, and without a name, Python does not add what it believes to be meant.
    return AttributeError(f"there is no filters.{name}{': ' if meant else '; '}{told}", obj=None)


def _meant(name: str, there: Sequence[str]) -> str | None:
    found = NEIGHBOURS.get(name, name)
    if found in there:
        return found
    close = get_close_matches(name, there, 1, cutoff=0.75)
    return close[0] if close else None


def _plain(name: str) -> str:
    """The name in snake case, without the word for what it is."""
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()
    return re.sub(r"_(middleware|filter)$", "", words)
