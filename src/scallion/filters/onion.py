"""The onion: filters nested around an innermost call, first filter outermost.

The onion is synchronous code (`bridge.wait` awaits what is not). A pause travels through it as a `BaseException`, and
the run remembers it, so that no `except` of a filter can lose it. Each layer keeps a journal (`journal.py`): when a
paused chain runs again, the `next` calls that had finished give what they gave.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langgraph.errors import GraphBubbleUp, GraphInterrupt

from scallion.bridge import wait
from scallion.errors import FilterError, ScallionError
from scallion.events import FilterActed, GuardActed
from scallion.filters.async_next import as_async
from scallion.filters.filter import Chain, Filter, is_async, layers
from scallion.filters.filtering import Means
from scallion.filters.journal import Frame, Record, Wire, current_frame, load_error
from scallion.filters.masking import NONE, Masks
from scallion.filters.replies import reason, taken
from scallion.filters.state import Fold, State, States
from scallion.filters.verdicts import Verdicts
from scallion.values import ChatReply, Completed, ToolReply

if TYPE_CHECKING:
    from scallion.filters.retrying.waiting import Clock
    from scallion.tracing.recorder import Recorder

Innermost = Callable[[Any, Frame], Any]
_REPLIES: dict[Chain, tuple[type[Any], type[Any]]] = {
    "turn": (Completed, AIMessage),
    "chat": (ChatReply, AIMessage),
    "tool": (ToolReply, ToolMessage),
}
log = logging.getLogger("scallion.filters")


class PauseSignal(BaseException):
    """A pause on its way out of the onion; `payload` is what the person is asked."""

    def __init__(self, payload: Any, native: GraphInterrupt | None = None) -> None:
        self.payload = payload
        self.native = native
        super().__init__("the turn pauses")


async def _ended(futures: list[asyncio.Future[None]]) -> None:
    await asyncio.wait(futures)


class Run:
    """One execution of one chain: the filters' states, the updates made, the answers that were given."""

    __slots__ = (
        *("added", "answers", "asked", "bound", "clock", "config", "emit", "extra", "fold", "free", "given"),
        *("lasting", "leading", "means", "path", "pausing", "prompts", "rewritten", "running", "states", "subject"),
        *("history", "masks", "trace", "verdicts", "watch", "wire"),
    )

    def __init__(
        self,
        wire: Wire,
        fold: Fold,
        states: States,
        answers: Sequence[Any] = (),
        *,
        path: tuple[str, ...] = (),
        emit: Callable[[Any], None] | None = None,
        subject: Mapping[str, Any] | None = None,
        lasting: bool = True,
        extra: Any = None,
        bound: Mapping[str, Any] | None = None,
        clock: Clock | None = None,
        prompts: Sequence[BaseMessage] = (),
        leading: Sequence[BaseMessage] = (),
        means: Means | None = None,
        history: Sequence[BaseMessage] = (),
        added: Callable[[Completed], Sequence[BaseMessage]] = attrgetter("messages"),
        asked: Collection[str | None] = (),
        trace: Recorder | None = None,
    ) -> None:
        self.wire = wire
        self.fold = fold
        self.states = fold(states, ())  # a filter may have been added since they were stored
        self.answers = answers
        self.path = path
        self.emit = emit
        self.subject = subject or {}
        self.pausing: PauseSignal | None = None
        self.lasting = lasting
        """Whether a pause can be kept: not without a checkpointer."""
        self.extra = extra
        """What the innermost call needs of the node that runs the chain."""
        self.bound = bound or {}
        """What a pause is bound to besides the filters of this chain."""
        self.clock = clock
        """The time of the turn, for hooks that wait; None where the chain runs without an agent."""
        self.added = added
        """What a result of the turn would add to its thread."""
        self.asked = asked
        """The ids of the messages that the turn was given, as far as they are known; for the chat chain."""
        self.prompts = prompts
        """The system prompts that the model call puts in front: for the key of a cache, not for hooks to read."""
        self.leading = leading
        """Those of them that led the input of the turn: for a guard."""
        self.means = means
        """What the agent lends to filters around the turn."""
        self.history = history
        """What the thread held before the turn, or before the call of the model."""
        self.given: Sequence[Any] | None = None
        """What input filters made of the messages of the turn."""
        self.rewritten: frozenset[str] = frozenset()
        """The input filters whose work is done, before a pause too."""
        self.verdicts = Verdicts()
        """What was decided about the call, in the tool chain."""
        self.watch: Callable[[FilterActed | GuardActed], None] | None = None
        """Who is told what the layers do, besides the reader of a stream."""
        self.trace = trace
        """Records the turn, where it is to have a trace."""
        self.masks: Masks = NONE
        """What is taken out of all that leaves the innermost call."""
        self.running: set[asyncio.Future[None]] = set()
        """The `next` calls of async hooks that have not ended."""
        self.config: Any = None
        """LangGraph's config of the node; a `next` in another thread has no context to find it in."""
        self.free = len(answers)
        """The place of the first answer that no question has taken."""

    def acted(self, layer: str, action: str) -> None:
        """Tell the reader of the stream, who watches, and the trace, that a filter did something."""
        self.tell(layer, action)
        if self.trace is not None:
            self.trace.note(current_frame.get(None), layer, action)

    def tell(self, layer: str, action: str) -> None:
        """As `acted`, of what the trace knows by itself."""
        for tell in (self.emit, self.watch):
            if tell is not None:
                tell(self.event(layer, action))

    def event(self, layer: str, action: str) -> FilterActed:
        """What is told of a filter, with the call of a tool that it is about."""
        frame = current_frame.get(None)
        call = getattr(frame.request, "call", None) if frame is not None else None
        tool, id = (None, None) if call is None else (call["name"], call["id"])
        return FilterActed(layer, self.wire.hook, action, tool, id)

    def update(self, name: str, update: Mapping[str, Any]) -> None:
        """Fold an update of a filter's state in at once, and note it in the call that makes it."""
        current_frame.get().updates.append((name, update))
        self.states = self.fold(self.states, ((name, update),))

    def rewrite(self, name: str, messages: Sequence[Any]) -> None:
        """From here on these are the messages that the turn was given: what they were before is kept nowhere."""
        self.given = self.masks.value(list(messages))
        self.rewritten |= {name}

    def adopt(self, states: States) -> None:
        """Take over the states that a loop of the graph ended with."""
        current_frame.get().updates.append(("", states))
        self.states = self.fold(states, ())

    def replay(self, updates: Iterable[Sequence[Any]]) -> None:
        """Make updates again that were made before the pause."""
        for name, update in updates:
            if name:
                self.update(name, update)
            else:
                self.adopt(update)

    def settle(self) -> None:
        """Wait for `next` calls that a hook left behind, as `asyncio.gather` does: what they finish is kept."""
        while self.running:
            wait(_ended(list(self.running)))

    def pause(self, payload: Any, native: GraphInterrupt | None = None) -> PauseSignal:
        """The signal to raise: the first pause of a run is the one that is shown."""
        frame = current_frame.get()
        frame.paused = True
        if self.trace is not None:
            self.trace.note(frame, (payload or {}).get("layer") or frame.layer, "paused")
        if self.pausing is None:
            self.pausing = PauseSignal(payload, native)
        return self.pausing


def nest(filters: Sequence[Filter], chain: Chain, innermost: Innermost) -> Innermost:
    """Nest the hooks of `chain` around `innermost`, first filter outermost; filters without the hook are skipped."""
    call = _unless_ended(_sealed(innermost)) if chain == "turn" else _sealed(innermost)
    for one in reversed(layers(filters, chain)):
        call = _layer(one, chain, call)
    return call


def _sealed(innermost: Innermost) -> Innermost:
    """LangGraph's interrupt, an `Exception`, becomes a signal before an `except Exception` of a filter sees it."""

    def call(request: Any, frame: Frame) -> Any:
        try:
            reply = innermost(request, frame)
        except GraphInterrupt as error:
            raise frame.run.pause(None, error) from None
        frame.reached = request
        return reply

    return call


def _unless_ended(innermost: Innermost) -> Innermost:
    """The loop is not entered by a turn that a filter has ended."""

    def call(request: Any, frame: Frame) -> Any:
        return innermost(request, frame) if request.ended is None else request.ended

    return call


def _layer(owner: Filter, chain: Chain, inner: Innermost) -> Innermost:
    hook: Any = owner.hook(chain)
    name, where, asynchronous = owner.name, "around_" + chain, is_async(hook)
    expected, message = _REPLIES[chain]
    is_often = chain != "turn"
    passes = not is_often and not owner.sees_ended

    def layer(request: Any, frame: Frame) -> Any:
        frame.enter(name)
        if passes and request.ended is not None:
            return advance(frame, inner, request)
        run = frame.run
        try:
            if asynchronous:
                out = wait(hook(request, State(run, name), as_async(frame, partial(advance, frame, inner))))
            else:
                out = hook(request, State(run, name), lambda request: advance(frame, inner, request))
            if is_often and type(out) is expected and isinstance(out.message, message):
                reply, update = out, None
            else:
                reply, update = taken(out, expected, message, asynchronous)
        except (ScallionError, GraphBubbleUp) as error:
            raise _passing(run, error) from error.__cause__
        except Exception as error:
            if error is frame.failed:  # the chain inside failed, not this layer
                raise
            if owner.on_error == "ignore" and run.pausing is None:
                return _without(name, where, frame, inner, request, error)
            raise FilterError(name, where, reason(error)) from error
        if update is not None:
            run.update(name, update)
        if run.watch is not None or run.emit is not None:
            _tell(frame, name, reply)
        return reply

    return layer


def _tell(frame: Frame, name: str, reply: Any) -> None:
    """Tell what a layer made of its call; only who watches hears of mere changes."""
    if (asked := frame.nexts - frame.asides) != 1:
        frame.run.tell(name, "retry" if asked else "short_circuit")
    if frame.run.watch is not None:
        given = [] if frame.done is None else [one for one, _, _ in frame.done.values()]
        if frame.changed:
            frame.run.watch(frame.run.event(name, "changed_request"))
        if given and all(reply is not one for one in given):
            frame.run.watch(frame.run.event(name, "changed_reply"))


def _passing(run: Run, error: Exception) -> BaseException:
    """LangGraph's own interrupt in a hook becomes a signal too."""
    return run.pause(None, error) if isinstance(error, GraphInterrupt) else error


def _without(name: str, where: str, frame: Frame, inner: Innermost, request: Any, error: Exception) -> Any:
    """What the chain gives without a filter that failed and may be ignored."""
    log.warning("filter %r failed in %s and is ignored: %s", name, where, type(error).__name__)
    frame.run.acted(name, "ignored_error")
    if not frame.done:
        return advance(frame, inner, request)
    reply, failure, _ = frame.done[max(frame.done)]
    if failure is not None:
        raise failure
    return reply


def advance(frame: Frame, inner: Innermost, request: Any) -> Any:
    """One `next` call: replayed if it had finished before the pause, run otherwise, and recorded."""
    run = frame.run
    if run.pausing is not None:  # nothing runs behind a pause that a filter tried to swallow
        frame.paused = True
        raise run.pausing
    number = frame.nexts
    frame.nexts = number + 1
    if request is not frame.request:
        frame.count(request)
    record = frame.record
    if record is not None:
        finished = record["done"].get(str(number))
        if finished is not None:
            return _replay(frame, number, finished)
        record = record["open"].get(str(number))
    child = Frame(run, record, request)
    if (trace := run.trace) is not None:
        trace.enter(child)
        if record is None:
            trace.going_on(frame, request)
    if frame.open is None:
        frame.open = {number: child}
    else:
        frame.open[number] = child
    token = current_frame.set(child)
    try:
        reply = made = inner(request, child)
        if run.masks is not NONE and not child.passed_on(reply):
            reply = run.masks.outcome(reply, run.history)
    except BaseException as error:
        if trace is not None:
            trace.leave(child, frame.trail, None, error)
        if isinstance(error, PauseSignal):
            frame.paused = True
        elif isinstance(error, Exception):
            frame.failed = error
            _finish(frame, number, child, None, error)
        raise
    finally:
        current_frame.reset(token)
    if trace is not None:
        trace.leave(child, frame.trail, made, None)
    _finish(frame, number, child, reply, None)
    return reply


def traced(chain: Innermost, request: Any, root: Frame) -> Any:
    """What the chain gives, recorded where the turn is to have a trace."""
    if (trace := root.run.trace) is None:
        return chain(request, root)
    around = trace.within  # the attempt may be over by then
    trace.enter(root)
    try:
        reply = chain(request, root)
    except BaseException as error:
        trace.leave(root, around, None, error)
        raise
    trace.leave(root, around, reply, None)
    return reply


def _finish(frame: Frame, number: int, child: Frame, reply: Any, error: Exception | None) -> None:
    """Record what a `next` call came to, unless it paused inside."""
    if child.paused:
        frame.paused = True
        return
    if not frame.asks_itself(child.request):
        frame.reached = None if error is not None else child.reached
    updates = child.updates
    if frame.done is None:
        frame.done = {number: (reply, error, updates)}
    else:
        frame.done[number] = (reply, error, updates)
    if updates:
        frame.updates += updates
    del frame.open[number]  # type: ignore[union-attr]


def _replay(frame: Frame, number: int, finished: Record) -> Any:
    frame.run.replay(finished["updates"])
    error = load_error(finished["error"]) if "error" in finished else None
    reply = None if error else frame.run.wire.load(finished["reply"])
    if frame.done is None:
        frame.done = {}
    frame.done[number] = (reply, error, finished["updates"])
    if error is not None:
        raise error
    return reply
