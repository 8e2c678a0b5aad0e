"""Messages that find their thread paused: refused, kept until the pause is over, or answered beside it.

What supersedes a pause is the affair of `threads.py`, as it leaves a thread that is not paused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, Protocol, TypeVar, get_args

from langchain_core.messages import BaseMessage, SystemMessage

from scallion.bridge import call
from scallion.course import new_turn_id
from scallion.errors import Blocked, ConfigurationError, NotPaused, ThreadPaused
from scallion.loop.invocation import Invocation
from scallion.loop.state import Step
from scallion.options import CallOptions, graph_config
from scallion.threads import Head, Threads
from scallion.values import Approval, Completed, Paused, Queued

OnMessage = Literal["refuse", "supersede", "queue", "alongside"]
Result = Completed | Paused
T = TypeVar("T")
WAITS = "not run yet: this waits for a person"
"""What an open call is answered with in a branch."""
LONGEST = 200
"""How much of a thread's name a branch has in front."""


class Start(Protocol):
    """Runs one turn on a thread that is held."""

    def __call__(
        self, messages: list[BaseMessage], here: Invocation, config: dict[str, Any], options: CallOptions
    ) -> Result: ...


class Admit(Protocol):
    """Judges what is to wait: what may be kept of it, or the answer to it."""

    def __call__(self, messages: list[BaseMessage], here: Invocation) -> list[BaseMessage] | Completed: ...


class Hold(Protocol):
    """Runs something while no other turn runs on the thread of `here`."""

    def __call__(
        self, here: Invocation, options: CallOptions, run: Callable[[dict[str, Any]], T], *, new: bool
    ) -> T: ...


Find = Callable[[Invocation], list[BaseMessage]]
"""Gives the messages of a turn, once its thread is held: what has to be done on it before them is done by then."""


@dataclass(frozen=True)
class Branch:
    """A thread that is to begin with the history of another one, up to its pause, and the messages for it."""

    of: str
    thread: str
    values: Mapping[str, Any]
    messages: list[BaseMessage]


def check_mode(mode: Any, saver: Any) -> None:
    """Raise ConfigurationError for a mode that is not there, or that the saver cannot keep."""
    if mode not in get_args(OnMessage):
        known = ", ".join(map(repr, get_args(OnMessage)))
        raise ConfigurationError(f"on_message_while_paused is one of {known}, not {mode!r}")
    if mode == "queue" and not hasattr(saver, "inbound"):
        raise ConfigurationError(
            'on_message_while_paused="queue" keeps messages in the database: give a SQLCheckpointer as checkpointer='
        )


class WhilePaused:
    """How the turns of one agent begin and go on, as far as messages wait or find a pause."""

    def __init__(self, mode: OnMessage, saver: Any, threads: Threads, agent: str, start: Start, admit: Admit) -> None:
        self._mode = mode
        self._saver = saver
        self._threads = threads
        self._agent = agent
        self._start = start
        self._admit = admit

    def begin(self, hold: Hold, find: Find, here: Invocation, options: CallOptions) -> Result:
        """Run a turn on the messages; where the thread is paused, do with them what the agent was built to do."""
        found = hold(here, options, partial(self._first, find, here, options), new=True)
        if not isinstance(found, Branch):
            return found
        here.thread = found.thread  # the paused one is free again: it may be resumed meanwhile
        return hold(here, options, partial(self._beside, found, here, options), new=True)

    def resumed(self, resume: Callable[[], Result], here: Invocation, options: CallOptions, *, decides: bool) -> Result:
        """Go on with the turn that paused, and then run what came meanwhile; the result is that of the last turn."""
        try:
            result = resume()
        except NotPaused:  # who went on before came to the end of the turn, and not of the queue
            late = None if decides else self._drained(None, here, options)
            if late is None:
                raise
            return late
        drained = self._drained(result, here, options)
        assert drained is not None
        return drained

    def _first(self, find: Find, here: Invocation, options: CallOptions, config: dict[str, Any]) -> Result | Branch:
        messages = find(here)
        own = str(here.turn), here.user, here.prompts
        approvals: Sequence[Approval]
        try:
            before = self._drained(None, here, options)
            if before is not None:
                here.begin(*own)
            if not isinstance(before, Paused):
                return self._start(messages, here, config, options)
            approvals = before.approvals
        except ThreadPaused as error:
            if self._mode not in ("queue", "alongside"):
                raise
            approvals = error.approvals
        head = self._threads.head(config)
        if self._mode == "alongside":
            return self._branch(head, messages, here)
        here.begin(*own)
        return self._queued(messages, head, approvals, here)

    def _queued(
        self, messages: list[BaseMessage], head: Head, approvals: Sequence[Approval], here: Invocation
    ) -> Result:
        if any(one.type == "remove" for one in messages):
            raise ConfigurationError("a message that removes others cannot wait for the end of a pause")
        queue, thread = self._queue(here), str(here.thread)
        waiting: list[BaseMessage] = [*here.prompts, *messages]
        waiting = waiting if here.clean is None else here.clean(waiting, waits=True)
        own = len(here.prompts) - len(here.leading)  # the program's system prompts, which are not judged
        admitted = self._admit(waiting[own:], here)
        if isinstance(admitted, Completed):
            return self._answered_at_once(admitted, here)
        call(queue.put, queue.aput, thread, [*waiting[:own], *admitted], by=here.user, at=head.id)
        count = call(queue.count, queue.acount, thread)
        return Paused(list(approvals), head.messages, thread, head.turn, queued=count)

    def _answered_at_once(self, result: Completed, here: Invocation) -> Completed:
        """A filter answered what was to wait: the thread is as it was."""
        if here.delivery is not None:
            here.delivery.finish(result.answer)
        return result.replace(thread=here.thread, turn=here.turn)

    def _drained(self, result: Result | None, here: Invocation, options: CallOptions) -> Result | None:
        """Run what waits, each message as a turn of its own, until one of them pauses."""
        if self._mode != "queue":
            return result
        queue, thread = self._queue(here), str(here.thread)
        while not isinstance(result, Paused) and (one := call(queue.first, queue.afirst, thread)) is not None:
            result = self._answered(one, here, options)
        if isinstance(result, Paused):
            return result.replace(queued=call(queue.count, queue.acount, thread))
        return result

    def _answered(self, one: Queued, here: Invocation, options: CallOptions) -> Result:
        """The turn of a message that waited. The checkpoint that has it takes it out; what a guard stops goes too."""
        prompts = [each for each in one.messages if isinstance(each, SystemMessage)]
        here.begin(new_turn_id(), one.by, prompts)
        config = graph_config(here, options, self._agent)
        config["configurable"].update(here.lease.configurable if here.lease else {})
        here.waited = one.no
        try:
            return self._start([*one.messages[len(prompts) :]], here, config, options)
        except Blocked:
            queue = self._queue(here)
            call(queue.drop, queue.adrop, one.thread, one.no)
            raise

    def _queue(self, here: Invocation) -> Any:
        queue = self._saver.inbound
        return queue.under(here.lease) if here.lease is not None else queue

    def _branch(self, head: Head, messages: list[BaseMessage], here: Invocation) -> Branch:
        """The history up to the pause in a form that a provider takes, and what the filters and tools know by then."""
        thread = str(here.thread)
        values: dict[str, Any] = {"messages": self._threads.settled(thread, head, WAITS)}
        if account := head.values.get("loop"):
            values["loop"] = Step(account["turn"], states=account["filters"]).plain()
        if slots := head.values.get("state"):
            values["state"] = dict(slots)
        if here.owner is None:
            here.owner = head.metadata.get("owner")
        return Branch(thread, f"{thread[:LONGEST]}#{str(here.turn)[:12]}", values, messages)

    def _beside(self, branch: Branch, here: Invocation, options: CallOptions, config: dict[str, Any]) -> Result:
        config["metadata"] = {**config["metadata"], "branch_of": branch.of}
        self._threads.seed(config, branch.values)
        try:
            return self._start(branch.messages, here, config, options)
        except Blocked:  # nobody is told the name of the branch: without a word of its own it is of no use
            if len(self._threads.head(config).messages) <= len(branch.values["messages"]):
                call(self._saver.delete_thread, self._saver.adelete_thread, str(here.thread))
            raise
