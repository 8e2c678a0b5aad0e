"""Running a turn again: with another message in its place, or by other agents on threads of their own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Unpack

from langchain_core.messages import BaseMessage
from pydantic import ValidationError

from scallion.approvals.naming import as_text
from scallion.bridge import call, enter_async
from scallion.course import new_turn_id
from scallion.errors import (
    Blocked,
    ConfigurationError,
    FilterError,
    LimitExceeded,
    ModelError,
    StorageError,
    ThreadError,
    ValidationFailed,
)
from scallion.holding import database
from scallion.loop.invocation import Invocation
from scallion.options import CallOptions, checked, named_thread, new_invocation
from scallion.session.comparing import Compared, compare
from scallion.session.runs import Rerun, Runs
from scallion.session.travel import Travel, nothing, present
from scallion.session.turns import Segment, Turn, turns
from scallion.values import Completed, Paused

Result = Completed | Paused
FAILURES = (ModelError, FilterError, LimitExceeded, ValidationFailed, Blocked)
"""With what a turn fails."""


class Place(NamedTuple):
    """Which turn is run again, from which step of it, None for its beginning, and what the new thread begins with.

    `filters`: the input filters that edited what it was sent.
    """

    turn: Turn
    step: str | None
    base: str | None
    filters: Sequence[str] = ()


class Rerunning(Travel):
    """Runs turns again; all of it needs a SQLCheckpointer."""

    def edit_message(self, id: str, content: Any, **options: Unpack[CallOptions]) -> Result:
        """Rewind to before the turn of a message that somebody sent, and run that turn with another `content` of it.

        What input filters made of the other messages of the turn they leave as it is.
        Raises ThreadError where nobody sent such a message; ThreadBusy while a turn runs; what `send` raises.
        """
        return self._now(self._edit, id, content, options)

    async def aedit_message(self, id: str, content: Any, **options: Unpack[CallOptions]) -> Result:
        """As `edit_message`."""
        return await enter_async(self._edit, id, content, options)

    def rerun(
        self, place: Any, *, agent: Any = None, thread: str | None = None, **options: Unpack[CallOptions]
    ) -> Rerun:
        """Run a turn again on a thread of its own, as another `agent` would: this thread stays as it is.

        `place`: a Turn or its id, which is sent the same messages again, as its input filters had made them: those of
        the same names do not edit them once more; or a step in it, from which it goes on.
        `agent`: one with another model, other filters or tools, on the same database; None: the same agent. `thread`:
        the name of the new thread, which begins with all that came before. Tools run again; only those of
        `filters.once` do not whose call the place has already. Where the result is Paused, `rerun.session` goes on.
        Raises ThreadError where there is no such place or no turn is under way there, ThreadBusy while a turn runs,
        StorageError where there is a thread of that name, ConfigurationError for an agent on another database and for
        options that name another owner or thread, and what `send` raises: then the new thread has the turn that failed.
        """
        return self._now(self._rerun, place, agent, thread, options)

    async def arerun(
        self, place: Any, *, agent: Any = None, thread: str | None = None, **options: Unpack[CallOptions]
    ) -> Rerun:
        """As `rerun`."""
        return await enter_async(self._rerun, place, agent, thread, options)

    def compare_runs(self, place: Any, agents: Mapping[str, Any], **options: Unpack[CallOptions]) -> Runs:
        """`rerun` with each of these agents, one after the other; gives what came of it by their names.

        A turn that fails is told as `Rerun.error`, where `rerun` raises it.
        """
        return self._now(self._compare_runs, place, agents, options)

    async def acompare_runs(self, place: Any, agents: Mapping[str, Any], **options: Unpack[CallOptions]) -> Runs:
        """As `compare_runs`."""
        return await enter_async(self._compare_runs, place, agents, options)

    def _edit(self, id: str, content: Any, options: CallOptions) -> Result:
        options = checked(self._options(options))
        if not isinstance(content, str | list) or not content:
            what = type(content).__name__
            raise ConfigurationError(f"the content of a message is a text or a list of blocks, not empty, not {what}")
        self._edited(id, content)  # where nobody sent it the thread need not be held

        def rewound(here: Invocation) -> list[BaseMessage]:
            turn, edited = self._edited(id, content)
            before = self._chosen(None, turn)
            filters = self._filters(self._past().turn(turn))
            here.edited = {name: {one.id for one in turn.sent} - {id} for name in filters}
            self._threads.judge(edited, here)
            self._back(before, here.lease)
            return edited

        return self._inside.again(self.thread, rewound, options)

    def _edited(self, id: str, content: Any) -> tuple[Turn, list[BaseMessage]]:
        """The turn of that message, and what it was sent, with the other content."""
        turn = next((one for one in self._turns(present) if any(sent.id == id for sent in one.sent)), None)
        if turn is None:
            raise ThreadError(self.thread, f"nobody sent a message {id!r} to thread {self.thread!r}")
        return turn, [_edited(one, content) if one.id == id else one for one in turn.sent]

    def _rerun(self, place: Any, agent: Any, thread: str | None, options: CallOptions) -> Rerun:
        options = self._options_beside(options)
        self._on_same(agent)
        return self._run_beside(self._again(place), agent, thread, options)

    def _compare_runs(self, place: Any, agents: Any, options: CallOptions) -> Runs:
        options = self._options_beside(options)
        if not isinstance(agents, Mapping) or not agents:
            raise ConfigurationError('compare_runs takes agents by name: {"short": agent, ...}')
        for agent in agents.values():
            self._on_same(agent)
        found = self._again(place)
        runs = {str(name): self._run_beside(found, one, None, options, FAILURES) for name, one in agents.items()}
        return Runs(found.turn, runs)

    def _options_beside(self, options: CallOptions) -> CallOptions:
        """The options of a turn on a new thread, which has the owner of this one.

        Raises ConfigurationError for what cannot be, before anything is made or run.
        """
        given = checked(self._options(options))
        row = self._row() if self._owner is None else None
        owner = self._owner if row is None else row.owner
        if options.get("owner") is not None and as_text("owner", options["owner"]) != owner:
            raise ConfigurationError("the new thread has the owner of this one, and owner= names another")
        if named_thread(None, given) is not None:
            raise ConfigurationError("the new thread is named by thread=, and not by the config")
        given = {**given, "owner": owner}
        new_invocation(new_turn_id(), self.thread, given)
        return given

    def _on_same(self, agent: Any) -> None:
        """Raise ConfigurationError for what is no agent, and for one that keeps its threads elsewhere."""
        if agent is None:
            return
        if not hasattr(agent, "session"):
            raise ConfigurationError(f"a turn is run again by an Agent, not by a {type(agent).__name__}")
        other = agent.session(self.thread, owner=self._owner)
        if database(other._saver) is database(self._saver):
            return
        trails = [held._trail(nothing)[0] for held in (self, other)]
        ours, theirs = ({mark.id for mark in trail.marks} if trail is not None else set() for trail in trails)
        if ours and not ours & theirs:
            raise ConfigurationError("the other agent keeps its threads elsewhere: give both the same checkpointer")

    def _again(self, place: Any) -> Place:
        trail, past = self._trail(lambda past: [past.again(place)[0]] if past.line else [])
        if past is None or not past.line:
            raise ThreadError(self.thread, f"there is no thread {self.thread!r}")
        segment, step = past.again(place)
        found = turns(trail, [segment])
        if not found or not found[0].sent:
            raise ThreadError(self.thread, f"that turn of thread {self.thread!r} was sent nothing")
        if step is not None:
            return Place(found[0], step.id, step.id)
        return Place(found[0], None, past.before(segment), self._filters(segment))

    def _filters(self, segment: Segment) -> Sequence[str]:
        """The input filters whose work the messages of the turn show, as far as its first step is stored."""
        first = next((one.id for one in segment.marks if one.source == "loop"), None)
        marker = (self._values(self.thread, first) or {}).get("turn") if first is not None else None
        return (marker or {}).get("rewritten") or ()

    def _run_beside(self, place: Place, agent: Any, thread: str | None, options: CallOptions, told: Any = ()) -> Rerun:
        target = self._named(thread)
        made = (agent or self._agent).session(target, owner=self._owner, user=self._user)
        if _is_there(made.agent.checkpointer, target):
            raise _taken(target)
        if place.base is not None:
            self._copy(target, place.base, options.get("wait") or 0)
        result, error = None, None
        try:
            result = made._goes_on(place, options)
        except told as failure:
            error = failure
        turn = made._came_to(place)
        there = made._side(turn) if turn is not None else Compared([], None)
        return Rerun(place.turn, made, result, turn, compare(self._side(place.turn), there), error)

    def _goes_on(self, place: Place, options: CallOptions) -> Result:
        """Run the turn on this thread, which begins with the place, unless somebody else was there first."""

        def untouched(here: Invocation) -> list[BaseMessage]:
            if place.base is None and self._was_there(here):
                raise _taken(self.thread)
            if self._newest() != place.base:
                raise ThreadError(self.thread, f"somebody else went on with thread {self.thread!r}, or had it before")
            here.edited = {name: {one.id for one in place.turn.sent} for name in place.filters}
            return list(place.turn.sent)

        run = self._inside.again if place.step is None else self._inside.further
        return run(self.thread, untouched, options)

    def _was_there(self, here: Invocation) -> bool:
        """Whether this thread was there before it was held, whoever owns it."""
        return _is_there(self._agent.checkpointer, self.thread) if here.lease is None else here.lease.status is not None

    def _came_to(self, place: Place) -> Turn | None:
        """What this thread has of the turn; None where a guard left nothing of it."""
        ran = self._turns(lambda past: past.turns[-2:])  # the commit may be a step without messages
        is_there = ran and (place.step is not None or ran[-1].checkpoint != place.base)
        return ran[-1] if is_there else None

    def _newest(self) -> str | None:
        """The newest step of the thread."""
        trail, _ = self._trail(nothing)
        return None if trail is None else trail.head


def _is_there(saver: Any, thread: str) -> bool:
    """Whether there is a thread of that name, whoever owns it."""
    return call(saver.sessions.get, saver.sessions.aget, thread) is not None


def _taken(thread: str) -> StorageError:
    return StorageError(f"the thread {thread!r} exists: give the new one another name")


def _edited(message: BaseMessage, content: Any) -> BaseMessage:
    """The message with another content. Raises ConfigurationError for what a message cannot hold."""
    try:
        return type(message).model_validate({**message.model_dump(), "content": content})
    except ValidationError:  # it would show the content
        told = "the content of a message is a text or a list of texts and blocks, not a list of anything else"
        raise ConfigurationError(told) from None
