"""The trace of a turn while it runs: it is begun and ended here, and comes with the result."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import takewhile
from typing import Any, TypeVar

from scallion.approvals.payload import in_order
from scallion.approvals.questions import questions
from scallion.bridge import call
from scallion.course import LoopPause, Turn
from scallion.errors import StorageError
from scallion.filters.filter import Filter
from scallion.filters.journal import Frame, current_frame
from scallion.filters.usage import Usage
from scallion.loop.invocation import Invocation
from scallion.loop.traced import pauses
from scallion.tracing.recorder import Ended, Recorder, ending, log
from scallion.tracing.trace import Part, PartStatus, Trace
from scallion.values import Approval, Completed, Paused

T = TypeVar("T")


class Tracing:
    """Has the turns of one agent recorded, if they are to have a trace; prices are those of its `filters.usage`."""

    def __init__(self, filters: Iterable[Filter], *, on: bool) -> None:
        self._on = on
        self._prices: Mapping[str, Mapping[str, float]] = {}
        for one in filters:
            if isinstance(one, Usage):
                self._prices = {**one.prices, **self._prices}

    @contextmanager
    def part(self, turn: Turn) -> Iterator[None]:
        """Record the block, which runs the turn up to its end or a pause, as a part of its trace."""
        turn.here.trace = recorder = self._recorder(turn) if self._on else None
        if recorder is None or turn.inner:
            yield
            return
        status: PartStatus = "completed"
        error: str | None = None
        asked: Sequence[str] = ()
        answered = _answered(turn)  # now: who runs the turn takes the answers out of it
        before = _steps(turn)
        try:
            yield
        except LoopPause as pause:
            status, asked = "paused", [one.id for one in questions(in_order(pause.interrupts))]
            raise
        except BaseException as failure:
            status, error = "failed" if isinstance(failure, Exception) else "cancelled", type(failure).__name__
            raise
        finally:
            goes_on = turn.request.resume is not None
            part = recorder.part(status, error, asked, answered)
            turn.here.parts.append(Ended(turn.id, part, goes_on, goes_on or _steps(turn) > before))

    def _recorder(self, turn: Turn) -> Recorder | None:
        """What records it: of an agent in a tool of another one that is recorded, into the span of that tool."""
        if not turn.inner:
            return Recorder(self._prices)
        around, frame = turn.here.around, current_frame.get(None)
        if around is None or around.trace is None or frame is None or frame.trail is None:
            return None
        return Recorder(self._prices, around.trace, frame.trail)


def _steps(turn: Turn) -> int:
    """How many steps were stored on the thread since this process holds it."""
    return 0 if turn.here.lease is None else turn.here.lease.steps


@contextmanager
def attempted(turn: Turn, frame: Frame) -> Iterator[None]:
    """Record the block, which enters the loop, as an attempt."""
    recorder, trail = turn.here.trace, frame.trail
    if recorder is None or trail is None:
        yield
        return
    at, before, recorder.within = recorder.now(), recorder.within, trail
    counts, failure = recorder.room.take(), None
    try:
        yield
    except BaseException as error:
        failure = error
        raise
    finally:
        recorder.within = before
        # Inside of a task of another graph a pause is LangGraph's own signal, which no frame has seen yet.
        status, error_kind = ending(failure, paused=frame.paused or pauses(failure))
        recorder.close(trail, "attempt", str(max(turn.attempts, 1)), at, counts, status=status, error=error_kind)
        failure = None


def _answered(turn: Turn) -> Sequence[str]:
    """The ids of the approvals whose decisions this part goes on with."""
    found = turn.resumption
    if found is None:
        return ()
    return [*(found.answers or ()), *([found.held_id] if found.held_id is not None else [])]


def with_trace(result: T, here: Invocation, saver: Any, *, on: bool) -> T:
    """The result with the trace of its turn, where it has one; what was recorded before is read from the saver."""
    if not isinstance(result, Completed | Paused):
        return result
    last = here.parts[-1] if here.parts and here.parts[-1].turn == result.turn else None
    if last is None and not (on and isinstance(result, Paused)):
        return result
    stored = _stored(result, saver) if last is None or last.goes_on else None
    if last is None:
        return result.replace(trace=stored)  # type: ignore[return-value]
    approvals: Sequence[Approval] = result.approvals if isinstance(result, Paused) else ()
    before: Sequence[Part] = ()
    if stored is not None:
        approvals = stored.approvals
        before = tuple(takewhile(lambda one: one.began_at != last.part.began_at, stored.parts))
    return result.replace(trace=Trace(result.thread, last.turn, (*before, last.part), tuple(approvals)))  # type: ignore[return-value]


def _stored(result: Completed | Paused, saver: Any) -> Trace | None:
    """What the database has of the turn; what was done is done, also where that cannot be read."""
    sessions = getattr(saver, "sessions", None)
    if sessions is None or result.thread is None or result.turn is None:
        return None
    try:
        found: Trace | None = call(sessions.trace, sessions.atrace, result.thread, result.turn)
    except StorageError as error:
        log.warning("the trace of a turn could not be read: %s", type(error).__name__)
        return None
    return found
