"""`from_langchain`: any `AgentMiddleware` of LangChain as a filter."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from typing import Any

from langchain_core.messages import AIMessage
from langgraph.graph.message import add_messages

from scallion.errors import ConfigurationError
from scallion.filters.filter import Filter
from scallion.filters.journal import current_frame
from scallion.filters.middleware.chat import MOST, ModelVisit, seen
from scallion.filters.middleware.hooks import Hook, once
from scallion.filters.middleware.package import NODE_HOOKS, WRAP_HOOKS, middleware_types
from scallion.filters.middleware.slots import Slots
from scallion.filters.middleware.talk import Update
from scallion.filters.middleware.tool import WrappedToolCall
from scallion.filters.replies import BadReply
from scallion.history import with_final
from scallion.values import ChatReply, ChatRequest, Completed, ToolReply, ToolRequest, TurnRequest

_CHAT = ("before_agent", "before_model", "after_model", "wrap_model_call")


class Middleware(Filter):
    """A middleware as a layer: its node hooks stand right around its own model call."""

    scope = "thread"

    def __init__(self, middleware: Any, name: str | None) -> None:
        kind = middleware_types("from_langchain()").AgentMiddleware
        if not isinstance(middleware, kind):
            raise ConfigurationError(f"from_langchain() takes an AgentMiddleware, not {_named(middleware)}")
        name = middleware.name if name is None else name
        self._hooks = {one: Hook(middleware, one) for one in (*NODE_HOOKS, *WRAP_HOOKS)}
        self._slots = _slots(middleware, name)
        wraps_tools = self._hooks["wrap_tool_call"] or self._slots
        super().__init__(
            name,
            around_turn=self._turn if self._hooks["after_agent"] else None,
            around_chat=self._chat if any(self._hooks[one] for one in _CHAT) else None,
            around_tool=self._tool if wraps_tools else None,
            state_schema=self._slots.schema,
            tools=list(getattr(middleware, "tools", None) or ()),
        )
        _check_jumps(name, self._hooks["after_agent"])
        self.holds_stream = _guards_streams(middleware, name)
        self.sees_ended = bool(self._hooks["after_agent"])
        self.can_pause = _asks_people(middleware)

    def _chat(self, request: ChatRequest, state: Any, next: Callable[[ChatRequest], ChatReply]) -> ChatReply:
        if request.aside:
            return next(request)
        return ModelVisit(self._hooks, self._slots, request, state, next).reply()

    def _tool(self, request: ToolRequest, state: Any, next: Callable[[ToolRequest], ToolReply]) -> ToolReply:
        return WrappedToolCall(self._slots, request, state, next).reply(self._hooks["wrap_tool_call"])

    def _turn(self, request: TurnRequest, state: Any, next: Callable[[TurnRequest], Completed]) -> Completed:
        frame = current_frame.get()
        for number in range(MOST):
            result = next(request)
            kept = once(frame, f"after_agent{number}", lambda: self._ended(result, request, state))  # noqa: B023
            if kept["messages"] is not None:
                result = result.replace(message=kept["messages"][-1], messages=kept["messages"])
            if kept["jump"] != "model":
                return result
            request = request.replace(messages=result.messages, load_history=False, keep_attempts=True)
        raise BadReply(f"after_agent jumped back to the model {MOST} times")

    def _ended(self, result: Completed, request: TurnRequest, state: Any) -> Mapping[str, Any]:
        """What after_agent makes of the messages (None: nothing), and where it jumps to."""
        messages = with_final(result.messages, result.message)
        given = seen(self._slots, state, request.context, [one.model_copy() for one in messages])
        update = Update(self._hooks["after_agent"].node(given, request.context.env), "after_agent")
        if update.values:
            state.update(self._slots.written(update.values, state, request.context.turn))
        if update.jump == "tools":
            raise BadReply("after_agent cannot jump to the tools: the turn is over")
        if update.messages is None:
            return {"messages": None, "jump": update.jump}
        now: Any = add_messages(list(messages), update.messages)  # type: ignore[arg-type]
        left = {one.id for one in now}
        if any(one.id not in left for one in messages[:-1]):
            raise BadReply("after_agent removes messages that the thread has: before_model may do that")
        if update.jump != "model" and not isinstance(now[-1], AIMessage):
            raise BadReply(f"after_agent ends the turn with a {type(now[-1]).__name__}, which is no answer")
        return {"messages": now if update.jump == "model" else _standing(now, result.message), "jump": update.jump}


def _standing(messages: list[Any], answer: AIMessage) -> list[Any]:
    """The messages; an answer that another one follows is one of its own, as a rejected one would be dropped."""
    own = {"id": uuid.uuid4().hex}
    front = [one.model_copy(update=own) if one.id == answer.id else one for one in messages[:-1]]
    return [*front, messages[-1]]


def _named(what: Any) -> str:
    return f"the class {what.__name__}: give an instance" if isinstance(what, type) else type(what).__name__


def _slots(middleware: Any, name: str) -> Slots:
    try:
        return Slots(middleware.state_schema)
    except ConfigurationError as error:
        raise ConfigurationError(f"filter {name!r}: {error}") from error.__cause__


def _check_jumps(name: str, after_agent: Hook) -> None:
    if "tools" in after_agent.jumps:
        raise ConfigurationError(f"filter {name!r}: after_agent cannot jump to the tools: the turn is over by then")


def _asks_people(middleware: Any) -> bool:
    from langchain.agents.middleware import HumanInTheLoopMiddleware

    return isinstance(middleware, HumanInTheLoopMiddleware)


def _guards_streams(middleware: Any, name: str) -> bool:
    """Whether the middleware changes what is streamed, so that the answer is to be held until it is through.

    LangChain's transformers act on LangGraph's event stream, which nobody reads here. That of PII is served by holding
    the answer back, the one that hides a middleware's own model calls has nothing to hide.
    """
    held = False
    for one in middleware.transformers or ():
        kind = getattr(one, "func", one)
        where = getattr(kind, "__module__", "")
        if where == "langchain.agents.middleware.pii":
            held = True
        elif where != "langchain.agents.middleware.internal_call_transformer":
            told = f"its stream transformer {getattr(kind, '__name__', kind)!r} acts on LangGraph's event stream only"
            raise ConfigurationError(f"filter {name!r}: {told}; write a token transform instead")
    return held


def from_langchain(middleware: Any, *, name: str | None = None) -> Filter:
    """Run a middleware of LangChain in the onion: its hooks, jumps, state and tools, in all four modes.

    Its name is that of the middleware. Its own state lasts as long as the thread, what it declares as `UntrackedValue`
    as long as the turn; it is JSON data, or of a type that pydantic can make JSON of. The agent's system prompt is not
    shown to it: what it gives as `system_message` is put behind. Raises ConfigurationError for what cannot work here.
    """
    return Middleware(middleware, name)
