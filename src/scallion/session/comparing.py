"""What differs between two conversations, as plain data and as text."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from itertools import groupby, zip_longest
from typing import Any, Literal

from langchain_core.messages import BaseMessage
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from scallion.inspect.conversation import call_line, message_data, speaker, text_of
from scallion.inspect.escape import one_line, printable
from scallion.session.as_data import as_data
from scallion.session.beside import NARROWEST, WIDTH, cells
from scallion.shown import Shown

Side = Literal["both", "a", "b"]
MARKS: Mapping[Side, str] = {"both": " ", "a": "-", "b": "+"}
IDS = ("id", "tool_call_id")
"""What two runs of the same thing never have in common."""
STORED = JsonPlusSerializer(pickle_fallback=True)
"""Tells two values apart by what a database would hold of them."""


@dataclass(frozen=True, slots=True, repr=False)
class Difference(Shown, drawn_as="difference"):
    """Two conversations side by side; `repr` shows them as lines of `a` (-), of `b` (+) and of both.

    `messages`: pairs of the side that has it, "a", "b" or "both", and the message as plain data. Messages are the same
    if they say the same: ids do not count. `answers`: the two answers, None where there is none. `state`: by name, what
    both have of the shared state where that differs. `filter_state`: the same of the filters' private states, by filter
    and key.
    """

    messages: Sequence[tuple[Side, Mapping[str, Any]]]
    answers: tuple[str | None, str | None]
    state: Mapping[str, tuple[Any, Any]] = field(default_factory=dict)
    filter_state: Mapping[str, Mapping[str, tuple[Any, Any]]] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.state or self.filter_state) or any(side != "both" for side, _ in self.messages)

    def __repr__(self) -> str:
        lines = [f"{MARKS[side]} {line}" for side, one in self.messages for line in _lines(one)]
        for name, (one, other) in self._states():
            lines += [f"{MARKS['a']} {name}: {one}", f"{MARKS['b']} {name}: {other}"]
        return "\n".join(lines) or "no messages"

    def side_by_side(self, *, names: tuple[str, str] = ("a", "b"), width: int = WIDTH) -> str:
        """Both in columns under these names: `|` between what differs, `<` or `>` beside what only one has."""
        half = max(NARROWEST, (width - 3) // 2)
        lines = [*cells(names, (half, half), "   "), "-" * (2 * half + 3)]
        for gap, *texts in [*self._pairs(), *(("|", *_stated(name, pair)) for name, pair in self._states())]:
            lines += cells(texts, (half, half), f" {gap} ")
        return "\n".join(lines)

    def _states(self) -> Iterator[tuple[str, tuple[str, str]]]:
        for name, (one, other) in self.state.items():
            yield one_line(f"state {name}"), (_shown(one), _shown(other))
        for filter, keys in self.filter_state.items():
            for name, (one, other) in keys.items():
                yield one_line(f"filter {filter} {name}"), (_shown(one), _shown(other))

    def _pairs(self) -> Iterator[tuple[str, str, str]]:
        """The messages in two columns; those that replace each other stand in the same line."""
        for both, group in groupby(self.messages, key=lambda one: one[0] == "both"):
            parts = [(side, "\n".join(_lines(data))) for side, data in group]
            if both:
                yield from ((" ", text, text) for _, text in parts)
                continue
            columns = ([text for side, text in parts if side == wanted] for wanted in ("a", "b"))
            for one, other in zip_longest(*columns):
                yield ("<" if other is None else ">" if one is None else "|"), one or "", other or ""

    def to_json(self) -> dict[str, Any]:
        """Data that JSON can hold, whatever the states hold: bytes in base64, what JSON has not as text."""
        return {
            "messages": as_data([{"in": side, **one} for side, one in self.messages]),
            "answers": as_data(self.answers),
            "state": as_data(self.state),
            "filter_state": as_data(self.filter_state),
        }


@dataclass(frozen=True, slots=True)
class Compared:
    """One of two sides."""

    messages: Sequence[BaseMessage]
    answer: str | None
    state: Mapping[str, Any] | None = None
    """The shared state; None where it is not known."""
    filter_state: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """The private states of the filters, if the shared state is known."""


def compare(a: Compared, b: Compared) -> Difference:
    """What differs between the two."""
    state, filters = {}, {}
    if a.state is not None and b.state is not None:
        state = _differs(a.state, b.state)
        named = sorted({*a.filter_state, *b.filter_state})
        both = {one: _differs(a.filter_state.get(one) or {}, b.filter_state.get(one) or {}) for one in named}
        filters = {name: keys for name, keys in both.items() if keys}
    return Difference(list(_aligned(a.messages, b.messages)), (a.answer, b.answer), state, filters)


def _differs(a: Mapping[str, Any], b: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    pairs = {name: (a.get(name), b.get(name)) for name in sorted({*a, *b}, key=str)}
    return {name: pair for name, pair in pairs.items() if not _same(*pair)}


def _same(one: Any, other: Any) -> bool:
    """Whether both are stored alike: True is not 1, NaN is itself, and what `==` does not tell, as arrays, is told."""
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(_same(value, other[name]) for name, value in one.items())
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(_same, one, other))
    return _tells(lambda: one == other) or _tells(lambda: STORED.dumps_typed(one) == STORED.dumps_typed(other))


def _tells(compared: Callable[[], Any]) -> bool:
    try:
        return compared() is True
    except Exception:  # values of anybody's classes: a run that is done is not lost over what differs
        return False


def _shown(value: Any) -> str:
    return one_line(repr(value))


def _stated(name: str, pair: tuple[str, str]) -> Iterator[str]:
    yield from (f"{name}: {value}" for value in pair)


def _aligned(a: Sequence[Any], b: Sequence[Any]) -> Iterator[tuple[Side, Mapping[str, Any]]]:
    ours, theirs = list(map(message_data, a)), list(map(message_data, b))
    one, other = list(map(_said, ours)), list(map(_said, theirs))
    for _, first, last, begin, end in SequenceMatcher(None, one, other, autojunk=False).get_opcodes():
        if one[first:last] == other[begin:end]:
            yield from (("both", data) for data in ours[first:last])
            continue
        yield from (("a", data) for data in ours[first:last])
        yield from (("b", data) for data in theirs[begin:end])


def _said(data: Mapping[str, Any]) -> str:
    """What the message says, without ids."""
    calls = [{name: part for name, part in call.items() if name not in IDS} for call in data["tool_calls"]]
    plain = {name: value for name, value in data.items() if name not in IDS}
    return json.dumps(as_data({**plain, "tool_calls": calls}), sort_keys=True)


def _lines(data: Mapping[str, Any]) -> Iterator[str]:
    text = printable(text_of(data["content"])).strip()
    said = [*text.splitlines(), *(f"calls {call_line(call)}" for call in data["tool_calls"])]
    yield from (f"{speaker(data)}: {line}" for line in said or [""])
