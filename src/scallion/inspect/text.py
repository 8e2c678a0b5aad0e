"""A value as plain text: what a notebook stores beside the picture, and a terminal shows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from scallion.inspect.bounds import Bounds, as_json, cut, ends, short
from scallion.inspect.card import card_lines, heading, outcome_line
from scallion.inspect.conversation import call_line, message_data, speaker, text_of
from scallion.inspect.escape import one_line, printable
from scallion.inspect.figures import count, moment
from scallion.inspect.reading import INNERMOST, Talk, columns, limits, tools, usage
from scallion.inspect.rows import timeline_text
from scallion.values import Approval, Completed, Paused

SMALL = Bounds(text=600, messages=12, items=20, spans=60)
LINE = 100


def plain(kind: str, value: Any) -> str:
    """The value as text; nothing in it can move a cursor or hide a word."""
    return "\n".join(TOLD[kind](value))


def _completed(one: Completed) -> Iterator[str]:
    yield _head("Completed", one, usage(one.usage))
    yield from _cut(one.answer)
    yield from _trace(one)


def _paused(one: Paused) -> Iterator[str]:
    waits = [count(len(one.approvals), "approval"), f"{one.queued} queued" if one.queued else ""]
    yield _head("Paused", one, waits)
    yield from _cards(one.approvals)
    yield from _trace(one)


def _head(name: str, one: Any, told: Sequence[str]) -> str:
    return one_line(" · ".join(filter(None, (name, f"thread {one.thread}" if one.thread else "", *told))))


def _trace(one: Any) -> Iterator[str]:
    if getattr(one.trace, "parts", None):
        yield timeline_text(one.trace, SMALL)


def _approval(one: Approval) -> Iterator[str]:
    yield one_line(f"{heading(one)} · {one.status}")
    for line in card_lines(one):
        yield from (f"  {part}" for part in _cut(line))


def _cards(approvals: Sequence[Approval]) -> Iterator[str]:
    for one in approvals[: SMALL.items]:
        yield from _approval(one)
    yield from _more(len(approvals) - SMALL.items, "approval")


def _talk(messages: Sequence[Any]) -> Iterator[str]:
    first, missing, last = ends(messages, SMALL.messages)
    for part in (first, last):
        for one in part:
            yield from message_lines(message_data(one))
        if part is first and missing:
            yield f"… {count(missing, 'message')} left out"


def message_lines(data: Mapping[str, Any]) -> Iterator[str]:
    """A message under its speaker."""
    made = data["tool_calls"]
    calls = (f"calls {short(call_line(call), LINE)}" for call in made[: SMALL.items])
    said = [*_cut(text_of(data["content"]).strip()), *calls, *_more(len(made) - SMALL.items, "call")]
    yield from (f"{speaker(data)}: {line}" for line in said or [""])


def _turn(one: Any) -> Iterator[str]:
    by = f" · by {one.user}" if one.user else ""
    yield one_line(f"Turn {one.id} · {one.status} · {moment(one.began_at)}{by}")
    yield from (f"  {line}" for line in _talk(one.messages))
    for asked in one.approvals[: SMALL.items]:
        yield f"  {one_line(f'asked {heading(asked)}: {outcome_line(asked) or asked.status}')}"
    yield from (f"  {note}" for note in _more(len(one.approvals) - SMALL.items, "approval"))


def _session(one: Talk) -> Iterator[str]:
    told = [f"Session {one.thread}"]
    if one.row:
        told += [one.row.status, one.row.title or "", count(one.row.message_count, "message")]
    yield one_line(" · ".join(filter(None, told)))
    if one.turns is None:
        yield from _talk(one.messages)
    first, missing, last = ends(one.turns or (), SMALL.items)
    for part in (first, last):
        yield from map(_turn_line, part)
        if part is first and missing:
            yield f"… {count(missing, 'turn')} left out"
    yield from _cards(one.pending)


def _turn_line(one: Any) -> str:
    asked = text_of(one.sent[0].content) if one.sent else ""
    came = f" → {short(one_line(one.answer[:400]), LINE)}" if one.answer else ""
    return f"{one.status:<9} {short(one_line(asked[:400]), LINE)}{came}"


def _state(one: Any) -> Iterator[str]:
    yield from _step(one.step)
    yield from _talk(one.messages)
    for name, value in (("state", one.state), ("filter_state", one.filter_state)):
        if value:
            yield from _cut(f"{name} {as_json(value)}")


def _step(one: Any) -> Iterator[str]:
    left = "" if one.current else " · left behind by a rewind"
    yield one_line(f"Step {one.step} · {moment(one.at)} · by {one.source} · turn {one.turn} · {one.id}{left}")


def _page(one: Any) -> Iterator[str]:
    if not one.items:
        yield "nothing here"
    names = columns(one.items)
    for item in one.items[: SMALL.items]:
        yield _entry(item, names)
    yield from _more(len(one.items) - SMALL.items, "entry")
    if one.next:
        yield f"there are more: after={one.next!r}"


def _entry(item: Any, names: Sequence[str]) -> str:
    if isinstance(item, Approval):
        return one_line(f"{item.status:<8} {heading(item)} · thread {item.thread} · {item.id}")
    told = ((name, getattr(item, name)) for name in names[:8])
    return one_line(" · ".join(f"{name}={short(_word(value), 60)}" for name, value in told))


def _word(value: Any) -> str:
    return moment(value) if isinstance(value, datetime) else str(value)


def _agent(one: Any) -> Iterator[str]:
    yield one_line(f"Agent {one.name}")
    for chain, names in one.layers.items():
        yield f"  {one_line(f'{chain}: ' + ' > '.join([*names, INNERMOST[chain]]))}"
    if names := [tool.name for tool in tools(one)]:
        yield f"  tools: {one_line(short(', '.join(names), 400))}"
    if told := limits(one):
        yield f"  limits: {', '.join(told)}"


def _cut(text: str) -> Iterator[str]:
    shown, note = cut(text, SMALL.text)
    if shown:
        yield from printable(shown).split("\n")
    if note:
        yield note


def _more(left: int, thing: str) -> Iterator[str]:
    if left > 0:
        yield f"… {count(left, thing)} not shown"


def _as_repr(one: Any) -> Iterator[str]:
    """What is a text of many lines itself."""
    lines = printable(repr(one)).split("\n")
    first, missing, last = ends(lines, 120)
    yield from (short(line, LINE * 4) for line in first)
    yield from _more(missing, "line")
    yield from (short(line, LINE * 4) for line in last)


TOLD: Mapping[str, Callable[[Any], Iterator[str]]] = {
    "agent": _agent,
    "approval": _approval,
    "completed": _completed,
    "difference": _as_repr,
    "page": _page,
    "paused": _paused,
    "rerun": _as_repr,
    "row": lambda one: iter([_entry(one, columns([one]))]),
    "runs": _as_repr,
    "session": _session,
    "state": _state,
    "step": _step,
    "trace": lambda one: iter([timeline_text(one, SMALL)]),
    "turn": _turn,
}
"""What tells of each kind of value."""
