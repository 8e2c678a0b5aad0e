"""`limit_calls`: how much a turn or a thread may use, and what becomes of it at the limit."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal, TypedDict, get_args

from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.messages.ai import UsageMetadata

from scallion.bridge import awaited
from scallion.errors import ConfigurationError, LimitExceeded, ModelError
from scallion.filters.filter import NEEDS_SAVER, Filter
from scallion.filters.given import is_number
from scallion.filters.journal import current_frame
from scallion.filters.pausing import ask, was_asked
from scallion.filters.replies import final, is_ended
from scallion.filters.usage import Prices, checked_prices, cost_of, model_of, price_of, tokens_of
from scallion.values import ChatReply, ChatRequest, ToolReply, ToolRequest

Per = Literal["turn", "thread"]
Exit = Literal["error", "finish", "ask"]
Price = Callable[[AIMessage], Any]
Amounts = dict[str, float]
START: dict[str, Any] = {"used": {}, "more": {}, "time": [0, None, 0], "stopped": None}
COUNTS = {"model_calls": "model_calls", "tokens": "total_tokens"}
"""What the loop counts too, and its names for it."""
STOP = "limit"
"""The finish reason of what ends a turn at a limit: no model made it, so that a limit around it does not count it."""
FLOW = ("tokens", "cost", "seconds")
"""What answers and time use up: all that can be done about it is not to make the next call."""


def added(before: Mapping[str, float], new: Mapping[str, float]) -> Amounts:
    """The sum of two tables, without the dust of binary fractions."""
    return {**before, **{name: round(before.get(name, 0) + value, 12) for name, value in new.items()}}


def larger(before: Mapping[str, float], new: Mapping[str, float]) -> Amounts:
    """The larger of each amount: calls that are allowed side by side are allowed the same room, not twice of it."""
    return {**before, **{name: max(before.get(name, 0), value) for name, value in new.items()}}


def more_for(used: float, limit: float) -> float:
    """How many times `limit` again has to be allowed, so that there is room beyond `used`; as an amount."""
    return limit * math.floor(used / limit + 1e-9)


def timed(time: list[Any], turn: str | None, seconds: float) -> list[Any]:
    """`[seconds of the turns before, turn, its seconds]`, now that this turn has been active so long."""
    before, last, its = time
    return [before if last == turn else before + its, turn, seconds]


class LimitState(TypedDict):
    """What was used, what was allowed on top, the time of the turns, and `[turn, limit]` where one was stopped."""

    used: Annotated[Amounts, added]
    more: Annotated[Amounts, larger]
    time: list[Any]
    stopped: list[Any] | None


class LimitCalls(Filter):
    """Counts model calls inside of all other filters and tool calls outside of them, wherever it is in the list.

    So each attempt of a retry is a model call, and what a cache answers is none. A tool call is what the model made,
    whatever comes of it, and nobody is asked to approve one that is cut off.
    """

    init = START
    state_schema = LimitState
    innermost = ("chat",)
    outermost = ("tool",)
    sees_malformed = True

    def __init__(
        self, limits: Amounts, prices: Prices | Price, per: Per, exit: Exit, answer: str | None, name: str
    ) -> None:
        super().__init__(name, scope=per)
        self.can_pause = exit == "ask"
        self.limits = limits
        self.exit = exit
        self._prices = prices
        self._answer = answer

    def check_tools(self, names: frozenset[str]) -> None:
        """Raise ConfigurationError for a tool that is not there: a typing error would leave one without a limit."""
        limited = {limit.partition(":")[2] for limit in self.limits if ":" in limit}
        if unknown := sorted(limited - names):
            there = ", ".join(sorted(names)) or "none"
            raise ConfigurationError(f"filter {self.name!r} limits {unknown[0]!r}, but the tools are {there}")

    def check_saver(self, saver: Any) -> None:
        """Raise ConfigurationError where nobody would remember what the thread has used."""
        super().check_saver(saver)
        if self.scope == "thread" and saver is None:
            raise ConfigurationError(f"filter {self.name!r} counts per thread: {NEEDS_SAVER}")

    def around_chat(self, request: ChatRequest, state: Any, next: Any) -> Any:
        """Make the call if there is room for it, and count it."""
        call = _Call(self, request, state)
        call.bound_waits()
        if call.is_stopped or any(call.is_cut_by(limit) for limit in ("model_calls", *FLOW)):
            return ChatReply(self._final(call.exceeded(state["stopped"][1]), aside=request.aside))
        state.update(used={"model_calls": 1})  # at once: one that fails was made too
        try:
            reply: ChatReply = next(request)
        except ModelError as error:
            if isinstance(error.__cause__, LimitExceeded):
                state.update(used={"model_calls": -1})
            raise
        is_stop = reply.message.response_metadata.get("finish_reason") == STOP and is_ended(reply.message)
        used = {"model_calls": -1} if is_stop else self._used_by(reply.message, request.model)
        return reply, {"used": used, "time": call.time()}

    def around_tool(self, request: ToolRequest, state: Any, next: Any) -> Any:
        """Run the call if there is room for it behind those of its batch that come before it, and count it."""
        call, tool = _Call(self, request, state), request.call["name"]
        call.bound_waits()
        before = {"tool_calls": _position(request), f"tool_calls:{tool}": _position(request, tool)}
        if self.exit != "ask":  # a person is asked about those once, before the next model call
            before |= dict.fromkeys(FLOW, 0)
        for limit, others in before.items():
            if call.is_cut_by(limit, others):
                return _not_run(request, call.exceeded(limit))
        return next(request), {"used": {limit: 1 for limit in before if limit in self.limits and limit not in FLOW}}

    def _final(self, stopped: LimitExceeded, *, aside: bool) -> AIMessage:
        """What ends the turn; raises where that is an error, also one of a batch that paused in between."""
        if self.exit == "error":
            raise stopped
        if aside:  # another filter asks for itself, and goes on without an answer
            raise ModelError("semantic", f"not asked: {stopped}") from stopped
        told = {"finish_reason": STOP, "limit": stopped.limit}
        return final(AIMessage(self._answer or f"Stopped: {stopped}.", response_metadata=told))

    def _used_by(self, message: AIMessage, model: Any) -> Amounts:
        used: Amounts = {}
        if "tokens" in self.limits:
            used["tokens"] = self._tokens(message)["total_tokens"]
        if "cost" in self.limits:
            used["cost"] = self._cost(message, model)
        return used

    def _cost(self, message: AIMessage, model: Any) -> float:
        if callable(self._prices):
            return self._checked(float(awaited(self._prices(message))))
        self._tokens(message)
        model_name = model_of(message, model)
        price = price_of(model_name, self._prices)
        if price is None:
            raise ConfigurationError(f"filter {self.name!r} limits the cost, and prices= has none for {model_name!r}")
        return cost_of(tokens_of(message), price)

    def _checked(self, cost: float) -> float:
        """What a function of prices gave; one that takes something off would leave the turn without a limit."""
        if not 0 <= cost < math.inf:
            raise ConfigurationError(f"filter {self.name!r}: prices= gave {cost!r}: have it give a number from zero up")
        return cost

    def _tokens(self, message: AIMessage) -> UsageMetadata:
        if message.usage_metadata is None:
            raise ConfigurationError(
                f"filter {self.name!r} limits tokens or cost, and the model tells of no tokens: have its client do so "
                "(such as stream_usage=True), or give prices= a function"
            )
        return message.usage_metadata


class _Call:
    """One call on its way past the limits."""

    def __init__(self, owner: LimitCalls, request: Any, state: Any) -> None:
        self._owner = owner
        self._state = state
        self._turn = request.context.turn

    @property
    def is_stopped(self) -> bool:
        """Whether its turn came to a limit before."""
        stopped = self._state["stopped"]
        return stopped is not None and stopped[0] == self._turn

    def is_cut_by(self, limit: str, others: int = 0) -> bool:
        """Whether there is no room for it, behind so many `others`; pauses where a person is to say so."""
        owner = self._owner
        if limit not in owner.limits:
            return False
        asked = owner.exit == "ask" and was_asked(limit)  # also where less was used, by the clock, than at the pause
        used = self._used(limit) + others
        if used < self._allowed(limit) and not asked:
            return False
        exceeded = self.exceeded(limit)
        if owner.exit == "ask" and _goes_on(exceeded):
            room = more_for(max(used, exceeded.allowed), owner.limits[limit])
            self._state.update(more={limit: room})
            return False
        self._state.update(stopped=[self._turn, limit])
        return True

    def exceeded(self, limit: str) -> LimitExceeded:
        """The error for this limit. What others of the batch take up counts as used."""
        allowed = self._allowed(limit)
        return LimitExceeded(limit, max(self._used(limit), allowed), allowed, self._owner.scope)

    def bound_waits(self) -> None:
        """Let no retry wait for a call that would come too late."""
        clock = current_frame.get().run.clock
        if clock is not None and "seconds" in self._owner.limits and self._owner.exit != "ask":
            clock.end_at(self._allowed("seconds") - self.time()[0])

    def time(self) -> list[Any]:
        """The time of the turns, now."""
        clock = current_frame.get().run.clock
        return timed(self._state["time"], self._turn, 0 if clock is None else clock.seconds())

    def _used(self, limit: str) -> float:
        if limit == "seconds":
            before, _, now = self.time()
            return before + now  # type: ignore[no-any-return]
        counted: float = self._state["used"].get(limit, 0)
        clock = current_frame.get().run.clock
        if clock is None or self._owner.scope == "thread" or limit not in COUNTS:
            return counted
        return max(counted, clock.used(COUNTS[limit]))  # the state of a loop that failed is lost, its calls are not

    def _allowed(self, limit: str) -> float:
        return self._owner.limits[limit] + self._state["more"].get(limit, 0)  # type: ignore[no-any-return]


def _goes_on(exceeded: LimitExceeded) -> bool:
    told = str(exceeded)
    question = f"{told[0].upper()}{told[1:]}. Go on, with as much again?"
    return ask(question, kind="question", allowed=("approve", "reject"), about=exceeded.limit).type == "approve"


def _position(request: ToolRequest, tool: str | None = None) -> int:
    """How many calls of the batch come before this one, of all tools or of one; none without a loop."""
    place = getattr(current_frame.get().run.extra, "position", None)
    return 0 if place is None else int(place(request.call["id"], tool))


def _not_run(request: ToolRequest, exceeded: LimitExceeded) -> ToolReply:
    call = request.call
    return ToolReply(ToolMessage(f"not run: {exceeded}", tool_call_id=call["id"], name=call["name"], status="error"))


def limit_calls(
    model: int | None = None,
    tools: int | Mapping[str, int] | None = None,
    *,
    tokens: int | None = None,
    cost: float | None = None,
    seconds: float | None = None,
    per: Per = "turn",
    exit: Exit = "error",
    prices: Prices | Price | None = None,
    answer: str | None = None,
    name: str = "limit_calls",
) -> Filter:
    """Limit what a turn, or a whole thread, uses; each limit is looked at before a call is made.

    `model`: model calls, each attempt of a retry being one. `tools`: tool calls, or by tool name how many of it; a
    batch is cut exactly there. `tokens`: read and written. `cost`: in the money of `prices`, a table as `filters.usage`
    takes it, or a function `(AIMessage) -> cost`, `def` or `async def`. `seconds`: in which the turn is active; what it
    is paused does not count. `exit`: "error" raises LimitExceeded; "finish" ends the turn with an answer that says so
    (or with `answer`); "ask" pauses, and a person approves as much again or rejects, which ends the turn so.
    Raises ConfigurationError for values that cannot be, where a model tells of no tokens, or has no price.
    """
    given = {"model_calls": model, "tokens": tokens, "cost": cost, "seconds": seconds}
    if isinstance(tools, Mapping):
        given |= {f"tool_calls:{tool}": number for tool, number in tools.items()}
    else:
        given["tool_calls"] = tools
    limits = {limit: value for limit, value in given.items() if value is not None}
    _check(limits, name)
    if per not in get_args(Per) or exit not in get_args(Exit):
        raise ConfigurationError(f'filter {name!r}: per is "turn" or "thread", exit is "error", "finish" or "ask"')
    if (prices is None) is (cost is not None):
        raise ConfigurationError(f"filter {name!r}: cost= and prices= go together")
    if prices is not None and not (callable(prices) or prices):
        raise ConfigurationError(f"filter {name!r}: prices= has no model in it: give the price of each that may answer")
    if answer is not None and (not isinstance(answer, str) or not answer or exit == "error"):
        told = 'answer is a text that is not empty, and goes with exit="finish" or "ask"'
        raise ConfigurationError(f"filter {name!r}: {told}, not with {answer!r} and {exit!r}")
    table = prices if callable(prices) else checked_prices({} if prices is None else prices, name)
    return LimitCalls(limits, table, per, exit, answer, name)


def _check(limits: Mapping[str, Any], name: str) -> None:
    if not limits:
        raise ConfigurationError(f"filter {name!r} limits nothing: give model=, tools=, tokens=, cost= or seconds=")
    for limit, value in limits.items():
        whole = limit not in ("cost", "seconds")
        if not is_number(value) or (whole and not isinstance(value, int)) or not 0 < value < math.inf:
            number = "whole number" if whole else "number"
            raise ConfigurationError(f"filter {name!r}: the limit of {limit} is a {number} above zero, not {value!r}")
