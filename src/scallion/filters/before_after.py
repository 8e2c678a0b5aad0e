"""`before_turn`, `after_turn`, `before_chat`, `after_chat`, `before_tool`, `after_tool`: hooks that do not call `next`.

They are layers of the onion as all others: those before run outermost first, those after innermost first.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

from scallion.bridge import awaited
from scallion.errors import ConfigurationError, LimitExceeded
from scallion.filters.filter import Filter, decorator
from scallion.filters.journal import Frame, current_frame
from scallion.filters.replies import (
    BadReply,
    body,
    final,
    instead,
    is_ended,
    not_run,
    spoken,
    with_answer,
    without_calls,
)
from scallion.filters.verbs import MAY, AskModelAgain, EndTurn, Place, ReplaceAnswer, Said, allowed, feedback, verb_of
from scallion.values import ChatReply, ChatRequest, Completed, ToolReply, ToolRequest, TurnRequest

_VALUES: dict[Place, type[Any]] = {
    "before_turn": TurnRequest,
    "after_turn": Completed,
    "before_chat": ChatRequest,
    "after_chat": ChatReply,
    "before_tool": ToolRequest,
    "after_tool": ToolReply,
}
ENDING = "end_turn"
"""Where a tool hook keeps in its state the answer that ends the turn, for the chat hook of the same filter."""
log = logging.getLogger("scallion.filters")


class Hook:
    """A function of the user at its place, and what it may say there."""

    def __init__(self, place: Place, function: Callable[..., Any], may: Iterable[str] | None, name: str) -> None:
        self.place = place
        self._function = function
        self._may = allowed(place, may, name)
        self._taken = arity(function, _given_to(place), name)

    @property
    def ends_turns(self) -> bool:
        """Whether it may end the turn."""
        return EndTurn in self._may

    def says(self, *given: Any) -> Any:
        """A verb, a request or reply, or None; an update of the state that came with it is made at once.

        Raises BadReply for what it may not say.
        """
        said = awaited(self._function(*given[: self._taken]))
        if type(said) is tuple and len(said) == 2:
            said, update = said
            if not isinstance(update, Mapping):
                raise BadReply(f"beside what it says it returned {type(update).__name__}, not a mapping")
            given[1].update(update)
        if isinstance(said, Said) and not isinstance(said, self._may):
            raise BadReply(f"{self.place} may not say {verb_of(said)} here")
        if said is not None and not isinstance(said, (*self._may, _VALUES[self.place])):
            raise BadReply(f"{self.place} returned {type(said).__name__}, not {_VALUES[self.place].__name__} or None")
        return said

    def sees(self, error: Exception, state: Any, request: Any) -> None:
        """Tell the hook that what it stands behind failed; it may update its state, and the error goes on."""
        try:
            said = awaited(self._function(*(error, state, request)[: self._taken]))
            if type(said) is tuple and len(said) == 2 and isinstance(said[1], Mapping):
                said, update = said
                state.update(update)
        except Exception as failure:
            log.warning("%s failed on an error, which goes on: %s", self.place, type(failure).__name__)
        else:
            if said is not None:
                log.warning("%s said %s to an error, which goes on", self.place, type(said).__name__)


def _given_to(place: Place) -> tuple[str, ...]:
    return ("request", "state") if place.startswith("before") else ("reply", "state", "request")


def arity(function: Any, given: tuple[str, ...], name: str) -> int:
    """How many of the arguments `given` the function takes; raises ConfigurationError where it wants others."""
    if not callable(function):
        raise ConfigurationError(f"filter {name!r} is made of a function, not of {type(function).__name__}")
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise ConfigurationError(f"filter {name!r}: the function is a generator: return instead of yielding")
    try:
        signature = inspect.signature(function)
    except ValueError:  # a builtin that does not tell
        return 1
    for count in range(len(given), 0, -1):
        try:
            signature.bind(*given[:count])
        except TypeError:
            continue
        return count
    raise ConfigurationError(f"filter {name!r}: the function{signature} cannot take ({', '.join(given)})")


def _before_turn(hook: Hook, request: TurnRequest, state: Any, next: Any) -> Any:
    said = hook.says(request, state)
    if isinstance(said, EndTurn | ReplaceAnswer):
        return end(instead(request, final(spoken(said.answer))), request, next)
    return next(request if said is None else said)


def end(result: Completed, request: TurnRequest, next: Any) -> Completed:
    """End the turn with this result: hooks behind the turn see it, also those further inside, and nothing else runs."""
    frame = current_frame.get()
    frame.run.acted(frame.layer, "short_circuit")
    if request.load_history:
        result = result.replace(messages=[*frame.run.history, *result.messages])
    ended_turn: Completed = next(request.replace(ended=result))
    return ended_turn


def _before_chat(hook: Hook, request: ChatRequest, state: Any, next: Any) -> Any:
    match said := hook.says(request, state):
        case EndTurn():
            return instead(request, final(spoken(said.answer)))
        case ReplaceAnswer():
            return instead(request, said.answer)
    return next(request if said is None else said)


def _before_tool(hook: Hook, request: ToolRequest, state: Any, next: Any) -> Any:
    match said := hook.says(request, state):
        case EndTurn():
            state.update({ENDING: body(said.answer)})
            return not_run(request)
        case ReplaceAnswer():
            return instead(request, said.answer)
    return next(request if said is None else said)


def _ended_by_tool(request: ChatRequest, state: Any, next: Any) -> Any:
    """The chat hook of a tool hook: the answer that ends the turn, in the place of the next model call."""
    if state.get(ENDING) is None:
        return next(request)
    return instead(request, final(spoken(state[ENDING]))), {ENDING: None}


def _after_turn(hook: Hook, request: TurnRequest, state: Any, next: Any) -> Any:
    return _answered(hook, request, state, next, _entered_again)


def _entered_again(request: TurnRequest, result: Completed, told: Any) -> TurnRequest:
    return request.replace(messages=[*result.messages, told], load_history=False)


def _after_chat(hook: Hook, request: ChatRequest, state: Any, next: Any) -> Any:
    return _answered(hook, request, state, next, _asked_again)


def _asked_again(request: ChatRequest, reply: ChatReply, told: Any) -> ChatRequest:
    text = str(reply.message.text)
    said = [without_calls(reply.message, text)] if text else []
    return request.replace(messages=[*request.messages, *said, told])


def _after_tool(hook: Hook, request: ToolRequest, state: Any, next: Any) -> Any:
    reply = _next(hook, request, state, next)
    said = hook.says(reply, state, request)
    if not isinstance(said, EndTurn):
        return _given(said, reply)
    state.update({ENDING: body(said.answer)})
    # Were it the answer as it is (a tool that returns directly), the turn would end with it.
    mark = {**reply.message.additional_kwargs, "return_direct": False}
    return reply.replace(message=reply.message.model_copy(update={"additional_kwargs": mark}))


def _answered(hook: Hook, request: Any, state: Any, next: Any, again: Callable[..., Any]) -> Any:
    """What stands after the hook has spoken about each answer, once about each, also over a pause."""
    frame, asked = current_frame.get(), 0
    while True:
        reply = _next(hook, request, state, next)
        said = _spoken_before(frame)
        if said is None:
            since = len(frame.updates)
            said = hook.says(reply, state, request)
            if isinstance(said, AskModelAgain):
                frame.note({"feedback": said.feedback, "at_most": said.at_most}, since)
        if not isinstance(said, AskModelAgain):
            return _given(said, reply)
        if is_ended(reply.message):  # whoever ended the turn does not want the model to be asked
            return reply
        if asked == said.at_most:
            raise LimitExceeded("ask_model_again", asked, said.at_most)
        asked += 1
        request = again(request, reply, feedback(said))


def _spoken_before(frame: Frame) -> AskModelAgain | None:
    noted = frame.noted()
    return AskModelAgain(**noted) if noted else None


def _next(hook: Hook, request: Any, state: Any, next: Any) -> Any:
    try:
        return next(request)
    except Exception as error:
        hook.sees(error, state, request)
        raise


def _given(said: Any, reply: Any) -> Any:
    """The reply after what the hook said about it."""
    match said:
        case None:
            return reply
        case EndTurn():
            last = with_answer(reply, without_calls(reply.message, said.answer))
            return last.replace(message=final(last.message))
        case ReplaceAnswer():
            return with_answer(reply, said.answer)
    return said


_AROUND: dict[Place, Callable[..., Any]] = {
    "before_turn": _before_turn,
    "after_turn": _after_turn,
    "before_chat": _before_chat,
    "after_chat": _after_chat,
    "before_tool": _before_tool,
    "after_tool": _after_tool,
}


def _hook(place: Place) -> Callable[..., Any]:
    chain, around = place.partition("_")[2], _AROUND[place]

    def build(function: Any, name: str, *, may: Iterable[str] | None = None, **options: Any) -> Filter:
        hook = Hook(place, function, may, name)
        hooks: dict[str, Any] = {"around_" + chain: partial(around, hook)}
        if chain == "tool" and hook.ends_turns:
            hooks["around_chat"] = _ended_by_tool
        made = Filter(name, **hooks, **options)
        made.sees_ended = place == "after_turn"
        return made

    says = ", ".join(MAY[place])
    takes = f"({', '.join(_given_to(place))})"
    return decorator(
        place,
        build,
        f"Make a Filter of a function {takes}, `def` or `async def`; it may take fewer. `@{place}` or\n"
        f"`@{place}(name=..., may=..., init=...)`. It returns None, a changed {_VALUES[place].__name__}, or one of\n"
        f"{says}; beside it, an update of the state. `may` names those that it may say, all of them by default;\n"
        "raises ConfigurationError for one that has no meaning there.",
    )


before_turn = _hook("before_turn")
after_turn = _hook("after_turn")
before_chat = _hook("before_chat")
after_chat = _hook("after_chat")
before_tool = _hook("before_tool")
after_tool = _hook("after_tool")
