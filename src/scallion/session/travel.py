"""The past of a session: its turns and steps, going back to one of them, going on beside it, comparing two."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self, TypeVar

from scallion.approvals.naming import as_text
from scallion.bridge import call, enter_async
from scallion.course import new_turn_id
from scallion.errors import ConfigurationError, StorageError, ThreadError
from scallion.holding import holding
from scallion.loop.invocation import Invocation
from scallion.options import CallOptions
from scallion.session.comparing import Compared, Difference, compare
from scallion.session.held import Held
from scallion.session.state import State, compared, state_at
from scallion.session.turns import Past, Segment, Step, Turn, is_unnamed, turns
from scallion.tracing.trace import Trace

T = TypeVar("T")
LONGEST = 200
"""How much of a thread's name a fork has in front."""
Choose = Callable[[Past], Sequence[Segment]]


class Travel(Held):
    """Reads a thread turn by turn, rewinds it and forks it; all of it needs a SQLCheckpointer.

    A place is a `Turn` or its id, which means its end, a `Step` or its id, or the number of a step.
    """

    @property
    def history(self) -> list[Turn]:
        """The turns of the conversation, the first first."""
        return self._now(self._turns, present)

    async def ahistory(self) -> list[Turn]:
        """As `history`."""
        return await enter_async(self._turns, present)

    @property
    def rewound(self) -> list[Turn]:
        """The turns that rewinds have left behind, the newest first: `fork` and `rewind` reach them as any other."""
        return self._now(self._turns, _left)

    async def arewound(self) -> list[Turn]:
        """As `rewound`."""
        return await enter_async(self._turns, _left)

    def trace(self, turn: Any = None) -> Trace | None:
        """What happened in a turn: a Turn or its id, the last one by default; None where no trace of it is kept.

        The last one is that which the thread stands at, behind a rewind the one there; one that failed before its first
        step is the last until something else changes the thread.
        """
        return self._now(self._trace, turn)

    async def atrace(self, turn: Any = None) -> Trace | None:
        """As `trace`."""
        return await enter_async(self._trace, turn)

    @property
    def checkpoints(self) -> list[Step]:
        """Every stored step of the thread, the oldest first, those too that rewinds have left behind."""
        return self._now(self._steps)

    async def acheckpoints(self) -> list[Step]:
        """As `checkpoints`."""
        return await enter_async(self._steps)

    def at(self, place: Any) -> State:
        """What the thread held there. Raises ThreadError where it has no such place."""
        return self._now(self._at, place)

    async def aat(self, place: Any) -> State:
        """As `at`."""
        return await enter_async(self._at, place)

    def compare(self, a: Any, b: Any) -> Difference:
        """What differs between two places of the thread, each a place, or a Turn, State or Session of any thread.

        Of a turn its own messages are compared, of everything else the whole conversation up to there; of all of them
        the shared state and the filters' states there, of a turn those at its end, where they are still stored.
        """
        return self._now(self._compare, a, b)

    async def acompare(self, a: Any, b: Any) -> Difference:
        """As `compare`."""
        return await enter_async(self._compare, a, b)

    def fork(self, at: Any = None, *, before: Any = None, thread: str | None = None) -> Self:
        """A new thread that begins like this one: up to a place, or up to where the turn `before` began.

        Without either it is a copy of the thread as it stands, with what it asks people. The new thread has the earlier
        turns and the effects of their tools, and nothing of what came later. It is a session of the same agent.
        Raises ThreadBusy while a turn runs, StorageError where there is a thread of that name.
        """
        return self._now(self._fork, at, before, thread)

    async def afork(self, at: Any = None, *, before: Any = None, thread: str | None = None) -> Self:
        """As `fork`."""
        return await enter_async(self._fork, at, before, thread)

    def rewind(self, to: Any = None, *, before: Any = None) -> None:
        """Have the thread go on from a place, or from where the turn `before` began.

        Nothing is deleted: what came after is in `rewound`. Approvals that are open are cancelled. Effects of tools are
        kept, so that `filters.once` runs no call twice that the thread still has; what the model asks for anew is
        another call. Inside of a turn the thread is one whose turn was interrupted there: `resume` runs it again from
        that step. Raises ThreadBusy while a turn runs.
        """
        self._now(self._rewind, to, before)

    async def arewind(self, to: Any = None, *, before: Any = None) -> None:
        """As `rewind`."""
        await enter_async(self._rewind, to, before)

    def _options(self, options: CallOptions) -> CallOptions:
        """The options of a verb, with who speaks. Raises ConfigurationError for what a session has of its own."""
        if "thread" in options:
            raise ConfigurationError(f"a session runs on its own thread, {self.thread!r}: another one is a session too")
        who = {name: own for name, own in (("owner", self._owner), ("user", self._user)) if own is not None}
        for name, own in who.items():
            if (given := options.get(name)) is not None and as_text(name, given) != own:
                raise ConfigurationError(f"a session has its own {name}: for another one make a session with {name}=")
        return {**options, **who, "only_own": self._owner is not None}  # type: ignore[typeddict-item]

    def _trail(self, choose: Choose) -> tuple[Any, Past | None]:
        """The trail with the messages of the turns that are chosen, and its past; None where there is no thread."""
        seen: list[Past] = []

        def spans(trail: Any) -> Sequence[tuple[str | None, str]]:
            seen.append(Past(trail))
            return seen[-1].spans(choose(seen[-1]))

        saver = self._saver
        trail = call(saver.trail, saver.atrail, self.thread, spans)
        return trail, seen[-1] if trail is not None else None

    def _past(self) -> Past:
        _, past = self._trail(nothing)
        if past is None or not past.line:
            raise ThreadError(self.thread, f"there is no thread {self.thread!r}")
        return past

    def _turns(self, choose: Choose) -> list[Turn]:
        trail, past = self._trail(choose)
        return [] if past is None else turns(trail, choose(past))

    def _trace(self, turn: Any) -> Trace | None:
        sessions = self._saver.sessions
        if isinstance(turn, Turn):
            turn = turn.checkpoint if is_unnamed(turn.id) else turn.id
        elif isinstance(turn, str) and is_unnamed(turn):
            turn = self._past().turn(turn).end.id
        elif turn is not None and not isinstance(turn, str):
            raise ConfigurationError(f"a turn is named by a Turn or its id, not {type(turn).__name__}")
        found: Trace | None = call(sessions.trace, sessions.atrace, self.thread, turn)
        return found

    def _steps(self) -> list[Step]:
        _, past = self._trail(nothing)
        return [] if past is None else past.steps()

    def _at(self, place: Any) -> State:
        past = self._past()
        id = past.place(place).id
        values = self._values(self.thread, id)
        if values is None:
            raise ThreadError(self.thread, f"the step {id!r} of thread {self.thread!r} is gone")
        return state_at(next(one for one in past.steps() if one.id == id), values)

    def _values(self, thread: str, id: str) -> Mapping[str, Any] | None:
        """What the channels hold at that step; None where it is not stored."""
        config = {"configurable": {"thread_id": thread, "checkpoint_ns": "", "checkpoint_id": id}}
        saver = self._saver
        found = call(saver.get_tuple, saver.aget_tuple, config)
        return None if found is None else found.checkpoint["channel_values"]

    def _compare(self, a: Any, b: Any) -> Difference:
        return compare(self._side(a), self._side(b))

    def _side(self, given: Any) -> Compared:
        if isinstance(given, State):
            return compared(given)
        if isinstance(given, Turn):
            return compared(given, self._values(given.thread, given.checkpoint))
        if isinstance(given, Travel):
            return compared(given._at(given._past().line[-1].id))
        return compared(self._at(given))

    def _fork(self, at: Any, before: Any, thread: str | None) -> Self:
        chosen = self._chosen(at, before)
        target = self._named(thread)
        owner = self._owner
        if before is None or chosen is not None:
            self._copy(target, chosen)
        else:  # nothing came before: an empty thread is not stored, and whose it will be the session says
            owner = self._held(lambda lease: self._vacant(target))
        return type(self)(self._agent, self._inside, target, owner=owner, user=self._user)

    def _vacant(self, target: str) -> str | None:
        """Whose a new thread of that name would be. Raises StorageError where there is one."""
        sessions = self._agent.checkpointer.sessions
        if call(sessions.get, sessions.aget, target) is not None:
            raise StorageError(f"the thread {target!r} exists: give the new one another name")
        row = self._row()
        return self._owner if row is None else row.owner

    def _named(self, thread: str | None) -> str:
        return thread if thread is not None else f"{self.thread[:LONGEST]}~{new_turn_id()[:12]}"

    def _copy(self, target: str, at: str | None, wait: float = 0) -> None:
        saver = self._saver
        self._held(lambda lease: call(saver.fork_thread, saver.afork_thread, self.thread, target, at, lease), wait)

    def _rewind(self, to: Any, before: Any) -> None:
        if (to is None) == (before is None):
            raise ConfigurationError("rewind takes a place, or before=... a turn")
        chosen = self._chosen(to, before)
        self._held(lambda lease: self._back(chosen, lease))

    def _back(self, to: str | None, lease: Any) -> None:
        saver = self._saver
        call(saver.rewind_thread, saver.arewind_thread, self.thread, to, lease)
        if lease is not None:  # the turn that goes on under it asks what state the thread is in
            lease.status = call(saver.status, saver.astatus, self.thread)

    def _chosen(self, place: Any, before: Any) -> str | None:
        if place is not None and before is not None:
            raise ConfigurationError("give a place, or before=... a turn, not both")
        past = self._past()
        if before is not None:
            return past.before(before)
        return None if place is None else past.place(place).id

    def _held(self, work: Callable[[Any], T], wait: float = 0) -> T:
        """What `work` gives while no turn runs on the thread, for which it waits so many seconds; it gets the lease."""
        here = Invocation(turn=new_turn_id(), thread=self.thread, owner=self._owner)
        with holding(self._saver, here, {"configurable": {}}, seconds=wait, new=False):
            return work(here.lease)


def present(past: Past) -> Sequence[Segment]:
    """The turns that the thread came by."""
    return past.turns


def _left(past: Past) -> Sequence[Segment]:
    return past.left


def nothing(past: Past) -> Sequence[Segment]:
    """No turns: the steps alone."""
    return ()
