"""A value as one piece of HTML, with its style, that a notebook can show as it is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from scallion.inspect.bounds import SMALLER, Bounds
from scallion.inspect.html import agent, approvals, difference, results, sessions, timeline
from scallion.inspect.html.markup import Markup, join, tag
from scallion.inspect.html.theme import style

LARGEST = 400_000
"""Characters of a picture; what would be larger is drawn again with less in it."""

DRAWN: Mapping[str, Callable[[Any, Bounds], Markup]] = {
    "agent": agent.agent,
    "approval": approvals.card,
    "completed": results.completed,
    "difference": difference.difference,
    "page": lambda one, bounds: sessions.page(one.items, one.next, bounds),
    "paused": results.paused,
    "rerun": difference.rerun,
    "row": lambda one, bounds: sessions.page([one], None, bounds),
    "runs": difference.runs,
    "session": sessions.session,
    "state": sessions.state,
    "step": sessions.step,
    "trace": timeline.timeline,
    "turn": sessions.turn,
}
"""What draws each kind of value."""


def fragment(kind: str, value: Any) -> Markup:
    """The picture of a value without a style, small enough for an output."""
    for bounds in SMALLER:
        drawn = DRAWN[kind](value, bounds)
        if len(drawn) <= LARGEST:
            return drawn
    return tag("p", "too large to be shown", cls="note")


def document(*fragments: Markup) -> Markup:
    """Pictures with the style that they need, as one output."""
    return Markup(f'<div class="scallion"><style>{style()}</style>{join(*fragments)}</div>')
