"""Two runs side by side."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from typing import Any

from scallion.inspect.bounds import Bounds, as_json, ends
from scallion.inspect.figures import count
from scallion.inspect.html.approvals import cards
from scallion.inspect.html.markup import Markup, join, tag
from scallion.inspect.html.messages import conversation, message
from scallion.inspect.html.pieces import badge, code, header, left_out, more

Data = Mapping[str, Any]
Pair = tuple[Data | None, Data | None]
WORDS = 600
"""Texts of more words are shown one beside the other, without a mark at each word that differs."""
COST = 30_000
"""Words that are compared in all texts of a picture, and pairs of equal ones among them, which are what takes long."""
Word = tuple[str, str]
"""A word behind the space in front of it; the last one of a text is empty."""


class Budget:
    """What may still be spent on a picture: texts that would cost more than is left have no marks."""

    def __init__(self, left: int) -> None:
        self.left = left

    def allows(self, cost: int) -> bool:
        """Whether this is left; then it is spent. No single thing may have more than a fifth of the rest."""
        is_allowed = cost <= self.left // 5
        self.left -= cost if is_allowed else 0
        return is_allowed


def difference(one: Any, bounds: Bounds, names: tuple[str, str] = ("a", "b")) -> Markup:
    """Two conversations in two columns under these names; what both have goes over both."""
    pairs = list(_pairs(one.messages))
    first, missing, last = ends(pairs, bounds.messages)
    budget = Budget(COST)
    rows = ([_row(pair, bounds, budget) for pair in part] for part in (first, last))
    note = f"… {count(missing, 'row')} left out, {len(pairs):,} in all" if missing else ""
    gap = tag("tr", tag("td", left_out(note), colspan=2)) if missing else None
    head = tag("tr", (tag("th", side, scope="col") for side in names))
    body = tag("tbody", next(rows), gap, next(rows), _states(one, bounds))
    drawn = tag("table", tag("thead", head), body, cls="sides")
    same = badge("the same", "good") if not one else None
    return tag("section", same, tag("div", drawn, cls="wide"), cls="difference", aria_label="difference of two runs")


def rerun(one: Any, bounds: Bounds) -> Markup:
    """A turn that was run again beside the turn that it was."""
    names = (f"{one.original.thread} (original)", f"{one.session.thread} ({one.status})")
    return tag("section", header("Rerun", _status(one)), difference(one.difference, bounds, names), cls="rerun")


def runs(one: Any, bounds: Bounds) -> Markup:
    """A turn as several agents ran it, beside each other, the turn as it was in front."""
    made = list(one.runs.items())[: bounds.layers]
    head = tag("tr", (tag("th", name, scope="col") for name in (f"{one.original.thread} (original)", *dict(made))))
    cells = [_came(one.original, badge(one.original.status), bounds)]
    cells += [_came(run.turn, _status(run), bounds) for _, run in made]
    drawn = tag("table", tag("thead", head), tag("tbody", tag("tr", cells)), cls="sides")
    left = more(len(one.runs) - len(made), "run")
    return tag("section", tag("div", drawn, cls="wide"), left, cls="runs", aria_label="runs of a turn")


def _status(run: Any) -> Markup:
    return join(badge(run.status), tag("span", type(run.error).__name__, cls="dim") if run.error is not None else None)


def _came(turn: Any, status: Markup, bounds: Bounds) -> Markup:
    """What one agent made of the turn, without what it was sent."""
    if turn is None:
        return tag("td", status)
    return tag("td", status, conversation(turn.messages[len(turn.sent) :], bounds), cards(turn.approvals, bounds))


def _pairs(messages: Sequence[tuple[str, Data]]) -> Iterator[Pair]:
    """What only one side has, row by row beside what only the other has there."""
    ours: list[Data] = []
    theirs: list[Data] = []
    for side, data in [*messages, ("both", None)]:
        if side != "both":
            (ours if side == "a" else theirs).append(data)  # type: ignore[arg-type]
            continue
        longest = max(len(ours), len(theirs))
        yield from ((_at(ours, place), _at(theirs, place)) for place in range(longest))
        ours, theirs = [], []
        if data is not None:
            yield data, data


def _at(side: Sequence[Data], place: int) -> Data | None:
    return side[place] if place < len(side) else None


def _row(pair: Pair, bounds: Bounds, budget: Budget) -> Markup:
    one, other = pair
    if one is other and one is not None:
        return tag("tr", tag("td", message(one, bounds), colspan=2), cls="both")
    bodies: tuple[Markup | None, Markup | None] = (None, None)
    if one is not None and other is not None and _are_texts(one, other, bounds):
        bodies = _marked(one["content"], other["content"], budget)
    sides = zip(pair, bodies, ("a", "b"), strict=True)
    return tag("tr", (tag("td", _message(data, body, f"only {side}", bounds)) for data, body, side in sides))


def _message(data: Data | None, body: Markup | None, cls: str, bounds: Bounds) -> Markup | None:
    return None if data is None else message(data, bounds, cls=cls, body=body)


def _are_texts(one: Data, other: Data, bounds: Bounds) -> bool:
    """Whether both are the words of the same speaker, and short enough to be compared word by word."""
    texts = [side["content"] for side in (one, other)]
    is_short = all(isinstance(said, str) and len(said) <= bounds.text and len(said.split()) <= WORDS for said in texts)
    return is_short and one["role"] == other["role"] and not one["tool_calls"] and not other["tool_calls"]


def _marked(one: str, other: str, budget: Budget) -> tuple[Markup | None, Markup | None]:
    """Both texts, with marks around what the other lacks; None where it would take too long to find it."""
    a, b = (re.findall(r"(\s*)(\S+|$)", words) for words in (one, other))
    ours, theirs = ([word for _, word in side] for side in (a, b))
    counts = Counter(theirs)
    if not budget.allows(len(a) + len(b) + sum(counts[word] for word in ours)):
        return None, None
    found = SequenceMatcher(None, ours, theirs, autojunk=False).get_opcodes()
    left = (_part("del", kind, a[first:last], b[begin:end]) for kind, first, last, begin, end in found)
    right = (_part("ins", kind, b[begin:end], a[first:last]) for kind, first, last, begin, end in found)
    return tag("p", left, cls="said", dir="auto"), tag("p", right, cls="said", dir="auto")


def _part(name: str, kind: str, words: Sequence[Word], others: Sequence[Word]) -> Iterator[str]:
    """Words of one side: marked as a whole, or the spaces that are not those of the other side."""
    if kind != "equal":
        yield from (gap for gap, _ in words[:1])
        yield _piece(name, "".join(f"{gap}{word}" for gap, word in words).lstrip(), True)
        return
    for (gap, word), (other, _) in zip(words, others, strict=True):
        yield _piece(name, gap, gap != other and bool(gap and other))
        yield word


def _piece(name: str, words: str, differs: bool) -> str:
    return tag(name, words) if differs and words else words


def _states(one: Any, bounds: Bounds) -> Iterator[Markup]:
    """What both have of the shared state and of the filters' where it differs."""
    named = list(one.state.items())
    named += [(f"{name} {key}", pair) for name, keys in one.filter_state.items() for key, pair in keys.items()]
    for name, (a, b) in named[: bounds.items]:
        cells = (tag("td", tag("p", name, cls="caption"), code(as_json(value), bounds)) for value in (a, b))
        yield tag("tr", join(cells))
    if left := more(len(named) - bounds.items, "state"):
        yield tag("tr", tag("td", left, colspan=2))
