"""The filter: one layer of the onion, and the decorators that make one of a function."""

from __future__ import annotations

import copy
import inspect
import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, ClassVar, Literal, get_args, get_type_hints

from scallion.errors import ConfigurationError
from scallion.filters.tokens import TokenTransform

Chain = Literal["turn", "chat", "tool"]
CHAINS: tuple[Chain, ...] = get_args(Chain)
MOST = 100
"""More layers would come near Python's limit of nested calls."""
Hook = Callable[..., Any]
"""`(request, state, next) -> reply | (reply, update)`, `def` or `async def`."""

NEEDS_SAVER = 'build the Agent with checkpointer=... ("inherit" is for one that only runs inside of others)'
"""What to do about an agent that keeps nothing."""


class Filter:
    """One layer: a unique name, hooks around the turn, the model call and the tool call, a token transform, a state.

    A subclass may define the hooks as methods `(self, request, state, next)`. `init` is the state that each turn starts
    from (JSON data); `state_schema` declares reducers in LangGraph's way (`Annotated[int, operator.add]`);
    `scope="thread"` keeps the state from turn to turn; `on_error="ignore"` lets a filter that guards nothing fail
    without failing the turn. `tools` are added to the agent's; one that is given there too counts once.
    """

    name: str = ""
    around_turn: Hook | None = None
    around_chat: Hook | None = None
    around_tool: Hook | None = None
    token_transform: TokenTransform | None = None
    init: Mapping[str, Any] | None = None
    state_schema: type | None = None
    tools: Sequence[Any] = ()
    scope: Literal["turn", "thread"] = "turn"
    on_error: Literal["fail", "ignore"] = "fail"
    load_parsed: Callable[[Any], Any] | None = None
    """What makes `Completed.parsed` of the text of its JSON again, after a pause; None where it is JSON data itself."""
    can_pause: bool = False
    """Whether the filter is known to pause: such a stack is refused without a checkpointer."""
    needs_effects: bool = False
    """Whether it keeps a ledger of effects: such a stack is refused without a SQLCheckpointer."""
    innermost: Collection[str] = ()
    """The chains in which it stands inside of all others, wherever it is in the list."""
    outermost: Collection[str] = ()
    """Those in which it stands outside of them."""

    needs_resolve: bool = False
    """Whether it names a class of which the agent's `resolve` makes an instance."""
    holds_stream: bool = False
    """Whether the answer is delivered to a stream at the end of the turn only, as the filter may change it."""
    conceals_stream: bool = False
    """Whether a stream is given nothing else of what models wrote: no reasoning, no pieces of calls, no messages."""
    sees_ended: bool = False
    """Whether its turn hook sees a turn that a filter outside of it has ended, where other inner layers are skipped."""
    withholds: bool = False
    """Whether what it does not let pass is kept nowhere: it stands inside, or outside, even of those that do so too."""
    screens_input: bool = False
    """Whether its turn hook judges what came in: a message that has to wait is given to it before it is kept."""
    sees_malformed: bool = False
    """Whether its tool hook sees calls whose arguments are no JSON object, which no tool runs."""
    mask: Callable[[Any, Any], Any] | None = None
    """Makes of its state, and the place in a batch, what is taken out of all that leaves a call (`masking.Mask`)."""

    _FIELDS: ClassVar = ("around_turn", "around_chat", "around_tool", "token_transform", "init", "state_schema")

    def __init__(
        self,
        name: str | None = None,
        *,
        around_turn: Hook | None = None,
        around_chat: Hook | None = None,
        around_tool: Hook | None = None,
        token_transform: TokenTransform | None = None,
        init: Mapping[str, Any] | None = None,
        state_schema: type | None = None,
        tools: Sequence[Any] = (),
        scope: Literal["turn", "thread"] | None = None,
        on_error: Literal["fail", "ignore"] | None = None,
    ) -> None:
        given = (around_turn, around_chat, around_tool, token_transform, init, state_schema)
        for field, value in zip(self._FIELDS, given, strict=True):
            if value is not None:
                setattr(self, field, value)
        self.name = self.name if name is None else name
        self.tools = tools or self.tools
        self.scope = scope or self.scope
        self.on_error = on_error or self.on_error

    def hook(self, chain: Chain) -> Hook | None:
        """The hook of that chain, or None."""
        hook: Hook | None = getattr(self, "around_" + chain)
        return hook

    def clean(self, value: Any, *, waits: bool) -> Any:
        """What no table may hold taken out of a value that no turn has seen yet; for a filter with a mask."""
        return value

    def check_tools(self, names: frozenset[str]) -> None:
        """Raise ConfigurationError where the filter names tools that the agent does not have."""

    def check_saver(self, saver: Any) -> None:
        """Raise ConfigurationError where the agent's checkpointer, or its lack, does not allow what the filter does."""
        if self.can_pause and saver is None:
            raise ConfigurationError(f"filter {self.name!r} can pause: {NEEDS_SAVER}")
        if self.needs_effects and not hasattr(saver, "effects"):
            raise ConfigurationError(f"filter {self.name!r} keeps a ledger: give a SQLCheckpointer as checkpointer=")

    def __repr__(self) -> str:
        hooks = [field for field in self._FIELDS[:4] if getattr(self, field) is not None]
        return f"{type(self).__name__}({self.name!r}: {', '.join(hooks)})"


def reducers(schema: type | None) -> dict[str, Callable[[Any, Any], Any]]:
    """The reducer of each key that `schema` annotates with a callable."""
    if schema is None:
        return {}
    found = {}
    for key, hint in get_type_hints(schema, include_extras=True).items():
        functions = [extra for extra in getattr(hint, "__metadata__", ()) if callable(extra)]
        if functions:
            found[key] = functions[-1]
    return found


def check(filters: Iterable[Any], resolve: Callable[[type], Any] | None = None) -> tuple[Filter, ...]:
    """The filters of the list; raises ConfigurationError that names one that cannot work.

    `resolve` makes instances of classes among them.
    """
    if isinstance(filters, Filter) or not isinstance(filters, Iterable):
        raise ConfigurationError(f"filters is a list of filters, not {filters!r}: put it into brackets")
    checked = tuple(_instance(one, resolve) if isinstance(one, type) else one for one in filters)
    if len(checked) > MOST:
        raise ConfigurationError(f"{len(checked)} filters are more than {MOST}: each layer takes frames of the stack")
    seen: set[str] = set()
    for position, one in enumerate(checked):
        _check_is_filter(one, position)
        if one.needs_resolve and resolve is None:
            raise ConfigurationError(f"filter {one.name!r} is made of a class: give an instance, or Agent(resolve=...)")
        _check_name(one, seen)
        _check_parts(one)
    return checked


def layers(filters: Iterable[Filter], chain: Chain) -> list[Filter]:
    """The filters that have a hook of that chain, outermost first."""
    having = (one for one in filters if one.hook(chain) is not None)
    return sorted(having, key=lambda one: _rank(one, chain))


def _rank(one: Filter, chain: Chain) -> int:
    """How far inside it stands; what masks or withholds, inside or outside even of those that do so too."""
    keeps_away = one.withholds or one.mask is not None
    return ((chain in one.innermost) - (chain in one.outermost)) * (2 if keeps_away else 1)


def _instance(kind: type, resolve: Callable[[type], Any] | None) -> Any:
    if resolve is None:
        return kind
    try:
        return resolve(kind)
    except Exception as error:
        raise ConfigurationError(f"resolve cannot make a {kind.__name__}: {type(error).__name__}") from error


def _check_is_filter(one: Any, position: int) -> None:
    if isinstance(one, Filter):
        return
    if inspect.iscoroutine(one):
        one.close()
    if isinstance(one, type) and issubclass(one, Filter):
        raise ConfigurationError(f"filters[{position}] is the class {one.__name__}: give an instance, {one.__name__}()")
    raise ConfigurationError(f"filters[{position}] is not a Filter but {type(one).__name__}{_help(one)}")


def _help(one: Any) -> str:
    if isinstance(one, tuple):
        return ": unpack it, as in search_tool, search_filter = tool_search(tools)"
    if hasattr(one, "wrap_model_call"):
        return ": a middleware of LangChain goes into filters.from_langchain(...)"
    if not inspect.isroutine(one):
        return ""
    if (one.__module__ or "").startswith(__package__):
        return f": call it, filters.{one.__name__}(...)"
    return ": decorate it with @around_chat, @around_tool or @around_turn"


def _check_name(one: Filter, seen: set[str]) -> None:
    if not isinstance(one.name, str) or not one.name:
        raise ConfigurationError(f"{type(one).__name__} needs a name, a text that is not empty, not {one.name!r}")
    if one.name in seen:
        raise ConfigurationError(f"two filters are named {one.name!r}: give one of them another name=")
    seen.add(one.name)


def _check_parts(one: Filter) -> None:
    hooks = [(chain, hook) for chain in CHAINS if (hook := one.hook(chain)) is not None]
    for chain, hook in hooks:
        _check_hook(one.name, "around_" + chain, hook)
    if one.token_transform is not None:
        _check_transform(one.name, one.token_transform)
    elif not hooks and not one.tools:
        raise ConfigurationError(f"filter {one.name!r} has no hook: define around_turn, around_chat or around_tool")
    _check_state(one)


def _check_hook(name: str, where: str, hook: Any) -> None:
    if not callable(hook):
        raise ConfigurationError(f"filter {name!r}: {where} is not callable but {type(hook).__name__}")
    if inspect.isgeneratorfunction(hook) or inspect.isasyncgenfunction(hook):
        raise ConfigurationError(f"filter {name!r}: {where} is a generator: return the reply instead of yielding it")
    check_takes(name, where, hook, "request", "state", "next")


def check_takes(name: str, where: str, function: Any, *given: str) -> None:
    """Raise ConfigurationError where the function cannot take the arguments that it will be given."""
    try:
        signature = inspect.signature(function)
    except ValueError:  # a builtin that does not tell
        return
    try:
        signature.bind(*given)
    except TypeError:
        raise ConfigurationError(f"filter {name!r}: {where}{signature} cannot take ({', '.join(given)})") from None


def _check_transform(name: str, transform: Any) -> None:
    if not isinstance(transform, TokenTransform):
        raise ConfigurationError(f"filter {name!r}: token_transform is TokenTransform(step, ...), not {transform!r}")
    for part, given in (("step", ("token", "state")), ("flush", ("state",))):
        function = getattr(transform, part)
        if function is None and part == "flush":
            continue
        if not callable(function):
            raise ConfigurationError(f"filter {name!r}: {part} of its token transform is not callable")
        check_takes(name, part, function, *given)
    try:
        copy.deepcopy(transform.init)
    except Exception as error:
        told = f"init of its token transform cannot be copied for each stream: {type(error).__name__}"
        raise ConfigurationError(f"filter {name!r}: {told}; let step make it where the state is None") from error


def _check_state(one: Filter) -> None:
    if one.init is not None and not isinstance(one.init, Mapping):
        raise ConfigurationError(f"filter {one.name!r}: init is a mapping, not {type(one.init).__name__}")
    init = dict(one.init or {})
    try:
        same = json.loads(json.dumps(init, allow_nan=False)) == init
    except (TypeError, ValueError) as error:
        raise ConfigurationError(f"filter {one.name!r}: init is not JSON data: {error}") from None
    if not same:
        raise ConfigurationError(f"filter {one.name!r}: init is not JSON data: it would come back different")
    if one.scope not in ("turn", "thread"):
        raise ConfigurationError(f'filter {one.name!r}: scope is "turn" or "thread", not {one.scope!r}')
    if one.on_error not in ("fail", "ignore"):
        raise ConfigurationError(f'filter {one.name!r}: on_error is "fail" or "ignore", not {one.on_error!r}')
    if one.can_pause and one.on_error == "ignore":
        raise ConfigurationError(f'filter {one.name!r} asks people: it cannot have on_error="ignore", and fail open')
    try:
        reducers(one.state_schema)
    except Exception as error:
        raise ConfigurationError(f"filter {one.name!r}: its state_schema cannot be read: {error}") from error


def is_async(function: Any) -> bool:
    """Whether calling `function` gives a coroutine: an `async def`, a partial of one, or an object that is like one."""
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(getattr(function, "__call__", None))  # noqa: B004


def decorator(what: str, build: Callable[..., Filter], doc: str) -> Callable[..., Any]:
    """A decorator `@what`, or `@what(name=..., ...)`, whose filter is `build(function, name, ...)`."""

    def decorate(function: Hook | None = None, /, *, name: str | None = None, **options: Any) -> Any:
        def make(function: Hook) -> Filter:
            given = getattr(function, "__name__", type(function).__name__) if name is None else name
            try:
                return build(function, given, **options)
            except TypeError as error:
                raise ConfigurationError(f"filter {given!r}: @{what}: {error}") from error

        return make if function is None else make(function)

    decorate.__name__, decorate.__doc__ = what, doc
    return decorate


def _around(field: str) -> Callable[..., Any]:
    def build(function: Hook, name: str, **options: Any) -> Filter:
        parts: dict[str, Any] = {field: function, **options}
        return Filter(name, **parts)

    return decorator(field, build, f"Make a Filter of a hook; `@{field}` or `@{field}(name=..., init=...)`.")


around_turn = _around("around_turn")
around_chat = _around("around_chat")
around_tool = _around("around_tool")


def token_transform(
    step: Any = None, /, *, name: str | None = None, init: Any = None, flush: Any = None, **options: Any
) -> Any:
    """Make a Filter of a step function `(Token, state) -> (tokens, state)`; `init` is the state of a new stream."""

    def make(step: Any) -> Filter:
        transform = TokenTransform(step, init=init, flush=flush)
        return Filter(name or step.__name__, token_transform=transform, **options)

    return make if step is None else make(step)
