"""The trace of a turn as values: what it did, in which order, how long that took, what the layers made of it.

It has names, numbers and shapes, and no content: no text of a message, no argument, no result. What was asked of people
stands in the approvals, what was said in the messages of the thread.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal

from scallion.shown import Shown, brief

if TYPE_CHECKING:
    from scallion.values import Approval

SpanKind = Literal["attempt", "model", "tool", "layer"]
SpanStatus = Literal["ok", "error", "paused", "cancelled"]
PartStatus = Literal["completed", "paused", "failed", "cancelled"]


@dataclass(frozen=True, slots=True)
class Span:
    """Something that took time: an attempt (one run of the loop), a model call, a tool call, or a layer that acted."""

    kind: SpanKind
    name: str
    """The model, the tool or the filter; of an attempt its number."""
    at: float
    """Seconds from the beginning of the part."""
    seconds: float
    status: SpanStatus = "ok"
    error: str | None = None
    """The class of the exception that it raised, or the kind of a tool's failure."""
    hook: str | None = None
    """Of a layer: "around_turn", "around_chat" or "around_tool"."""
    actions: Sequence[str] = ()
    """Of a layer, what it did, in order: as `FilterActed.action`, "raised", "paused", and what guards did."""
    change: Sequence[str] = ()
    """Of a layer, what differs between what it was given and what it made of it: shapes and names, never content."""
    calls: int = 1
    """Of a layer: how often it called `next`."""
    call_id: str | None = None
    """Of a tool: the id of the call."""
    tokens: Mapping[str, int] = field(default_factory=dict)
    """Of a model call: "input" and "output"."""
    cost: float | None = None
    """Of a model call, where a table of prices is known."""
    inside: Sequence[Span] = ()
    """What happened within it, in the order in which it began."""

    def walk(self) -> Iterator[Span]:
        """This span and all inside of it."""
        yield self
        for one in self.inside:
            yield from one.walk()


@dataclass(frozen=True, slots=True)
class Part:
    """What one call of the agent did of a turn: from the message or a resume to the answer, a pause or a failure."""

    began_at: datetime
    seconds: float
    status: PartStatus
    spans: Sequence[Span] = ()
    error: str | None = None
    """The class of the exception that ended it."""
    asked: Sequence[str] = ()
    """The ids of the approvals that it paused for."""
    omitted: int = 0
    """How many spans are left out, as there were too many."""
    answered: Sequence[str] = ()
    """The ids of the approvals whose decisions it went on with."""
    tokens: Mapping[str, int] = field(default_factory=dict)
    """Of the model calls that are left out: "input" and "output"."""
    cost: float | None = None
    """Of the model calls that are left out, where a table of prices is known."""


@dataclass(frozen=True, slots=True, repr=False)
class Trace(Shown, drawn_as="trace"):
    """What happened in one turn, over its pauses, in whichever processes. Times are UTC and aware."""

    thread: str | None
    turn: str
    parts: Sequence[Part] = ()
    approvals: Sequence[Approval] = ()
    """What people were asked in the turn, with what they decided so far."""

    @property
    def status(self) -> PartStatus | None:
        """How its last part ended; None where nothing is recorded."""
        return self.parts[-1].status if self.parts else None

    @property
    def began_at(self) -> datetime | None:
        """When it began; None where nothing is recorded."""
        return self.parts[0].began_at if self.parts else None

    @property
    def seconds(self) -> float:
        """How long its parts took: not what was before the first, as opening the database, nor the wait for people."""
        return sum(part.seconds for part in self.parts)

    @property
    def tokens(self) -> dict[str, int]:
        """The tokens of all model calls: "input" and "output"."""
        told = self._calls()[0]
        return {name: told.get(name, 0) for name in ("input", "output")}

    @property
    def cost(self) -> float | None:
        """What the model calls cost; None where no price is known."""
        return self._calls()[1]

    def _calls(self) -> tuple[dict[str, int], float | None]:
        """Tokens and costs of all calls: those that have a span, and those that are left out."""
        told: list[Span | Part] = [*self.of("model"), *self.parts]
        return sums((one.tokens, one.cost) for one in told)

    def of(self, kind: SpanKind) -> list[Span]:
        """All spans of a kind."""
        return [one for one in self.walk() if one.kind == kind]

    def walk(self) -> Iterator[Span]:
        """All spans, each before those inside of it."""
        for part in self.parts:
            for one in part.spans:
                yield from one.walk()

    def __repr__(self) -> str:
        counts = {"parts": len(self.parts), "spans": sum(1 for _ in self.walk()), "approvals": len(self.approvals)}
        return brief(self, thread=self.thread, turn=self.turn, **counts)

    def to_json(self) -> dict[str, Any]:
        """Plain data, times as ISO 8601 texts."""
        return {
            "thread": self.thread,
            "turn": self.turn,
            "status": self.status,
            "parts": [{**_plain(part), "spans": [_span(one) for one in part.spans]} for part in self.parts],
            "approvals": [one.to_json() for one in self.approvals],
        }


def sums(calls: Iterable[tuple[Mapping[str, int], float | None]]) -> tuple[dict[str, int], float | None]:
    """The tokens of these calls, by kind, and what they cost; None where none of them has a price."""
    tokens: dict[str, int] = {}
    costs = []
    for told, cost in calls:
        for name, number in told.items():
            tokens[name] = tokens.get(name, 0) + number
        if cost is not None:
            costs.append(cost)
    return tokens, sum(costs) if costs else None


def _span(one: Span) -> dict[str, Any]:
    return {**_plain(one), "inside": [_span(inner) for inner in one.inside]}


def _plain(one: Part | Span) -> dict[str, Any]:
    told = {name: getattr(one, name) for name in one.__slots__ if name not in ("spans", "inside")}
    return {name: value.isoformat() if isinstance(value, datetime) else value for name, value in told.items()}
