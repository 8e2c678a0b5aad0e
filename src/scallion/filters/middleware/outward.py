"""`as_langchain`: a filter as an `AgentMiddleware` for LangChain's `create_agent`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any, TypedDict

from scallion.bridge import enter_async, enter_sync
from scallion.errors import ConfigurationError
from scallion.filters.filter import Filter, check
from scallion.filters.middleware import turns
from scallion.filters.middleware.beside import Account, Beside
from scallion.filters.middleware.calls import AroundModel, AroundTool
from scallion.filters.middleware.inward import Middleware
from scallion.filters.middleware.package import middleware_types

REASONS: tuple[tuple[str, Callable[[Any], bool], str], ...] = (
    ("is a middleware of LangChain already", lambda one: isinstance(one, Middleware), "give create_agent that one"),
    (
        "asks people, and a graph that is not Scallion's keeps no journal of what was approved",
        lambda one: one.can_pause,
        "use an Agent, or LangChain's HumanInTheLoopMiddleware, whose questions are approvals in the inbox too",
    ),
    ("keeps a ledger of effects, which is bound to an Agent's turn", lambda one: one.needs_effects, "use an Agent"),
    (
        "transforms tokens, and nothing of LangChain's passes what create_agent streams through it",
        lambda one: one.token_transform is not None,
        "use an Agent",
    ),
    (
        "has the stream held until it has seen the answer, and create_agent streams what the model says at once",
        lambda one: one.holds_stream,
        "use an Agent",
    ),
    (
        "masks what leaves a call, which only an Agent's own model and tool calls take care of",
        lambda one: one.mask is not None,
        "use an Agent",
    ),
    ("is made of a class", lambda one: one.needs_resolve, "give an instance"),
)
"""What a filter does that cannot be done there, and what to do instead."""


def _check(one: Any) -> Filter:
    (checked,) = check([one])
    for what, applies, instead in REASONS:
        if applies(checked):
            raise ConfigurationError(f"as_langchain(): filter {checked.name!r} {what}: {instead}")
    return checked


def as_langchain(filter: Filter) -> Any:
    """A filter as an `AgentMiddleware`, for `create_agent(model, middleware=[as_langchain(filter), ...])`.

    Its chat and tool hooks are the wraps, its turn hook before_agent and after_agent, its state a private channel of
    the graph. What raises in it and is not the model's or a tool's own failure is a FilterError. Raises
    ConfigurationError, with the reason, for a filter that cannot work there.
    """
    types = middleware_types("as_langchain()")
    beside = Beside(_check(filter))
    members = _members(beside) | {"name": property(lambda self: beside.filter.name)}
    middleware: Any = type("FilterMiddleware", (types.AgentMiddleware,), members)()
    middleware.state_schema = _state_schema(types, beside)
    middleware.tools = list(beside.filter.tools)
    return middleware


def _state_schema(types: Any, beside: Beside) -> type:
    """The channel of the filter's state; the reducer stands last, where LangGraph looks for it."""

    def fold(account: Account, step: Account) -> Account:
        return beside.fold(account, step)

    make: Any = TypedDict
    kept: type = make("FilterState", {beside.key: Annotated[dict[str, Any], types.PrivateStateAttr, fold]}, total=False)
    return kept


def _members(beside: Beside) -> dict[str, Any]:
    """The hooks of the class: LangChain asks the class which there are."""
    members: dict[str, Any] = {}
    if beside.filter.around_chat is not None or _names_tools(beside.filter):
        members |= _wraps("wrap_model_call", lambda *given, **colour: _model(beside, *given, **colour))
    if beside.filter.around_tool is not None:
        members |= _wraps("wrap_tool_call", lambda *given, **colour: AroundTool(beside, *given, **colour).result())
    if beside.filter.around_turn is not None:
        members |= _node("before_agent", lambda state: turns.before(beside, state), "end")
        members |= _node("after_agent", lambda state: turns.after(beside, state), "model")
    return members


def _names_tools(one: Filter) -> bool:
    return type(one).check_tools is not Filter.check_tools


def _model(beside: Beside, given: Any, handler: Any, *, asynchronous: bool) -> Any:
    if _names_tools(beside.filter):  # here is the first place where the tools are known
        beside.filter.check_tools(frozenset(name for one in given.tools if (name := getattr(one, "name", None))))
    return AroundModel(beside, given, handler, asynchronous=asynchronous).response()


def _wraps(name: str, run: Callable[..., Any]) -> dict[str, Any]:
    def wrap(self: Any, request: Any, handler: Any) -> Any:
        with enter_sync():
            return run(request, handler, asynchronous=False)

    async def awrap(self: Any, request: Any, handler: Any) -> Any:
        return await enter_async(run, request, handler, asynchronous=True)

    return {name: wrap, f"a{name}": awrap}


def _node(name: str, run: Callable[[Mapping[str, Any]], Any], jump: str) -> dict[str, Any]:
    def node(self: Any, state: Any, runtime: Any) -> Any:
        with enter_sync():
            return run(state)

    async def anode(self: Any, state: Any, runtime: Any) -> Any:
        return await enter_async(run, state)

    hooks: dict[str, Any] = {name: node, f"a{name}": anode}
    for one in hooks.values():
        one.__can_jump_to__ = [jump]
    return hooks
