"""Conversations over time: a session by its turns, one turn, a step and what the thread held there, listings."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

from scallion.inspect.bounds import Bounds, ends, short
from scallion.inspect.conversation import text_of
from scallion.inspect.escape import one_line
from scallion.inspect.figures import count, duration, size
from scallion.inspect.html.approvals import card, cards
from scallion.inspect.html.markup import Markup, join, tag
from scallion.inspect.html.messages import conversation, folded_conversation
from scallion.inspect.html.pieces import badge, facts, folded, header, json_of, left_out, more, table, when
from scallion.inspect.reading import Talk, columns
from scallion.values import Approval

LINE = 100
"""Characters of a text that stands on one line."""


def session(one: Talk, bounds: Bounds) -> Markup:
    """A conversation: what is known of it, what waits for somebody, and its turns; the last one is open."""
    return tag(
        "section",
        header("Session", tag("code", one.thread), badge(one.row.status) if one.row else None),
        facts(_about(one.row)) if one.row else None,
        cards(one.pending, bounds),
        conversation(one.messages, bounds) if one.turns is None else _turns(one.turns, bounds),
        cls="session",
        aria_label="session",
    )


def _about(row: Any) -> Iterator[Any]:
    yield short(row.title, LINE) if row.title else None
    yield f"agent {row.agent}" if row.agent else None
    yield f"owner {row.owner}" if row.owner else None
    yield count(row.message_count, "message")
    yield f"{row.pending_count} pending" if row.pending_count else None
    yield join("last used ", when(row.updated))
    yield "archived" if row.archived else None
    yield from (join("#", tag_) for tag_ in row.tags)


def _turns(turns: Sequence[Any], bounds: Bounds) -> Markup:
    first, missing, last = ends(turns, bounds.items)
    note = left_out(f"… {count(missing, 'turn')} left out, {len(turns):,} in all" if missing else "")
    if not turns:
        return tag("p", "no turns yet", cls="note")
    newest = turns[-1].checkpoint
    shown = ([_folded_turn(one, bounds, one.checkpoint == newest) for one in part] for part in (first, last))
    return tag("div", next(shown), note, next(shown), cls="turns")


def _folded_turn(one: Any, bounds: Bounds, is_last: bool) -> Markup:
    asked = one_line(text_of(one.sent[0].content)[: LINE * 4]) if one.sent else ""
    came = one_line(one.answer[: LINE * 4]) if one.answer else ""
    summary = join(
        tag("span", short(asked, LINE), cls="what", dir="auto"),
        badge(one.status),
        tag("span", short(came, LINE), cls="dim preview", dir="auto"),
    )
    return folded(summary, turn_inside(one, bounds), is_open=is_last, cls="turn")


def turn(one: Any, bounds: Bounds) -> Markup:
    """One turn: what was sent, what came of it, what people were asked."""
    head = header("Turn", tag("code", one.id, cls="dim"), badge(one.status))
    return tag("section", head, turn_inside(one, bounds), cls="turn", aria_label="turn")


def turn_inside(one: Any, bounds: Bounds) -> Markup:
    """A turn without its heading."""
    took = (one.ended_at - one.began_at).total_seconds()
    told = [when(one.began_at), duration(max(took, 0.0)), f"by {one.user}" if one.user else None]
    return join(facts(told), conversation(one.messages, bounds), cards(one.approvals, bounds))


def state(one: Any, bounds: Bounds) -> Markup:
    """What a thread held at a step."""
    named = (("shared state", one.state), ("state of filters", one.filter_state))
    return tag(
        "section",
        step(one.step, bounds),
        folded_conversation(one.messages, bounds, is_open=True),
        (folded(name, json_of(value, bounds)) for name, value in named if value),
        cls="state",
        aria_label="state of a thread",
    )


def step(one: Any, bounds: Bounds) -> Markup:
    """One stored step, on one line."""
    left = None if one.current else badge("left behind by a rewind", "waiting")
    told = [when(one.at), f"by {one.source}", join("turn ", tag("code", one.turn)), join("id ", tag("code", one.id))]
    return header(f"Step {one.step}", left, facts(told))


def page(items: Sequence[Any], following: str | None, bounds: Bounds) -> Markup:
    """One page of a listing: approvals as cards, other things as a table."""
    shown = items[: bounds.items]
    if not items:
        drawn = tag("p", "nothing here", cls="note")
    elif all(isinstance(one, Approval) for one in items):
        drawn = join(card(one, bounds) for one in shown)
    else:
        names = columns(items)
        titles = [name.replace("_", " ") for name in names]
        drawn = table(titles, ([_cell(one, name) for name in names] for one in shown))
    note = left_out(f"there are more: after={following!r}" if following else "")
    return tag("section", drawn, more(len(items) - len(shown), "entry"), note, cls="page")


def _cell(one: Any, name: str) -> Any:
    value = getattr(one, name)
    if value is None or value == ():
        return ""
    if isinstance(value, datetime):
        return when(value)
    if name == "bytes":
        return tag("span", size(value), cls="number")
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    if name == "status":
        return badge(str(value))
    if isinstance(value, tuple):
        value = ", ".join(map(str, value))
    return short(one_line(str(value)[: LINE * 4]), LINE)
