"""Tools that belong to the library."""

from __future__ import annotations

from langchain_core.tools import tool

from scallion.approvals.forms import EXPIRED
from scallion.filters.effects import idempotency_key
from scallion.filters.pausing import pause
from scallion.filters.tool_search import tool_search


@tool
def ask_human(question: str) -> str:
    """Ask a person a question and wait for the answer. Use it when only a person can know or decide."""
    decision = pause(question, kind="question", allowed=("respond",))
    if decision.type == EXPIRED:
        return "The question expired: nobody answered it in time."
    answer = decision.message
    return answer if isinstance(answer, str) else str(answer)


ask_human.metadata = {"pauses": True}

__all__ = ["ask_human", "idempotency_key", "tool_search"]
