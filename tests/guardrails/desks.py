"""What the tests of guards do in another process."""

from __future__ import annotations

from typing import Any

from scallion import Agent, Completed, SQLCheckpointer, edit, filters
from scallion.testing import ScriptedModel


def releases(url: str, ends: Any) -> None:
    """A process that has never seen the turn edits its answer; it tells what it came to."""
    with SQLCheckpointer(url) as saver:
        model = ScriptedModel([])
        agent = Agent(model, filters=[filters.review_answer()], checkpointer=saver)
        result = agent.resume("t", edit({"answer": "mild"}), by="ana")
        assert isinstance(result, Completed)
        ends.put((result.answer, len(model.calls)))
