"""What an input or output filter can do besides editing: end the turn, ask a model, have a container make filters."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, NoReturn, Protocol

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage

from scallion.bridge import awaited, spawn
from scallion.errors import ConfigurationError
from scallion.values import EMPTY, ChatReply, ChatRequest


class MessageFilter(Protocol):
    """Filters or changes one message, `def` or `async def`; None drops it."""

    def filter(self, message: BaseMessage) -> Any:
        """The message, another one, or None."""


class Break(BaseException):
    """The turn ends with this text: no error, and so no `except Exception` sees it."""

    def __init__(self, text: str, *, skip_output: bool) -> None:
        self.text = text
        self.skip_output = skip_output
        super().__init__("a filter ends the turn")


@dataclass(frozen=True, slots=True)
class Means:
    """What the agent lends to its filters: a model call beside the loop, and its container."""

    ask: Callable[[ChatRequest], ChatReply]
    resolve: Callable[[type], Any] | None = None


@dataclass(frozen=True, slots=True)
class Filtering:
    """The filter that runs: what it edits, its means (None without an agent), whether its function is `async def`."""

    conversation: Any
    means: Means | None
    asynchronous: bool


_running: ContextVar[Filtering] = ContextVar("scallion_filtering")


def running(what: str) -> Filtering:
    """The filter that runs; raises ConfigurationError outside of one."""
    found = _running.get(None)
    if found is None:
        raise ConfigurationError(f"{what} was called outside of an input or output filter")
    return found


@contextmanager
def entered(filtering: Filtering) -> Iterator[None]:
    """While this filter runs."""
    token = _running.set(filtering)
    try:
        yield
    finally:
        _running.reset(token)


def in_colour(what: str, function: Callable[..., Any], *args: Any) -> Any:
    """What the function gives, or in an `async def` filter what has to be awaited for it."""
    return spawn(function, *args) if running(what).asynchronous else function(*args)


def break_with(text: str, *, skip_output: bool = False) -> NoReturn:
    """Call it in an input or output filter: the turn ends at once, and this text is its answer.

    The turn does not fail. Output filters see the answer, unless `skip_output`. Also ends a check of `run_parallel`.
    """
    if not isinstance(text, str):
        raise ConfigurationError(f"break_with(...) takes a text, not {type(text).__name__}")
    running("break_with()")
    raise Break(text, skip_output=skip_output)


def llm(
    user: str,
    *,
    system: str | None = None,
    model: BaseChatModel | None = None,
    settings: Mapping[str, Any] = EMPTY,
) -> Any:
    """Ask a model beside the loop, without history, and return its AIMessage; in an `async def` filter, await it.

    `model`: the agent's if not given. `settings`: keyword arguments of the call (temperature and the like). The call
    counts as any model call of the turn, and is not streamed. Raises ModelError and LimitExceeded, which fail the turn:
    a filter that cannot ask lets nothing pass.
    """
    means = running("llm()").means
    if means is None:
        raise ConfigurationError("llm() needs the model and the limits of an Agent")
    if model is not None and not isinstance(model, BaseChatModel):
        raise ConfigurationError(f"llm(model=...) is a BaseChatModel, not {type(model).__name__}")
    messages = [*([SystemMessage(system)] if system else []), HumanMessage(user)]
    request = ChatRequest(messages, model=model, settings=settings, aside=True)
    return in_colour("llm()", _asked, means, request)


def _asked(means: Means, request: ChatRequest) -> AIMessage:
    return means.ask(request).message


def resolved(what: Any) -> MessageFilter:
    """The message filter, made by the agent's container where it is a class."""
    means = running("apply()").means
    if not isinstance(what, type):
        return checked(what)
    if means is None or means.resolve is None:
        raise ConfigurationError(f"{what.__name__} is a class: give an instance, or the Agent resolve=...")
    return checked(awaited(means.resolve(what)))


def checked(what: Any) -> MessageFilter:
    """The same; raises ConfigurationError for what has no `filter(message)`."""
    if not callable(getattr(what, "filter", None)):
        raise ConfigurationError(f"a message filter has filter(message), and {type(what).__name__} has none")
    return what  # type: ignore[no-any-return]
