"""The agent: what a user holds."""

from __future__ import annotations

import logging
import uuid
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, Literal, TypeVar, Unpack

from langchain_core.messages import BaseMessage
from langgraph.graph.state import CompiledStateGraph

from scallion.assembly import INHERIT, as_messages, as_saver, as_tools, check_choices, check_parts, split_system
from scallion.bridge import enter_async, enter_sync
from scallion.cancelling import Cancelling
from scallion.course import LoopPause, Resumption, Turn, new_turn_id
from scallion.errors import Blocked, ConfigurationError, LeaseLost, NotPaused, StorageError, ThreadError
from scallion.events import Event, TurnStarted
from scallion.filters.filter import CHAINS, NEEDS_SAVER, Filter, check, layers
from scallion.filters.masking import cleaner
from scallion.filters.state import StateRules
from scallion.history import is_transient, parted, with_ids
from scallion.holding import holding
from scallion.loop.admission import Admission
from scallion.loop.aside import Lending
from scallion.loop.graph import build_loop
from scallion.loop.invocation import Cancelled, Delivery, Invocation, current_invocation
from scallion.loop.platform import as_root
from scallion.loop.state import Limits
from scallion.models import as_model
from scallion.nesting.verbs import Nesting
from scallion.options import CallOptions, checked, graph_config, named_thread, new_invocation, taking_up, this_thread
from scallion.recording import Tracing, with_trace
from scallion.session.inside import First, Inside
from scallion.session.session import Session
from scallion.settling import UNKNOWN_OUTCOME
from scallion.shown import Shown
from scallion.stack import Stack
from scallion.streaming import astream, stream
from scallion.threads import Head, Threads
from scallion.turn import TurnRunner
from scallion.values import Approval, Completed, Paused, TurnRequest
from scallion.while_paused import Find, OnMessage, WhilePaused, check_mode

Result = Completed | Paused
T = TypeVar("T")
log = logging.getLogger("scallion")
INNERMOST = {"turn": "loop", "chat": "model", "tool": "tool"}


class Agent(Nesting, Shown, drawn_as="agent"):
    """A model, its tools and an onion of filters; each verb runs one turn on one thread.

    `model`: a chat model of langchain-core, or "provider:name" (needs the `langchain` extra and the provider's).
    `tools`: `BaseTool`s, typed functions with a docstring, dicts for tools that run at the provider.
    `filters`: the onion, outermost first. `system_prompt`: put in front of each model call, never stored.
    `checkpointer`: a saver, a database URL, "inherit" for an agent that only runs inside of other graphs, with theirs
    (`as_node`, `as_tool`, `as_graph`), or None: then a stack that can pause is refused.
    `limits`: the budgets of one turn. `name`: shown in sessions. `store`: LangGraph's store, for tools that want one.
    `context_schema`: the type of `env`, which tools see as `ToolRuntime.context`. `tool_concurrency`: how many calls
    of a batch run at once. `on_message_while_paused`: "refuse" a message with ThreadPaused; "supersede" the pause;
    "queue" the message until the pause is over; or answer it "alongside", in a thread of its own that begins like this.
    `on_changed`: "refuse" to resume, with PauseChanged, a pause whose tool, schema, gate or filters have changed since,
    or "ask" again about the call as it would run now.
    `resolve(cls)` makes instances of classes among the filters, and of those that input and output filters name: a
    container's lookup. `trace`: whether each turn keeps a trace of what it did, see `Completed.trace`.

    Raises ConfigurationError for parts that cannot work together.
    """

    def __init__(
        self,
        model: Any,
        *,
        tools: Sequence[Any] = (),
        filters: Iterable[Filter] = (),
        system_prompt: Any = None,
        checkpointer: Any = None,
        limits: Limits = Limits(),  # noqa: B008 - frozen
        name: str = "agent",
        context_schema: type | None = None,
        store: Any = None,
        on_message_while_paused: OnMessage = "refuse",
        on_changed: Literal["refuse", "ask"] = "refuse",
        tool_concurrency: int | None = None,
        trace: bool = True,
        resolve: Callable[[type], Any] | None = None,
    ) -> None:
        self.name = name
        self.limits = limits
        self.filters = check(filters, resolve)
        own_tools = [tool for one in self.filters for tool in one.tools]
        self.tools = as_tools(tools, own_tools)
        self.checkpointer = as_saver(checkpointer)
        by_name = {tool.name: tool for tool in self.tools if not isinstance(tool, dict)}
        check_parts(self.filters, by_name, INHERIT if checkpointer == INHERIT else self.checkpointer)
        check_choices(limits, tool_concurrency, on_changed, resolve)
        check_mode(on_message_while_paused, self.checkpointer)
        model = as_model(model)
        self._rules = StateRules(self.filters)
        self._clean = cleaner(self.filters)
        self._holds_stream = any(one.holds_stream for one in self.filters)
        self._conceals = any(one.conceals_stream for one in self.filters)
        self._transforms = [(one.name, one.token_transform) for one in self.filters if one.token_transform]
        self.graph: CompiledStateGraph[Any, Any, Any, Any] = build_loop(
            model=model,
            tools=self.tools,
            filters=self.filters,
            rules=self._rules,
            limits=limits,
            system_prompt=system_prompt,
            tool_concurrency=tool_concurrency,
            checkpointer=self.checkpointer,
            store=store,
            context_schema=context_schema,
            name=name,
        )
        self._has_context = context_schema is not None
        self.stack = Stack(self.filters, by_name)
        lending = Lending(model, limits, resolve)
        admit = Admission(self.filters, self._rules, lending)
        self._threads = Threads(
            self.graph, self.checkpointer, self.stack, on_message_while_paused, on_changed, admit.judge
        )
        self._cancelling = Cancelling(self.checkpointer, self._threads, name)
        self._waiting = WhilePaused(on_message_while_paused, self.checkpointer, self._threads, name, self._start, admit)
        self._trace = trace
        self._turns = TurnRunner(self.graph, self.filters, self._rules, lending, Tracing(self.filters, on=trace))

    @property
    def layers(self) -> dict[str, list[str]]:
        """The names of the filters around each chain, outermost first."""
        return {chain: [one.name for one in layers(self.filters, chain)] for chain in CHAINS}

    def __repr__(self) -> str:
        onion = "".join(
            f"\n  {chain}: {' > '.join([*names, INNERMOST[chain]])}" for chain, names in self.layers.items()
        )
        return f"Agent({self.name!r}){onion}"

    # One verb, two colours, streamed or not: all of them run `_start` or `_resume`.

    def invoke(self, input: Any, *, thread: str | None = None, **options: Unpack[CallOptions]) -> Result:
        """Run one turn: Completed with the answer, or Paused with what a person has to decide.

        `input` is a text, a message, or a list of messages (OpenAI dicts too). `thread` names the conversation;
        without a checkpointer it is only a name. One that waits for a person: see `on_message_while_paused`.
        Raises ThreadPaused, ThreadBusy, ModelError, FilterError, LimitExceeded.
        """
        return self._sync(*self._starting(input, thread, options))

    async def ainvoke(self, input: Any, *, thread: str | None = None, **options: Unpack[CallOptions]) -> Result:
        """`invoke` on the running event loop."""
        return await enter_async(self._starting(input, thread, options)[0])

    def stream(
        self, input: Any, *, thread: str | None = None, **options: Unpack[CallOptions]
    ) -> Iterator[Event | Result]:
        """The events of the turn as they happen, then Completed or Paused; closing the stream stops the turn."""
        return stream(*self._starting(input, thread, options))

    def astream(
        self, input: Any, *, thread: str | None = None, **options: Unpack[CallOptions]
    ) -> AsyncIterator[Event | Result]:
        """`stream` on the running event loop."""
        return astream(*self._starting(input, thread, options))

    def resume(
        self, thread: str, decisions: Any = None, *, by: str | None = None, **options: Unpack[CallOptions]
    ) -> Result:
        """Go on with a turn that paused or was interrupted.

        `decisions`: `{approval_id: decision}`, one decision for all that pend, or None for those that were recorded.
        Decisions for some of the approvals are fine. A decision that may not be stored is refused before anything is:
        raises UnknownApproval, InvalidDecision, AlreadyDecided, ApprovalExpired, PauseChanged; NotPaused where there is
        nothing to resume, or the turn was cancelled. `by` says who decided. Messages that were queued meanwhile are
        answered behind it, each with a turn of its own; the result is the last turn's.
        """
        return self._sync(*self._resuming(thread, decisions, by, options))

    async def aresume(
        self, thread: str, decisions: Any = None, *, by: str | None = None, **options: Unpack[CallOptions]
    ) -> Result:
        """`resume` on the running event loop."""
        return await enter_async(self._resuming(thread, decisions, by, options)[0])

    def stream_resume(
        self, thread: str, decisions: Any = None, *, by: str | None = None, **options: Unpack[CallOptions]
    ) -> Iterator[Event | Result]:
        """`resume` as a stream of events."""
        return stream(*self._resuming(thread, decisions, by, options))

    def astream_resume(
        self, thread: str, decisions: Any = None, *, by: str | None = None, **options: Unpack[CallOptions]
    ) -> AsyncIterator[Event | Result]:
        """`stream_resume` on the running event loop."""
        return astream(*self._resuming(thread, decisions, by, options))

    def cancel(self, thread: str) -> bool:
        """Stop the turn of a thread; returns whether there was one.

        A turn that runs, in this process or another one, stops before its next model or tool call (one elsewhere hears
        of it at its next write) and is closed, as a paused or interrupted one is: its open calls are answered
        "cancelled", its approvals marked so. Nothing goes on with it; the thread takes a new message.
        """
        with enter_sync():
            return self._cancelling.cancel(thread)

    async def acancel(self, thread: str) -> bool:
        """`cancel` on the running event loop."""
        return await enter_async(self._cancelling.cancel, thread)

    def recover(self, thread: str, **options: Unpack[CallOptions]) -> Result | None:
        """Go on with a turn that a crash interrupted; None where there is none.

        A thread whose holder died on this machine is free at once, that of another machine when its lease expires:
        until then, or while it runs, ThreadBusy is raised. A tool that ran when the process died is run again, unless
        `filters.once` guards it: whether it took effect is not known.
        """
        try:
            return self.resume(thread, **options)
        except NotPaused:
            return None

    async def arecover(self, thread: str, **options: Unpack[CallOptions]) -> Result | None:
        """`recover` on the running event loop."""
        try:
            return await self.aresume(thread, **options)
        except NotPaused:
            return None

    def session(self, thread: str, *, owner: str | None = None, user: str | None = None) -> Session:
        """The conversation of that name, there or not yet, as an object: see `Session`. Needs a checkpointer."""
        inside = Inside(self._threads, self._again, self._further)
        return Session(self, inside, thread, owner=owner, user=user)

    def _sync(self, work: Callable[[], Result], here: Invocation) -> Result:
        with enter_sync():
            return work()

    def _starting(
        self, input: Any, thread: str | None, options: CallOptions
    ) -> tuple[Callable[[], Result], Invocation]:
        named = named_thread(thread, checked(options))
        leading, messages = split_system(as_messages(input))
        here = self._invocation(named or uuid.uuid4().hex, options)
        leading = leading if self._clean is None else self._clean(leading)
        here.anonymous = self.checkpointer is None and named is None and here.owner is None and here.user is None
        here.prompts, here.leading = (*here.prompts, *leading), leading
        return partial(self._waiting.begin, self._claimed, lambda here: messages, here, options), here

    def _again(self, thread: str, find: Find, options: CallOptions) -> Result:
        here = self._invocation(this_thread(thread, checked(options)), options)
        return self._waiting.begin(self._claimed, find, here, options)

    def _further(self, thread: str, first: First, options: CallOptions) -> Result:
        return self._resuming(thread, None, None, options, first)[0]()

    def _resuming(
        self, thread: str, decisions: Any, by: str | None, options: CallOptions, first: First | None = None
    ) -> tuple[Callable[[], Result], Invocation]:
        if self.checkpointer is None:
            raise ConfigurationError(f"resume() needs a checkpointer: {NEEDS_SAVER}")
        here = self._invocation(this_thread(thread, checked(options)), options)

        def going_on(config: dict[str, Any]) -> Result:
            if first is not None:
                first(here)
            resume = partial(self._resume, here, config, decisions, by, options)
            return self._waiting.resumed(resume, here, options, decides=decisions is not None)

        return partial(self._claimed, here, options, going_on, new=False), here

    def _invocation(self, thread: str, options: CallOptions) -> Invocation:
        return new_invocation(new_turn_id(), thread, options, getattr(self.checkpointer, "owner", None), self._clean)

    def _claimed(self, here: Invocation, options: CallOptions, run: Callable[[dict[str, Any]], T], *, new: bool) -> T:
        """Run a turn while no other one runs on its thread."""
        config = graph_config(here, options, self.name)
        if here.emit is not None:
            here.delivery = Delivery(self._transforms, here.emit, holds=self._holds_stream, conceals=self._conceals)
        try:
            with as_root(), holding(self.checkpointer, here, config, seconds=options.get("wait") or 0, new=new):
                result = self._cancelling.heeded(run, here, config)
        except Cancelled:
            if here.lease is not None and here.lease.lost:
                raise LeaseLost(str(here.thread)) from None
            raise ThreadError(str(here.thread), f"the turn on thread {here.thread!r} was cancelled") from None
        return with_trace(result, here, self.checkpointer, on=self._trace)

    def _graph_options(self, here: Invocation, options: CallOptions) -> dict[str, Any]:
        chosen: dict[str, Any] = {}
        if self.checkpointer is not None:
            chosen["durability"] = options.get("durability") or "sync"
        if self._has_context:
            chosen["context"] = here.env
        return chosen

    def _start(
        self, messages: list[BaseMessage], here: Invocation, config: dict[str, Any], options: CallOptions
    ) -> Result:
        commits = self._turns.wraps_turns or any(map(is_transient, messages))
        head = None
        if self.checkpointer is not None:
            self._threads.check_owner(str(here.thread), here.owner)
            named = any(one.id for one in messages)
            head = self._threads.ready(config, str(here.thread), messages, full=commits or named)
            if head is not None and head.marker:
                head = self._finish_open_turn(messages, here, config, options, head)
        head, messages = self._threads.without_removals(config, head, messages)
        messages = with_ids(messages, taken=head.messages if head else ())
        base = (list(head.messages) if head else []) if commits else None
        request = TurnRequest(messages, context=here.context(head.values if head else {}, here.turn))
        options_ = self._graph_options(here, options)
        durable = self.checkpointer is not None
        turn = Turn(str(here.turn), here, taking_up(here, config), request, base, options_, durable)
        if head is not None:
            turn.resumption = Resumption(head.values, None)
        return self._run(turn)

    def _finish_open_turn(
        self, given: list[BaseMessage], here: Invocation, config: dict[str, Any], options: CallOptions, head: Head
    ) -> Head:
        """The turn before was not committed: do the rest of it, or give it up where a filter fails on it again."""
        config = {**config}  # who began it is not who begins the next one
        who = {"owner": here.owner, "user": here.user, "env": here.env}
        before = Invocation(thread=here.thread, lease=here.lease, parts=here.parts, **who)
        turn = self._continued(before, config, options, head, Resumption(head.values, None, ended=True), True)
        before.turn = turn.id
        token = current_invocation.set(before)  # its time and counts are not those of the turn that begins
        try:
            self._turns.run(turn)
        except LoopPause:  # it asks a person: the new message finds a paused thread
            self._threads.ready(config, str(here.thread), given, full=True)
        except Exception as error:
            if isinstance(error, StorageError | ThreadError):  # of no filter: the next message tries again
                raise
            log.warning("the open turn of thread %r was given up: %s", here.thread, type(error).__name__)
            return self._threads.close(config, str(here.thread), self._threads.head(config), UNKNOWN_OUTCOME, None)
        finally:
            current_invocation.reset(token)
        return self._threads.head(config)

    def _resume(
        self, here: Invocation, config: dict[str, Any], decisions: Any, by: str | None, options: CallOptions
    ) -> Result:
        self._threads.check_owner(str(here.thread), here.owner)
        head = self._cancelling.whole(here, config)
        found = self._threads.decided(config, head, str(here.thread), decisions, by)
        if not isinstance(found, Resumption):
            here.turn = head.turn or here.turn
            return self._paused(found, head.messages, here)
        turn = self._continued(here, config, options, head, found, found.answers or found.held or True)
        here.turn = turn.id
        return self._run(turn)

    def _continued(
        self,
        here: Invocation,
        config: dict[str, Any],
        options: CallOptions,
        head: Any,
        resumption: Resumption,
        why: Any,
    ) -> Turn:
        marker, account = head.marker or {}, head.values.get("loop") or {}
        turn_id = marker.get("id") or account.get("turn") or str(here.turn)
        config["metadata"] = here.go_on(head.metadata, config["metadata"])
        here.raised = None if resumption.answers else account.get("failure", {}).get("key")
        here.spent_before = account.get("counts", {}).get("seconds", 0.0)
        context = here.context(head.values, turn_id)
        given = marker.get("request") or [] if marker else parted(head.messages)[1]
        request = TurnRequest(given, resume=why, context=context)
        options_ = self._graph_options(here, options)
        if resumption.held_id is not None and not resumption.begins_anew:
            # The checkpoint that comes next says which approval it answers.
            config["metadata"] = {**config["metadata"], "answered": resumption.held_id}
        return Turn(turn_id, here, config, request, None, options_, resumption=resumption)

    def _run(self, turn: Turn) -> Result:
        here = turn.here
        if here.emit is not None:
            here.emit(TurnStarted(here.thread, turn.id))
        try:
            return self._turns.run(turn)
        except LoopPause as pause:
            approvals = self._threads.paused(pause, turn.config, str(here.thread))
            return self._paused(approvals, pause.messages, here)
        except Blocked as error:
            if self.checkpointer is not None and any(one.name == error.guard and one.mask for one in self.filters):
                self._threads.drop(turn.config, str(here.thread))
            raise

    def _paused(self, approvals: Sequence[Approval], messages: Sequence[BaseMessage], here: Invocation) -> Paused:
        if here.delivery is not None:
            here.delivery.keep()
        return Paused(list(approvals), messages, here.thread, here.turn)
