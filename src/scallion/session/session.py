"""A session: one thread of one agent as an object that a user holds.

It keeps nothing itself. Whatever it is asked it looks up, so that another process or another machine sees the same.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from importlib import import_module
from typing import Any, Unpack

from langchain_core.messages import BaseMessage

from scallion.bridge import call, enter_async
from scallion.errors import ConfigurationError
from scallion.events import Event
from scallion.options import CallOptions
from scallion.session.record import Record
from scallion.session.rerunning import Rerunning
from scallion.shown import Shown
from scallion.values import Approval, Completed, Paused

Result = Completed | Paused


class Session(Record, Rerunning, Shown, drawn_as="session"):
    """One conversation of an agent: it is sent messages, decided, read, rewound, forked.

    `agent.session(thread)` makes it, also for a thread that is not there yet. `owner`: whose it is; another owner's
    thread is unknown to it, and what it makes is theirs. `user`: who speaks. A verb takes no other ones. Each verb has
    its async half, named with an `a` in front, and so has what is looked up: `await session.ahistory()`. With a
    checkpointer of somebody else it runs turns, and knows `messages` and `pending`.
    """

    def send(self, input: Any, **options: Unpack[CallOptions]) -> Result:
        """Run one turn: `agent.invoke` on this thread."""
        return self._agent.invoke(input, thread=self.thread, **self._options(options))

    async def asend(self, input: Any, **options: Unpack[CallOptions]) -> Result:
        """As `send`."""
        return await self._agent.ainvoke(input, thread=self.thread, **self._options(options))

    def stream(self, input: Any, **options: Unpack[CallOptions]) -> Iterator[Event | Result]:
        """`agent.stream` on this thread."""
        return self._agent.stream(input, thread=self.thread, **self._options(options))

    def astream(self, input: Any, **options: Unpack[CallOptions]) -> AsyncIterator[Event | Result]:
        """As `stream`."""
        return self._agent.astream(input, thread=self.thread, **self._options(options))

    def resume(self, decisions: Any = None, *, by: str | None = None, **options: Unpack[CallOptions]) -> Result:
        """`agent.resume`: go on with a turn that paused or was interrupted."""
        return self._agent.resume(self.thread, decisions, by=by, **self._options(options))

    async def aresume(self, decisions: Any = None, *, by: str | None = None, **options: Unpack[CallOptions]) -> Result:
        """As `resume`."""
        return await self._agent.aresume(self.thread, decisions, by=by, **self._options(options))

    def stream_resume(
        self, decisions: Any = None, *, by: str | None = None, **options: Unpack[CallOptions]
    ) -> Iterator[Event | Result]:
        """`resume` as a stream of events."""
        return self._agent.stream_resume(self.thread, decisions, by=by, **self._options(options))

    def astream_resume(
        self, decisions: Any = None, *, by: str | None = None, **options: Unpack[CallOptions]
    ) -> AsyncIterator[Event | Result]:
        """As `stream_resume`."""
        return self._agent.astream_resume(self.thread, decisions, by=by, **self._options(options))

    def cancel(self) -> bool:
        """`agent.cancel`: stop the turn of the thread; whether there was one."""
        return self._now(self._cancel)

    async def acancel(self) -> bool:
        """As `cancel`."""
        return await enter_async(self._cancel)

    @property
    def messages(self) -> list[BaseMessage]:
        """The conversation as the thread has it."""
        return self._now(self._messages)

    async def amessages(self) -> list[BaseMessage]:
        """As `messages`."""
        return await enter_async(self._messages)

    @property
    def pending(self) -> list[Approval]:
        """What waits for somebody's decision, in the order of the calls."""
        return self._now(self._pending)

    async def apending(self) -> list[Approval]:
        """As `pending`."""
        return await enter_async(self._pending)

    @property
    def asked(self) -> list[Approval]:
        """As `pending`, with what of the open pause is decided or expired already."""
        return self._now(self._open)

    async def aasked(self) -> list[Approval]:
        """As `asked`."""
        return await enter_async(self._open)

    def decide(self, decisions: Any, decision: Any = None, *, by: str | None = None) -> list[Approval]:
        """Store decisions without going on; gives the approvals that are decided now, and `resume()` uses them.

        `decisions`: an approval's id and its `decision`, or what `resume` takes: `{approval_id: decision}`, or one
        decision for all that pend. Raises NotPaused, UnknownApproval, InvalidDecision, AlreadyDecided or
        ApprovalExpired; then nothing was stored.
        """
        return self._now(self._decide, decisions, decision, by)

    async def adecide(self, decisions: Any, decision: Any = None, *, by: str | None = None) -> list[Approval]:
        """As `decide`."""
        return await enter_async(self._decide, decisions, decision, by)

    def panel(self, *, by: str | None = None, **options: Unpack[CallOptions]) -> Any:
        """Cards with buttons for what waits here, and the turn goes on: `scallion.notebook.panel` of this session."""
        notebook = import_module("scallion.notebook")  # it stands above, and is there for who has the extra
        return notebook.panel(self, by=by, **options)

    def _messages(self) -> list[BaseMessage]:
        return list(self._threads.head(self._config).messages)

    def _pending(self) -> list[Approval]:
        return [one for one in self._open() if one.status == "pending"]

    def _open(self) -> list[Approval]:
        return self._threads.approvals(self._threads.head(self._config), self.thread)

    def _decide(self, decisions: Any, decision: Any, by: str | None) -> list[Approval]:
        if decision is not None and not isinstance(decisions, str):
            raise ConfigurationError("decide takes the id of an approval and its decision, or decisions alone")
        given = decisions if decision is None else {decisions: decision}
        return self._threads.record(self._config, self.thread, given, by)

    def _cancel(self) -> bool:
        if self._owner is not None and self._row() is None:
            return False
        return call(self._agent.cancel, self._agent.acancel, self.thread)
