"""What a turn came to: an answer, or what it waits for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scallion.inspect.bounds import Bounds
from scallion.inspect.figures import count
from scallion.inspect.html.approvals import cards
from scallion.inspect.html.markup import Markup, join, tag
from scallion.inspect.html.messages import folded_conversation
from scallion.inspect.html.pieces import badge, facts, folded, header, json_of, said
from scallion.inspect.html.timeline import timeline
from scallion.inspect.reading import usage

if TYPE_CHECKING:
    from scallion.values import Completed, Paused


def completed(one: Completed, bounds: Bounds) -> Markup:
    """A turn that came to its answer."""
    attempts = count(one.attempts, "attempt") if one.attempts > 1 else None
    named = (("parsed", one.parsed), ("state of filters", _filled(one) or None))
    return tag(
        "section",
        _head("Completed", one, "completed", [*usage(one.usage), attempts]),
        said(one.answer, bounds) if one.answer else tag("p", "an empty answer", cls="note"),
        _traced(one, bounds),
        folded_conversation(one.messages, bounds),
        (folded(name, json_of(value, bounds)) for name, value in named if value is not None),
        cls="completed",
        aria_label="a completed turn",
    )


def paused(one: Paused, bounds: Bounds) -> Markup:
    """A turn that waits for a person."""
    waits = [count(len(one.approvals), "approval"), f"{one.queued} queued" if one.queued else None]
    return tag(
        "section",
        _head("Paused", one, "paused", waits),
        cards(one.approvals, bounds),
        _traced(one, bounds),
        folded_conversation(one.messages, bounds) if one.messages else None,
        cls="paused",
        aria_label="a turn that waits for a person",
    )


def _head(name: str, one: Any, status: str, told: list[str | None]) -> Markup:
    thread = join("thread ", tag("code", one.thread)) if one.thread else None
    return header(name, badge(status) if name.lower() != status else None, facts([thread, *told]))


def _traced(one: Any, bounds: Bounds) -> Markup | None:
    return timeline(one.trace, bounds) if getattr(one.trace, "parts", None) else None


def _filled(one: Completed) -> dict[str, Any]:
    return {name: state for name, state in one.filter_state.items() if state}
