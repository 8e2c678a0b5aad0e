"""Approvals as cards: what a decision is bound to, and after an edit what it changed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from scallion.inspect.bounds import Bounds, cut
from scallion.inspect.card import Argument, answer_of, changes, facts, heading, outcome_line
from scallion.inspect.escape import one_line
from scallion.inspect.html.markup import Markup, join, tag
from scallion.inspect.html.pieces import badge, left_out, more, said

if TYPE_CHECKING:
    from scallion.values import Approval


def card(approval: Approval, bounds: Bounds, *inside: Any) -> Markup:
    """The approval as a card; `inside` stands at its end."""
    return tag(
        "article",
        tag("header", tag("code", heading(approval), cls="call-name"), badge(approval.status), cls="head"),
        said(approval.description, bounds) if approval.description else None,
        _asked(approval, bounds),
        tag("p", outcome_line(approval), cls="verdict") if approval.decision is not None else None,
        tag("ul", (tag("li", one_line(one)) for one in facts(approval)), cls="small"),
        inside,
        cls=f"card {'open' if approval.status == 'pending' else ''}",
    )


def cards(approvals: Sequence[Approval], bounds: Bounds) -> Markup:
    """The approvals, one below the other."""
    shown = [card(one, bounds) for one in approvals[: bounds.items]]
    return join(shown, more(len(approvals) - len(shown), "approval"))


def _asked(approval: Approval, bounds: Bounds) -> Markup | None:
    answer = answer_of(approval)
    if answer is not None:
        return tag("blockquote", said(answer, bounds), cls="quote")
    return arguments(approval, bounds) if approval.args is not None else None


def arguments(approval: Approval, bounds: Bounds) -> Markup:
    """The arguments as a table; where an edit changed them, before and after."""
    told = changes(approval)
    if not told:
        return tag("p", "no arguments", cls="note")
    is_edited = any(one.differs for one in told)
    columns = ("argument", "asked", "approved") if is_edited else ("argument", "value")
    head = tag("tr", (tag("th", one, scope="col") for one in columns))
    rows = (tag("tr", _row(one, is_edited, bounds), cls="differs" if one.differs else "") for one in told)
    shown = [row for row, _ in zip(rows, range(bounds.items), strict=False)]
    drawn = tag("table", tag("thead", head), tag("tbody", shown), cls="table arguments")
    return join(tag("div", drawn, cls="wide"), more(len(told) - len(shown), "argument"))


def _row(one: Argument, is_edited: bool, bounds: Bounds) -> Iterator[Markup]:
    yield tag("th", one.name, scope="row")
    if not is_edited:
        yield tag("td", _value(one.before, bounds))
        return
    yield tag("td", tag("del", _value(one.before, bounds)) if one.differs else _value(one.before, bounds))
    yield tag("td", tag("ins", _value(one.after, bounds)) if one.differs else tag("span", "unchanged", cls="dim"))


def _value(value: str | None, bounds: Bounds) -> Markup:
    if value is None:
        return tag("span", "–", cls="dim")
    shown, note = cut(value, bounds.text)
    return join(tag("code", shown, dir="auto"), left_out(note))
