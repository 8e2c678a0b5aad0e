"""What a hook before or after a chain may say beside its request or reply: the turn ends, the model is asked again,
the answer is another one. And which of them may say it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal, get_args

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage

from scallion.errors import ConfigurationError
from scallion.filters.given import is_whole

Place = Literal["before_turn", "after_turn", "before_chat", "after_chat", "before_tool", "after_tool"]
PLACES: tuple[Place, ...] = get_args(Place)
AT_MOST = 2
"""How often a model is asked again, as often as `validate_answer` asks: once it seldom helps, and it is paid for."""


@dataclass(frozen=True, slots=True)
class EndTurn:
    """The turn ends with this answer."""

    answer: str | AIMessage


@dataclass(frozen=True, slots=True)
class AskModelAgain:
    """The model is asked again, and told this."""

    feedback: str
    at_most: int


@dataclass(frozen=True, slots=True)
class ReplaceAnswer:
    """What the hook stands at gives this instead."""

    answer: str | list[Any] | BaseMessage


Said = EndTurn | AskModelAgain | ReplaceAnswer
VERBS: dict[str, type[Said]] = {
    "end_turn": EndTurn,
    "ask_model_again": AskModelAgain,
    "replace_answer": ReplaceAnswer,
}
_EVERYWHERE = ("end_turn", "replace_answer")
MAY: dict[Place, tuple[str, ...]] = {
    place: (*_EVERYWHERE, "ask_model_again") if place in ("after_turn", "after_chat") else _EVERYWHERE
    for place in PLACES
}
"""What a hook may say. In front of the model it is asked anyway, and behind a tool it reads the result anyway."""


def end_turn(answer: str | AIMessage) -> EndTurn:
    """Return it from a hook: the turn ends with this answer, and neither model nor tool is called any more.

    Calls of the same batch that run already come to their end.
    """
    return EndTurn(_checked("end_turn", answer, str, AIMessage))


def ask_model_again(feedback: str, *, at_most: int = AT_MOST) -> AskModelAgain:
    """Return it from an `after_turn` or `after_chat` hook: the model is told this, and asked again.

    `at_most`: how often that hook may say so in one turn (after_turn) or about one model call (after_chat); once more
    raises LimitExceeded. The thread keeps neither the answer nor the feedback.
    """
    if not is_whole(at_most):
        raise ConfigurationError(f"ask_model_again(at_most=...) is a whole number above zero, not {at_most!r}")
    return AskModelAgain(_checked("ask_model_again", feedback, str), at_most)


def replace_answer(answer: str | list[Any] | BaseMessage) -> ReplaceAnswer:
    """Return it from a hook: what it stands at gives this text (or content, or message) instead.

    Before: the loop, the model or the tool is not called. After: its answer is replaced. The turn goes on: tool calls
    of a model's message stay, unless a whole message without them is given.
    """
    for block in answer if isinstance(answer, list) else ():
        _checked("replace_answer", block, str, dict)
    return ReplaceAnswer(_checked("replace_answer", answer, str, list, BaseMessage))


def allowed(place: Place, may: Iterable[str] | None, name: str) -> tuple[type[Said], ...]:
    """What the hook may say, of what its place allows; raises ConfigurationError for what it cannot do there."""
    if may is None:
        return tuple(VERBS[verb] for verb in MAY[place])
    if not isinstance(may, Iterable):
        raise ConfigurationError(f"filter {name!r}: may=... is a list of names, not {may!r}")
    verbs = (may,) if isinstance(may, str) else tuple(may)
    for verb in verbs:
        if verb not in MAY[place]:
            raise ConfigurationError(f"filter {name!r}: {place} may {' or '.join(MAY[place])}, not {verb!r}")
    return tuple(VERBS[verb] for verb in verbs)


def verb_of(said: Said) -> str:
    """The function that made it."""
    return next(verb for verb, kind in VERBS.items() if type(said) is kind)


def feedback(said: AskModelAgain) -> HumanMessage:
    """What the model is told."""
    return HumanMessage(said.feedback)


def _checked(verb: str, value: Any, *kinds: type) -> Any:
    if not isinstance(value, kinds):
        names = " or ".join(kind.__name__ for kind in kinds)
        raise ConfigurationError(f"{verb}(...) takes {names}, not {type(value).__name__}")
    return value
