"""The model call with a middleware around it: before, wrapped, after, and back where it jumps."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from langchain_core.messages import AIMessage, SystemMessage, ToolMessage

from scallion.errors import ModelError
from scallion.filters.journal import current_frame
from scallion.filters.middleware.hooks import Hook, once, runtime_here
from scallion.filters.middleware.package import middleware_types
from scallion.filters.middleware.slots import Slots
from scallion.filters.middleware.talk import Talk, Update
from scallion.filters.replies import BadReply, with_system
from scallion.values import ChatReply, ChatRequest, Context

MOST = 100
"""How often one model call may be jumped back to; what it may cost is bounded by the limits of the agent."""
BEGUN = "@begun"
"""The key of the turn whose before_agent has run."""


class ModelVisit:
    """One model call of the loop, as far as one middleware has to do with it."""

    def __init__(
        self,
        hooks: Mapping[str, Hook],
        slots: Slots,
        request: ChatRequest,
        state: Any,
        next: Callable[[ChatRequest], ChatReply],
    ) -> None:
        self._hooks = hooks
        self._slots = slots
        self._request = request
        self._state = state
        self._next = next
        self._frame = current_frame.get()
        self._talk = Talk(request)

    def reply(self) -> ChatReply:
        """The reply, after as many rounds as the middleware wants."""
        for number in range(MOST):
            jump = self._step(f"before{number}", self._before, number == 0)
            if jump in ("end", "tools"):
                return self._talk.reply(self._request, jump)
            if jump == "model":
                continue
            self._step(f"model{number}", self._model)
            jump = self._step(f"after{number}", self._node, "after_model")
            if jump != "model":
                return self._talk.reply(self._request, jump)
        raise BadReply(f"it jumped back to the model {MOST} times")

    def _step(self, about: str, run: Callable[..., str | None], *args: Any) -> str | None:
        """Where the step jumps to; the conversation stands where it stood after it."""

        def taken() -> dict[str, Any]:
            before = self._talk.shown
            jump = run(*args)
            return {"jump": jump, **({} if self._talk.shown is before else self._talk.kept())}

        kept = once(self._frame, about, taken)
        if "shown" in kept:
            self._talk.load(kept)
        jump: str | None = kept["jump"]
        return jump

    def _before(self, is_first: bool) -> str | None:
        turn = self._request.context.turn
        if is_first and self._hooks["before_agent"] and self._state.get(BEGUN) != (turn or ""):
            self._state.update({BEGUN: turn or ""})
            jump = self._node("before_agent")
            if jump in ("end", "tools"):
                return jump
        return self._node("before_model")

    def _node(self, name: str) -> str | None:
        hook = self._hooks[name]
        if not hook:
            return None
        update = Update(hook.node(self._seen(copied=True), self._request.context.env), name)
        self._taken(update)
        return update.jump

    def _taken(self, update: Update) -> None:
        self._talk.apply(update.messages)
        if update.values:
            self._state.update(self._slots.written(update.values, self._state, self._request.context.turn))

    def _seen(self, *, copied: bool) -> dict[str, Any]:
        messages = self._talk.copies() if copied else list(self._talk.shown)
        return seen(self._slots, self._state, self._request.context, messages)

    def _model(self) -> None:
        hook = self._hooks["wrap_model_call"]
        if not hook:
            messages = [*self._talk.lead, *self._talk.shown]
            self._talk.answer(self._next(self._request.replace(messages=messages, stored=self._talk.stored)))
            return
        call = WrappedModelCall(self._request, self._talk, self._next, self._seen(copied=False))
        reply, command = call.made(hook)
        self._talk.answer(reply)
        self._taken(Update(command, "wrap_model_call"))


class WrappedModelCall:
    """One call of wrap_model_call, with what its handler gave."""

    def __init__(
        self, request: ChatRequest, talk: Talk, next: Callable[[ChatRequest], ChatReply], state: dict[str, Any]
    ) -> None:
        self._types = middleware_types("a middleware")
        self._request = request
        self._talk = talk
        self._next = next
        self._replies: list[tuple[Any, ChatReply]] = []
        self._failures: list[tuple[Exception, ModelError]] = []
        self._given = self._types.ModelRequest(
            model=request.model,
            messages=list(talk.shown),
            system_message=_one(talk.lead),
            tools=list(request.tools),
            tool_choice=request.tool_choice,
            model_settings=dict(request.settings),
            state=state,
            runtime=runtime_here(request.context.env),
        )

    def made(self, hook: Hook) -> tuple[ChatReply, Any]:
        """The reply, and the command that came with it; raises ModelError for what the model raised."""
        try:
            out = hook.around(self._given, self._handler)
        except Exception as error:
            own = next((own for cause, own in self._failures if cause is error), None)
            if own is None:
                raise
            raise own from error
        if not isinstance(out, self._types.ExtendedModelResponse):
            return self._reply(out), None
        return self._reply(out.model_response), out.command

    def _handler(self, given: Any) -> Any:
        try:
            reply = self._next(self._chat_request(given))
        except ModelError as error:
            cause = error.__cause__
            if not isinstance(cause, Exception):  # of before a pause
                cause = RuntimeError(error.message)
            self._failures.append((cause, error))
            raise cause from None
        response = self._types.ModelResponse(result=[reply.message, *reply.results])
        self._replies.append((response, reply))
        return response

    def _chat_request(self, given: Any) -> ChatRequest:
        if given.response_format is not None:
            raise BadReply("it sets a response_format, which no model call here has: use filters.validate_schema")
        if given.state is not self._given.state:
            raise BadReply("it gives the request another state: return an update of it")
        is_same = given.system_message is self._given.system_message
        lead = self._talk.lead if is_same else [given.system_message] if given.system_message else []
        return self._request.replace(
            messages=[*lead, *given.messages],
            tools=list(given.tools),
            tool_choice=given.tool_choice,
            model=given.model,
            settings=dict(given.model_settings),
            stored=self._talk.stored,
        )

    def _reply(self, out: Any) -> ChatReply:
        known = next((reply for response, reply in self._replies if response is out), None)
        latest = known or (self._replies[-1][1] if self._replies else ChatReply(AIMessage(""), self._request.context))
        messages = [out] if isinstance(out, AIMessage) else getattr(out, "result", [])
        if getattr(out, "structured_response", None) is not None:
            raise BadReply("wrap_model_call gave a structured_response, which an agent here does not have")
        if not messages or not isinstance(messages[0], AIMessage):
            raise BadReply(f"wrap_model_call gave {type(out).__name__} without a message of the model in front")
        if strange := [one for one in messages[1:] if not isinstance(one, ToolMessage)]:
            raise BadReply(f"wrap_model_call gave a {type(strange[0]).__name__} behind the message of the model")
        if known is not None and messages == [known.message, *known.results]:
            return known
        return latest.replace(message=messages[0], results=list(messages[1:]))


def _one(lead: list[Any]) -> SystemMessage | None:
    """The system messages in front as the one that LangChain knows."""
    merged = with_system(lead, ())
    return merged[0] if merged else None  # type: ignore[return-value]


def seen(slots: Slots, state: Mapping[str, Any], context: Context, messages: list[Any]) -> dict[str, Any]:
    """The state of the agent as a hook sees it: the shared state, the middleware's own, the messages."""
    return {**context.state, **own(slots, state, context), "messages": messages}


def own(slots: Slots, state: Mapping[str, Any], context: Context) -> dict[str, Any]:
    """The middleware's own state in this turn."""
    return slots.read({key: value for key, value in state.items() if key != BEGUN}, context.turn)
