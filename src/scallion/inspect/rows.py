"""A trace as rows: the reading that the picture, the terminal and the text of a timeline have in common."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Literal

from scallion.inspect.bounds import BOUNDS, Bounds, short
from scallion.inspect.card import Argument, changes, decider, heading
from scallion.inspect.escape import one_line
from scallion.inspect.figures import amount, count, duration, moment, tokens

if TYPE_CHECKING:
    from scallion.tracing import Part, Span, Trace
    from scallion.values import Approval

VALUE = 60
"""Characters of an argument that an edit changed."""
RowKind = Literal["part", "attempt", "model", "tool", "layer", "asked", "note"]
Tone = Literal["plain", "good", "changed", "waiting", "bad"]
BLOCKED = {"block", "deny_by_rule", "raised", "reject"}
"""What a layer did that kept something from going on; `short_circuit` may be a cache's doing as well as a guard's."""


@dataclass(frozen=True, slots=True)
class Row:
    """One line of a timeline. `begin` and `width` place its bar: parts of the time of the part, from 0 to 1."""

    kind: RowKind
    name: str
    notes: Sequence[str] = ()
    tone: Tone = "plain"
    begin: float = 0.0
    width: float = 0.0
    seconds: float | None = None
    inside: Sequence[Row] = ()

    def walk(self, depth: int = 0) -> Iterator[tuple[int, Row]]:
        """This row and all inside of it, with how deep they are."""
        yield depth, self
        for row in self.inside:
            yield from row.walk(depth + 1)


@dataclass(slots=True)
class _Left:
    """How many spans may still be shown."""

    spans: int
    omitted: int = 0


def rows(trace: Trace, bounds: Bounds = BOUNDS) -> list[Row]:
    """A row for each part of the turn, with what happened in it inside, and behind it what people were first asked."""
    asked = {one.id: one for one in trace.approvals}
    left = _Left(bounds.spans)
    found: list[Row] = []
    shown: set[str] = set()
    for number, part in enumerate(trace.parts, 1):
        new = [id for id in part.asked if id not in shown]  # what a resume left undecided is asked again with the part
        shown.update(new)
        found.append(_part(number, part, left, len(part.asked) - len(new)))
        found += [_asked(id, asked.get(id)) for id in new]
    return found


def totals(trace: Trace) -> list[str]:
    """What the turn came to: status, active time, calls, tokens, cost, and how often it waited for somebody."""
    if not trace.parts:
        return ["nothing recorded"]
    told = [trace.parts[-1].status, duration(trace.seconds)]
    told += [count(len(found), f"{kind} call") for kind in ("model", "tool") if (found := trace.of(kind))]
    attempts = len({one.name for one in trace.of("attempt")})  # one that paused goes on in the next part
    told += [count(attempts, "attempt")] if attempts > 1 else []
    told += [f"tokens {used}"] if (used := tokens(trace.tokens)) else []
    told += [f"cost {amount(trace.cost)}"] if trace.cost is not None else []
    return told + ([count(waits, "pause")] if (waits := sum(bool(part.asked) for part in trace.parts)) else [])


def _part(number: int, part: Part, left: _Left, still: int) -> Row:
    began, before = [moment(part.began_at)], left.omitted
    inside = _spans(part.spans, part.seconds, left)
    if missing := left.omitted - before:
        inside.append(Row("note", f"{count(missing, 'span')} not shown"))
    if part.omitted:
        inside.append(Row("note", f"{count(part.omitted, 'span')} not recorded"))
    ended = [part.status, *([part.error] if part.error else [])]
    ended += [f"{still} still open"] if still else []
    tone: Mapping[str, Tone] = {"completed": "good", "paused": "waiting", "failed": "bad", "cancelled": "bad"}
    return Row("part", f"part {number}", [*began, *ended], tone[part.status], 0.0, 1.0, part.seconds, inside)


def _spans(spans: Sequence[Span], whole: float, left: _Left) -> list[Row]:
    found: list[Row] = []
    for span in spans:
        if left.spans <= 0:
            left.omitted += sum(1 for _ in span.walk())
            continue
        left.spans -= 1
        found.append(_span(span, whole, left))
    return found


def _span(span: Span, whole: float, left: _Left) -> Row:
    begin, width = _place(span.at, whole), _place(span.seconds, whole)
    name = f"attempt {span.name}" if span.kind == "attempt" else span.name
    return Row(
        kind=span.kind,
        name=name,
        notes=list(_notes(span)),
        tone=_tone(span),
        begin=begin,
        width=min(width, 1.0 - begin),
        seconds=span.seconds,
        inside=_spans(span.inside, whole, left),
    )


def _place(seconds: float, whole: float) -> float:
    return min(max(seconds / whole, 0.0), 1.0) if whole > 0 else 0.0


def _notes(span: Span) -> Iterator[str]:
    for action, same in groupby(span.actions):
        times = max(sum(1 for _ in same), span.calls - 1 if action == "retry" else 0)
        yield action if times == 1 else f"{action} ×{times}"
    if span.kind == "layer" and span.calls > 1 and "retry" not in span.actions:
        yield f"{span.calls} calls"
    yield from span.change
    if used := tokens(span.tokens):
        yield used
    if span.cost is not None:
        yield f"cost {amount(span.cost)}"
    if span.status != "ok" and span.status not in span.actions:
        yield span.status
    if span.error:
        yield span.error


def _tone(span: Span) -> Tone:
    if span.status in ("error", "cancelled"):
        return "bad"
    if span.status == "paused":
        return "waiting"
    if BLOCKED.intersection(span.actions):
        return "bad"
    return "changed" if span.kind == "layer" and (span.actions or span.change) else "plain"


def _asked(id: str, approval: Approval | None) -> Row:
    if approval is None:
        return Row("asked", f"approval {id}", ["not kept any more"], "waiting")
    notes = list(_decided(approval)) if approval.decision else [_open(approval)]
    tone: Tone = "waiting"
    if approval.decision is not None:
        tone = "bad" if approval.decision.type in ("reject", "stop", "expired") else "good"
    elif approval.status != "pending":
        tone = "bad"
    return Row("asked", heading(approval), notes, tone, seconds=_waited(approval))


def _open(approval: Approval) -> str:
    return "waits for a decision" if approval.status == "pending" else approval.status


def _decided(approval: Approval) -> Iterator[str]:
    decision = approval.decision
    assert decision is not None
    yield decider(approval)
    if decision.type == "edit":
        yield from (_change(one) for one in changes(approval) if one.differs)


def _change(one: Argument) -> str:
    before, after = (short("–" if value is None else value, VALUE) for value in (one.before, one.after))
    return f"{one.name}: {before} → {after}"


def _waited(approval: Approval) -> float | None:
    if approval.created_at is None or approval.decided_at is None:
        return None
    return max((approval.decided_at - approval.created_at).total_seconds(), 0.0)


# As lines of a terminal

MARKS: Mapping[RowKind, str] = {
    "part": "▸",
    "attempt": "↻",
    "model": "◆",
    "tool": "●",
    "layer": "○",
    "asked": "?",
    "note": "…",
}
LABEL, BAR = 64, 24
"""Columns."""


@dataclass(frozen=True, slots=True)
class Line:
    """A row as text in columns; nothing in it can move a cursor."""

    row: Row
    depth: int
    label: str
    notes: str
    bar: str
    took: str


def lines(trace: Trace, bounds: Bounds = BOUNDS) -> list[Line]:
    """The timeline as lines."""
    return [_line(row, depth) for top in rows(trace, bounds) for depth, row in top.walk(top.kind == "asked")]


def _line(row: Row, depth: int) -> Line:
    notes = " · ".join(one_line(note) for note in row.notes)
    took = "" if row.seconds is None else duration(row.seconds)
    if row.kind == "asked" and took:
        took = f"after {took}"
    return Line(row, depth, f"{MARKS[row.kind]} {one_line(row.name)}", notes, _bar(row), took)


def _bar(row: Row) -> str:
    if row.kind in ("asked", "note"):
        return ""
    begin = min(int(row.begin * BAR), BAR - 1)
    return " " * begin + "━" * max(round(row.width * BAR), 1)


def title(trace: Trace) -> str:
    """Which turn it is, of which thread."""
    thread = f" of thread {trace.thread}" if trace.thread else ""
    return one_line(f"Turn {trace.turn}{thread}")


def timeline_text(trace: Trace, bounds: Bounds = BOUNDS) -> str:
    """The timeline as plain text: the totals, then a line for each row with its bar and duration."""
    found = lines(trace, bounds)
    told = [f"{'  ' * line.depth}{line.label}  {line.notes}".rstrip() for line in found]
    wide = min(max(map(len, told), default=0), LABEL)
    drawn = [_columns(label, line, wide) for label, line in zip(told, found, strict=True)]
    return "\n".join([title(trace), " · ".join(totals(trace)), *drawn])


def _columns(label: str, line: Line, wide: int) -> str:
    return f"{short(label, wide):<{wide}}  {line.bar:<{BAR}} {line.took:>9}".rstrip()
