"""The pieces that all pictures are made of: badges, cut texts, JSON, lists of facts, tables, what folds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from scallion.inspect.bounds import Bounds, as_json, cut
from scallion.inspect.figures import count, moment
from scallion.inspect.html.markup import Markup, join, tag

TONES = {
    "completed": "good", "used": "good", "idle": "plain", "success": "good", "approve": "good",
    "paused": "waiting", "pending": "waiting", "decided": "good", "running": "changed", "open": "waiting",
    "failed": "bad", "error": "bad", "cancelled": "bad", "expired": "bad", "closed": "bad", "reject": "bad",
}  # fmt: skip
"""The tone of a status; any other is plain."""


def badge(word: str, tone: str | None = None) -> Markup:
    """A status as a small label, whose word says what its colour does."""
    return tag("span", word, cls=f"badge {tone or TONES.get(word, 'plain')}")


def said(words: str, bounds: Bounds) -> Markup:
    """What somebody wrote: its own line breaks, its own direction, cut with a note."""
    shown, note = cut(words, bounds.text)
    return join(tag("p", shown, cls="said", dir="auto"), left_out(note))


def code(words: str, bounds: Bounds) -> Markup:
    """Text of a program, cut with a note."""
    shown, note = cut(words, bounds.text)
    return join(tag("pre", shown, cls="code", tabindex="0"), left_out(note))


def json_of(value: Any, bounds: Bounds) -> Markup:
    """A value as JSON."""
    return code(as_json(value), bounds)


def left_out(note: str) -> Markup | None:
    """The note of what is not shown; nothing where all is."""
    return tag("p", note, cls="note") if note else None


def facts(told: Iterable[Any]) -> Markup:
    """Small facts in one line, with dots between."""
    return tag("p", (tag("span", one, cls="fact") for one in told if one), cls="facts")


def header(name: Any, *beside: Any) -> Markup:
    """What it is, and what stands beside that."""
    return tag("header", tag("span", name, cls="name"), beside, cls="head")


def folded(summary: Any, *inside: Any, is_open: bool = False, cls: str = "") -> Markup:
    """Something that opens when its summary is clicked."""
    return tag("details", tag("summary", summary, cls="sum"), inside, cls=f"fold {cls}".strip(), open=is_open)


def table(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> Markup:
    """A table with its columns named."""
    head = tag("tr", (tag("th", one, scope="col") for one in columns))
    body = (tag("tr", (tag("td", cell) for cell in row)) for row in rows)
    drawn = tag("table", tag("thead", head), tag("tbody", body), cls="table")
    return tag("div", drawn, cls="wide", tabindex="0", role="group")


def more(left: int, thing: str) -> Markup | None:
    """The note of things that are left out."""
    return left_out(f"… {count(left, thing)} not shown" if left > 0 else "")


def when(at: datetime) -> Markup:
    """A time, which a program can read too."""
    return tag("time", moment(at), datetime=at.isoformat())
