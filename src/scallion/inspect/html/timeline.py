"""The timeline of a trace: the onion nested, who changed or blocked what, durations as bars."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from scallion.inspect.bounds import Bounds
from scallion.inspect.figures import duration
from scallion.inspect.html.markup import Markup, join, tag
from scallion.inspect.html.pieces import badge, facts, header
from scallion.inspect.rows import MARKS, Row, RowKind, rows, totals

if TYPE_CHECKING:
    from scallion.tracing import Trace

DEEPEST = 24
"""Steps of indentation; what is deeper stands below the last one."""
WORDS: Mapping[RowKind, str] = {
    "part": "part of the turn",
    "attempt": "run of the loop",
    "model": "model call",
    "tool": "tool call",
    "layer": "filter",
    "asked": "asked somebody",
    "note": "note",
}


def timeline(trace: Trace, bounds: Bounds) -> Markup:
    """The trace of one turn."""
    status, *told = totals(trace)
    return tag(
        "section",
        header("Turn", tag("code", trace.turn, cls="dim"), badge(status), facts(told)),
        tag("div", (_row(one, int(one.kind == "asked")) for one in rows(trace, bounds)), cls="timeline"),
        cls="trace",
        aria_label="timeline of a turn",
    )


def _row(row: Row, depth: int) -> Markup:
    cells = join(_label(row, depth), _bar(row), _took(row))
    cls = f"row of-{row.kind} {row.tone}"
    if not row.inside:
        return tag("div", cells, cls=cls)
    return tag("details", tag("summary", cells, cls=cls), (_row(one, depth + 1) for one in row.inside), open=True)


def _label(row: Row, depth: int) -> Markup:
    return tag(
        "span",
        tag(
            "span",
            MARKS[row.kind],
            cls="mark",
            aria_label=WORDS.get(row.kind),
            role="img" if row.kind in WORDS else None,
        ),
        tag("span", tag("span", row.name, cls="what"), _notes(row.notes), cls="told"),
        cls="label",
        style=f"--sca-depth:{min(depth, DEEPEST)}",
    )


def _notes(notes: Sequence[str]) -> Markup:
    return join(join(" ", tag("span", one, cls="did")) for one in notes)


def _bar(row: Row) -> Markup:
    if row.kind in ("asked", "note"):
        return tag("span", cls="bar none")
    begin, width = f"{row.begin * 100:.2f}%", f"{row.width * 100:.2f}%"
    return tag("span", tag("span", cls="span", style=f"margin-left:{begin};width:{width}"), cls="bar")


def _took(row: Row) -> Markup:
    told = "" if row.seconds is None else duration(row.seconds)
    return tag("span", f"after {told}" if told and row.kind == "asked" else told, cls="took")
