"""What one public call brings along: who asks, the budgets in use, where events go. Never stored."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import datetime
from types import MappingProxyType
from typing import Any, Protocol

from langchain_core.messages import AIMessage, SystemMessage

from scallion.errors import LimitExceeded
from scallion.events import Event, ModelFinished, Reasoning, Retracted, Token, ToolCallDelta
from scallion.filters.filter import is_async
from scallion.filters.filtering import Means
from scallion.filters.retrying.deadline import is_over
from scallion.filters.tokens import Pipeline, TokenTransform
from scallion.loop.state import Limits
from scallion.tracing.recorder import Ended, Recorder
from scallion.values import EMPTY, Context

Emit = Callable[[Event], None]


class Cancelled(BaseException):
    """The turn was cancelled from outside, or lost its thread: it stops at the next model or tool call."""


class Lease(Protocol):
    """The right to run the thread in all processes, from a saver that gives it."""

    holder: str
    since: datetime | None
    status: str | None
    """What the thread was when it was given: "idle", "running", "paused" or "failed"; None where it is new."""
    lost: bool
    asked_to_stop: bool
    was_cancelled: bool
    """Whether the turn before, whose holder is gone, was to stop."""
    parts: list[Ended]
    """What is kept of traces when it is released."""
    steps: int
    """How many steps of the outermost graph were stored under it."""

    @property
    def configurable(self) -> Mapping[str, Any]:
        """What the config of the turn carries, so that all it writes can be compared with the right."""

    def is_over(self) -> bool:
        """Whether the turn is to stop."""


@dataclass(slots=True)
class Invocation:
    """One call of a public verb. `turn` is None for the bare graph, which names its turns itself."""

    turn: str | None = None
    thread: str | None = None
    owner: str | None = None
    user: str | None = None
    env: Any = None
    asked: Collection[str | None] = ()
    """The ids of the messages that the turn was given; none where they are not known any more."""
    prompts: Sequence[SystemMessage] = ()
    """System prompts of this call, behind the agent's; never stored."""
    leading: Sequence[SystemMessage] = ()
    """Those of them that led the input."""
    filters_env: Any = None
    means: Means | None = None
    """What the agent lends to its filters in the turn that runs."""
    emit: Emit | None = None
    delivery: Delivery | None = None
    started: float = field(default_factory=lambda: time.monotonic())
    spent_before: float = 0.0
    """Seconds that the turn was active in earlier calls."""
    lost: dict[str, float] = field(default_factory=dict)
    """Counts of nodes that failed, and so could not write them."""
    raised: str | None = None
    """The key of a failure of a tool call that failed the turn before; it goes on now."""
    cancelled: bool = False
    """Whether the turn stops before its next call."""
    given_up: bool = False
    """Whether it is closed then, as somebody cancelled it."""
    is_resumed: bool = False
    began_by: str | None = None
    """Who began the turn that is resumed, if they were named."""
    only_own: bool = False
    """Whether the thread of nobody does not become the owner's."""
    anonymous: bool = False
    """Whether the caller named neither thread nor owner nor user."""
    lease: Lease | None = None
    clean: Callable[..., Any] | None = None
    """Takes out of a value, before any turn sees it, what no table may hold (`masking.cleaner`)."""
    agents: tuple[str, ...] = ()
    """The agents from the outermost one, without it, in to the one that runs: where it runs in a task of another."""
    traced: bool = False
    """Whether each of them is a tool of the one before, so that the outermost one can look each up."""
    place: tuple[int, ...] = ()
    """The place in its batch of the call that each of them answers, from the outermost one in."""
    around: Invocation | None = None
    """That of the agent around it, whose end is its own."""
    waited: int | None = None
    """The number of the message that the turn answers, where that waited for the end of a pause."""
    edited: Mapping[str, Collection[str | None]] = field(default_factory=dict)
    """Of a turn that is run again, by input filter, the ids of the messages that it has edited the first time."""
    trace: Recorder | None = None
    """Records the turn that runs, where it is to have a trace."""
    parts: list[Ended] = field(default_factory=list)
    """What was recorded of the turns of this call, as far as they have come to an end."""

    def begin(self, turn: str, user: str | None, prompts: Sequence[SystemMessage]) -> None:
        """Another turn of the same call begins; what was delivered of the one before stands."""
        self.turn, self.user, self.prompts, self.leading = turn, user, prompts, prompts
        self.is_resumed, self.began_by, self.waited = False, None, None
        self.started, self.spent_before = time.monotonic(), 0.0
        self.lost = {}
        if self.delivery is not None:
            self.delivery.keep()

    def context(self, state: Mapping[str, Any], turn: str | None, env: Any = None) -> Context:
        """What a request shows of all this; `state` is the shared state at the start of the round."""
        shared = MappingProxyType(slots) if (slots := state.get("state")) else EMPTY
        env = self.env if self.env is not None else env
        return Context(env=env, state=shared, user=self.user, owner=self.owner, thread=self.thread, turn=turn)

    def go_on(self, before: Mapping[str, Any], metadata: Mapping[str, Any]) -> dict[str, Any]:
        """A turn is resumed, for who began it, whoever resumes it; gives the metadata of its checkpoints."""
        self.is_resumed, self.began_by = True, before.get("user")
        self.owner, self.user = self.owner or before.get("owner"), self.began_by or self.user
        who = {"owner": self.owner, "user": self.began_by}
        rest = {name: value for name, value in metadata.items() if name not in who}
        return rest | {name: value for name, value in who.items() if value is not None}

    @property
    def subject(self) -> dict[str, Any]:
        """Who is behind a question that a filter asks: who began the turn, and whose thread it is."""
        return {"user": self.began_by if self.is_resumed else self.user, "owner": self.owner}

    @property
    def is_stopped(self) -> bool:
        """Whether the turn is to stop before its next call."""
        stopped = self.cancelled or (self.lease is not None and self.lease.is_over())
        return stopped or (self.around is not None and (is_over() or self.around.is_stopped))

    @property
    def within(self) -> dict[str, int]:
        """How deep in other agents it runs, for what a question is bound to, where these are known."""
        return {"agents": len(self.agents)} if self.traced else {}

    def seconds(self) -> float:
        """How long the turn has been active."""
        return self.spent_before + time.monotonic() - self.started


current_invocation: ContextVar[Invocation | None] = ContextVar("scallion_invocation", default=None)


_surrounding: ContextVar[Invocation | None] = ContextVar("scallion_surrounding", default=None)


def surrounding() -> Invocation | None:
    """The invocation of the agent whose node or tool runs; None where none does."""
    return current_invocation.get() or _surrounding.get()


@contextmanager
def set_aside() -> Iterator[None]:
    """Within the block, in which a tool runs, nothing is of the turn; only `surrounding` tells of it."""
    here = current_invocation.get()
    around = _surrounding.set(here or _surrounding.get())
    token = current_invocation.set(None)
    try:
        yield
    finally:
        current_invocation.reset(token)
        _surrounding.reset(around)


def invocation() -> Invocation:
    """The running invocation; a fresh one for a graph that is used without an Agent."""
    found = current_invocation.get()
    return Invocation() if found is None else found


TOKENS = ("input_tokens", "output_tokens", "total_tokens")


class Budget:
    """The limits of a turn against what it has used; asked before each call."""

    def __init__(
        self,
        limits: Limits,
        counts: Mapping[str, float],
        invocation: Invocation,
        prompts: tuple[SystemMessage, ...] = (),
    ) -> None:
        self._limits = limits
        self._stored = counts
        self.invocation = invocation
        self._ends = limits.seconds
        self.prompts = prompts
        """The system prompts that the model call puts in front."""
        self.made: dict[str, float] = {}
        """What the running node has used; it is written with the node's result."""

    def used(self, name: str) -> float:
        """How much the turn has used of this count."""
        return self._stored.get(name, 0) + self.invocation.lost.get(name, 0) + self.made.get(name, 0)

    def seconds(self) -> float:
        """How long the turn has been active."""
        return self.invocation.seconds()

    def check_model_call(self) -> None:
        """Raise LimitExceeded unless one more model call fits."""
        if self._limits.model_calls is not None and self.used("model_calls") >= self._limits.model_calls:
            raise LimitExceeded("model_calls", self.used("model_calls"), self._limits.model_calls)
        self.check_flow()

    def check_flow(self) -> None:
        """Raise LimitExceeded where tokens or seconds are used up, Cancelled where the turn is to stop."""
        if self.invocation.is_stopped:
            raise Cancelled
        if self._limits.tokens is not None and self.used("total_tokens") >= self._limits.tokens:
            raise LimitExceeded("tokens", self.used("total_tokens"), self._limits.tokens)
        if self._limits.seconds is not None and (seconds := self.seconds()) >= self._limits.seconds:
            raise LimitExceeded("seconds", seconds, self._limits.seconds)

    def seconds_left(self) -> float | None:
        """How long the turn may still be active; None where there is no limit. Raises Cancelled where it is to stop."""
        if self.invocation.is_stopped:
            raise Cancelled
        return None if self._ends is None else self._ends - self.seconds()

    def end_at(self, seconds: float) -> None:
        """Let nothing wait beyond the time when the turn has been active for so long."""
        self._ends = seconds if self._ends is None else min(self._ends, seconds)

    def limit_on_tool(self, position: int) -> str | None:
        """The limit that cuts off the call at this place of its batch, if one does."""
        if self._limits.tool_calls is not None and self.used("tool_calls") + position >= self._limits.tool_calls:
            return "tool_calls"
        try:
            self.check_flow()
        except LimitExceeded as error:
            return error.limit
        return None

    def exceeded(self, limit: str) -> LimitExceeded:
        """The error for a limit that cut a batch."""
        allowed = getattr(self._limits, limit) or 0
        used = self.seconds() if limit == "seconds" else self.used({"tokens": "total_tokens"}.get(limit, limit))
        return LimitExceeded(limit, used, allowed)

    def begin_model_call(self) -> None:
        """Count one model call, before it is made: one that is broken off was made too. Raises LimitExceeded."""
        self.check_model_call()
        self.made["model_calls"] = self.made.get("model_calls", 0) + 1

    def add_usage(self, usage: Mapping[str, Any] | None) -> None:
        """Count the tokens that the provider reports."""
        for name in TOKENS if usage else ():
            if tokens := usage.get(name):  # type: ignore[union-attr]
                self.made[name] = self.made.get(name, 0) + tokens

    def counts(self) -> dict[str, float]:
        """What the node adds to the account of the turn."""
        return {**self.made, "seconds": round(self.seconds(), 3)}

    def lose(self) -> None:
        """Keep the counts of a node that fails for the rest of this invocation."""
        lost = self.invocation.lost
        for name, value in self.made.items():
            lost[name] = lost.get(name, 0) + value
        self.made.clear()


class Delivery:
    """What a reader has been given of the answer: what does not stand is retracted before what replaces it."""

    def __init__(
        self,
        transforms: Sequence[tuple[str, TokenTransform]],
        emit: Emit,
        *,
        holds: bool = False,
        conceals: bool = False,
    ) -> None:
        self._holds = holds
        """Whether nothing is delivered before the turn has come to its answer."""
        self._conceals = conceals
        """Whether nothing else of what a model wrote is delivered either."""
        self._transforms = transforms
        self.may_wait = any(one.may_wait or is_async(one.step) or is_async(one.flush) for _, one in transforms)
        """Whether a piece may have to wait for a transform: on a running loop it is pushed through `bridge.spawn`."""
        self._emit = emit
        self._call: str | None = None
        self._delivered = False
        self._is_half = False
        """Whether pieces of another kind than text were delivered of a call that has not ended."""
        self.behind: Sequence[tuple[str, TokenTransform]] = ()
        """Transforms behind all others: what the reader of the stream gets in place of what is stored."""
        self._raw: list[str] = []
        self._pipeline: Pipeline | None = None

    def begin(self) -> str:
        """Start the text of a model call and return the call's name; what was delivered before it is retracted."""
        self.retract()
        self._call = uuid.uuid4().hex
        self._pipeline = None if self._holds else Pipeline([*self._transforms, *self.behind], self._deliver)
        return self._call

    def push(self, text: str, meta: Mapping[str, Any] | None = None) -> None:
        """One raw piece of text."""
        if self._pipeline is not None and text:
            self._raw.append(text)
            self._pipeline.push(Token(text, meta or {}, self._call or ""))

    def add(self, piece: Reasoning | ToolCallDelta) -> None:
        """Deliver a piece of another kind, which stands when its call has come to its end."""
        if not self._conceals:
            self._is_half = True
            self._emit(piece)

    def tell_end(self, message: AIMessage, usage: Mapping[str, Any]) -> None:
        """Tell that a model call has ended."""
        self._emit(ModelFinished(AIMessage("", id=message.id) if self._conceals else message, usage))

    def end(self) -> None:
        """The text is whole: flush the transforms."""
        self._is_half = False
        if self._pipeline is not None:
            self._pipeline.close()
            self._pipeline = None

    def settle(self, text: str) -> None:
        """`text` is what stands: deliver it where something else, or nothing, was delivered."""
        if "".join(self._raw) != text and not self._holds:
            self.begin()
            self.push(text)
            self.end()

    def finish(self, text: str) -> None:
        """`text` is the answer of the turn, and what was held of it is delivered now."""
        holds, self._holds = self._holds, False
        try:
            self.settle(text)
        finally:
            self._holds = holds

    def keep(self) -> None:
        """What was delivered stands for good: a later model call adds to it."""
        self._call, self._delivered, self._is_half, self._raw = None, False, False, []

    def retract(self) -> None:
        """Take back what was delivered and did not stand."""
        if (self._delivered or self._is_half) and self._call is not None:
            self._emit(Retracted(self._call))
        self._pipeline = None
        self.keep()

    def _deliver(self, token: Token) -> None:
        self._delivered = True
        self._emit(token if token.call else token.replace(call=self._call or ""))
