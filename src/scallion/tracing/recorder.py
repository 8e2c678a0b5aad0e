"""Recording what happens in a turn, while it happens.

Each call into a layer has a `Trail`, and so has each innermost call. When it ends it becomes a span in the trail around
it, if the layer did something; otherwise what happened inside of it goes there. Recording fails no turn and keeps no
message: a trail holds names and numbers.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple

from scallion.errors import FilterError, ModelError
from scallion.tracing.difference import MOST, cut, differ, difference
from scallion.tracing.trace import Part, PartStatus, Span, SpanKind, SpanStatus, sums

if TYPE_CHECKING:
    from scallion.filters.journal import Frame

SPANS = 500
"""How many spans a part has at most."""
ACTIONS = 16
"""How many actions of one call into a layer are told."""
NO_LAYER = ("", "clearance")
"""What frames are called that are no filter's: the innermost call, and the last check in front of a tool."""
log = logging.getLogger("scallion.tracing")
_began = attrgetter("at")
_AN_ID = re.compile(r"[\w.:|+/=-]{1,100}", re.ASCII)


class Trail:
    """One call into a layer, while it runs: what it did, and what happened within it."""

    __slots__ = ("actions", "at", "calls", "change", "counts", "spans")

    def __init__(self, at: float) -> None:
        self.at = at
        self.counts: bool | None = None
        """Whether there is room for its span; None as long as it has not taken its place."""
        self.spans: list[Span] = []
        self.actions: list[str] = []
        self.change: list[str] = []
        self.calls = 0
        """How many `next` calls it made; those that were made before a pause do not count."""

    def note(self, action: str, change: Iterable[str] = (), *, again: bool = True) -> None:
        """The layer did something; unless it may be told `again`, once is enough."""
        if (again or action not in self.actions) and len(self.actions) < ACTIONS:
            self.actions.append(action)
        self.change += [one for one in change if one not in self.change][: MOST - len(self.change)]

    def inside(self) -> tuple[Span, ...]:
        """What happened within it, in the order in which it began."""
        spans = self.spans
        return tuple(spans if len(spans) < 2 else sorted(spans, key=_began))


class Room:
    """How many spans a part has, those included that have begun. What is left out of it is summed up.

    One that holds others takes its place when it begins, so that those are left out which began last.
    """

    __slots__ = ("calls", "omitted", "taken")

    def __init__(self) -> None:
        self.taken = self.omitted = 0
        self.calls: list[tuple[Mapping[str, int], float | None]] = []
        """Tokens and costs of the model calls that are left out."""

    def take(self) -> bool:
        """Whether there is room for one more."""
        if self.taken < SPANS:
            self.taken += 1
            return True
        self.omitted += 1
        return False

    def give_back(self, had: bool | None) -> None:
        """There is no such span after all; `had`: what `take` said."""
        if had:
            self.taken -= 1
        elif had is not None:
            self.omitted -= 1


class Ended(NamedTuple):
    """A part of this turn that has come to its end. `goes_on`: it is not the first one.

    `has_steps`: whether anything of the turn is stored; else it failed before its first step.
    """

    turn: str
    part: Part
    goes_on: bool
    has_steps: bool = True


class Recorder:
    """Records one part of a turn; of an agent inside of a tool of another one, what has its place in that tool's span.

    `prices`: as `filters.usage` takes them. It may be told from several threads at once.
    """

    __slots__ = ("_began_at", "_zero", "prices", "room", "root", "within")

    def __init__(
        self, prices: Mapping[str, Mapping[str, float]], around: Recorder | None = None, place: Trail | None = None
    ) -> None:
        self.prices = prices
        self._began_at = datetime.now(UTC)
        self._zero: float = time.monotonic() if around is None else around._zero
        self.room: Room = Room() if around is None else around.room
        self.root = self.within = place or Trail(0.0)
        """`within`: where that has its place what happens in the nodes of the graph: the attempt that runs."""

    def now(self) -> float:
        """Seconds from the beginning of the part, in whole microseconds."""
        return round(time.monotonic() - self._zero, 6)

    def _since(self, at: float) -> float:
        return round(time.monotonic() - self._zero - at, 6)

    def enter(self, frame: Frame) -> None:
        """A call into a layer, or an innermost one, begins."""
        frame.trail = Trail(self.now())

    def going_on(self, frame: Frame, request: Any) -> None:
        """The layer calls `next`, for the first time: not again after a pause."""
        try:
            trail = _trail(frame)
            if trail.counts is None and frame.layer not in NO_LAYER:
                trail.counts = self.room.take()
            if frame.asks_itself(request):
                trail.note("asked", again=False)
                return
            trail.calls += 1
            if frame.nexts - frame.asides > 1:
                trail.note("retry", again=False)
            if request is not frame.request:
                self._changed(frame, trail, request)
        except Exception as error:
            _lost(error)

    def _changed(self, frame: Frame, trail: Trail, request: Any) -> None:
        before = frame.request
        if getattr(request, "ended", None) is not getattr(before, "ended", None):
            trail.note("short_circuit", again=False)
        elif (change := difference(before, request)) or differ(before, request):
            trail.note("changed_request", change, again=False)

    def leave(self, frame: Frame, around: Trail | None, reply: Any, error: BaseException | None) -> None:
        """The call ended with this reply, or raised; it has its place in the trail `around` it."""
        trail, around = frame.trail, around or self.within
        if trail is None:
            return
        try:
            span = None if frame.layer in NO_LAYER else self._layer(frame, trail, reply, error)
        except Exception as failure:  # what happened inside of it is not lost with it
            _lost(failure)
            span = None
        around.spans += trail.spans if span is None else (span,)

    def _layer(self, frame: Frame, trail: Trail, reply: Any, error: BaseException | None) -> Span | None:
        """The span of a layer; None where it did nothing, or there are too many."""
        status, raised = ending(error, paused=frame.paused)
        if status == "ok":
            self._replied(frame, trail, reply)
        elif isinstance(error, Exception) and status == "error" and error is not frame.failed:
            trail.note("raised")
        if not trail.actions:
            self.room.give_back(trail.counts)
            return None
        if not (self.room.take() if trail.counts is None else trail.counts):
            return None
        return Span(
            "layer", cut(frame.layer), trail.at, self._since(trail.at), status, raised, frame.run.wire.hook,
            tuple(trail.actions), tuple(trail.change), trail.calls, call_id(frame.request), inside=trail.inside(),
        )  # fmt: skip

    def _replied(self, frame: Frame, trail: Trail, reply: Any) -> None:
        given = [one for one, _, _ in (frame.done or {}).values()]
        if frame.nexts == frame.asides or not given:  # it did not call `next`, or did not wait for what that gives
            trail.note("short_circuit", again=False)
        elif all(reply is not one for one in given):
            change = difference(given[-1], reply)
            if change or differ(given[-1], reply):
                trail.note("changed_reply", change)

    def note(self, frame: Frame | None, layer: str, action: str, change: Iterable[str] = ()) -> None:
        """A filter did something, in its own frame or in that of who asks it."""
        if layer in NO_LAYER:
            return
        try:
            if frame is not None and frame.trail is not None and frame.layer == layer:
                frame.trail.note(action, change)
                return
            place = self.within if frame is None or frame.trail is None else frame.trail
            hook, call = (None, None) if frame is None else (frame.run.wire.hook, call_id(frame.request))
            trail = Trail(self.now())
            trail.note(action, change)
            about: dict[str, Any] = {"hook": hook, "actions": (action,), "change": tuple(trail.change), "call_id": call}
            if action == "paused":
                about["status"] = "paused"
            self.add(place, "layer", layer, trail.at, **about)
        except Exception as failure:
            _lost(failure)

    def add(self, place: Trail, kind: SpanKind, name: str, at: float, **about: Any) -> None:
        """Something that began `at` this time has ended now. `about`: the other fields of the span."""
        if self.room.take():
            place.spans.append(Span(kind, cut(name), at, self._since(at), **about))
        elif kind == "model":
            self.room.calls.append((about.get("tokens", {}), about.get("cost")))

    def close(self, place: Trail, kind: SpanKind, name: str, at: float, counts: bool, **about: Any) -> None:
        """As `add`, of that within which all happened that is in the place; it `counts` if there was room for it."""
        if counts:
            place.spans = [Span(kind, cut(name), at, self._since(at), **about, inside=place.inside())]

    def part(
        self,
        status: PartStatus,
        error: str | None = None,
        asked: Sequence[str] = (),
        answered: Sequence[str] = (),
    ) -> Part:
        """All of it."""
        room, (tokens, cost) = self.room, sums(self.room.calls)
        about: dict[str, Any] = {"asked": tuple(asked), "answered": tuple(answered), "tokens": tokens, "cost": cost}
        return Part(self._began_at, self.now(), status, self.root.inside(), error, omitted=room.omitted, **about)


def _trail(frame: Frame) -> Trail:
    assert frame.trail is not None
    return frame.trail


def _lost(error: Exception) -> None:
    """A turn goes on where its trace fails: with what was recorded."""
    log.warning("a part of a trace is lost: %s", type(error).__name__)


def ending(error: BaseException | None, *, paused: bool = False) -> tuple[SpanStatus, str | None]:
    """How something ended that raised this, or a pause, and the class of what was raised."""
    if paused:
        return "paused", None
    if error is None:
        return "ok", None
    return ("error" if isinstance(error, Exception) else "cancelled"), kind_of(error)


def kind_of(error: BaseException) -> str:
    """The class of an error: of what a filter or a model raised, where that is known."""
    cause = error.__cause__ if isinstance(error, FilterError | ModelError) else None
    return cut(type(cause or error).__name__)


def call_id(request: Any) -> str | None:
    """The id of the tool call that a request is about."""
    call = getattr(request, "call", None)
    return None if call is None else shown_id(call)


def shown_id(call: Mapping[str, Any]) -> str | None:
    """The id of a tool call, where it looks like one: a model may put anything there."""
    id = str(call["id"])
    return id if _AN_ID.fullmatch(id) else None
