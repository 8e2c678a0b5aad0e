"""`pii`: personal data and secrets are taken out of all that carries text, before anything is stored or shown."""

from __future__ import annotations

import inspect
import operator
import os
import warnings
from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from functools import partial
from hashlib import blake2b
from typing import Annotated, Any, Literal, TypedDict, cast, get_args

from langchain_core.messages import BaseMessage, HumanMessage

from scallion.errors import Blocked, ConfigurationError
from scallion.filters.filter import Filter
from scallion.filters.guarding import Place
from scallion.filters.journal import current_frame
from scallion.filters.masking import ALONE, Share
from scallion.filters.privacy.mask import PiiMask, Spelling
from scallion.filters.privacy.values import PLACES as MESSAGES
from scallion.filters.privacy.values import Tokens, Walk
from scallion.filters.privacy.vault import Waiting, begun, sealing
from scallion.pii import Redaction, Rule
from scallion.pii.builtin import BUILTIN
from scallion.pii.rules import ALIASES
from scallion.values import ChatReply, ChatRequest, Completed, ToolReply, ToolRequest, TurnRequest

PLACES: tuple[Place, ...] = get_args(Place)
Restore = Literal["tool_args", "answer"]
KEY = "SCALLION_PII_KEY"
SHORTEST = 16
UNGUARDED = (
    "agent.graph stores its input before any filter has seen it: what filter {!r} would take out of it is kept as it "
    "was given. Use agent.invoke(...) or agent.as_graph()"
)

WITHIN = (
    "the graph around {!r} stored what it gave to that agent, and filter {!r} would have taken something out of it: "
    "clean what that graph is invoked with"
)


class Kept(TypedDict):
    """What a thread remembers: what each token stands for, sealed, its salt, and the mark of its tokens."""

    vault: Annotated[dict[str, str], operator.or_]
    salt: str
    mark: str


class Pii(Filter):
    """The guard: outermost around the turn, and right around model and tools."""

    innermost = ("chat", "tool")
    outermost = ("turn",)
    state_schema = Kept
    sees_ended = True

    def __init__(
        self, rules: list[Rule], apply_to: tuple[Place, ...], restore: frozenset[Restore], key: bytes | None, name: str
    ) -> None:
        super().__init__(name)
        self.apply_to = apply_to
        self.restore = restore
        self.redaction = Redaction(rules, key=key)
        self._blocks = any(one.strategy == "block" for one in rules)
        self.tokenises = any(one.strategy == "tokenise" for one in rules)
        self.key = key or b""
        self._places = frozenset(apply_to)
        self._clean: set[Any] = set()
        self._waiting = Waiting(self.key, name)
        if self.tokenises:
            self.scope = "thread"
            sealing(self.key, "", name)

    def mask(self, state: Any, share: Share) -> PiiMask:
        """The mask for one run of a chain."""
        return PiiMask(self, state, share)

    def begin_for(self, state: Any) -> None:
        """Begin with the thread where a filter around this one has something taken out first."""
        if not state.get("mark"):
            self._begin(state)

    def walk(self, tokens: Tokens | None) -> Walk:
        """One pass over a value."""
        return Walk(self.name, self.redaction, tokens, self._places, self._clean)

    def clean(self, value: Any, *, waits: bool) -> Any:
        """What no table may hold taken out. What is to be a token waits sealed for its turn, if it `waits` at all."""
        walk = self.walk(self._waiting.token if waits and self.tokenises else None)
        is_messages = isinstance(value, list) and all(isinstance(one, BaseMessage) for one in value)
        cleaned = [walk.message(one) for one in value] if is_messages else walk.value(value, self.apply_to[0])
        walk.settle(quiet=True)
        return cleaned

    def around_turn(self, request: TurnRequest, state: Any, next: Any) -> Completed:
        """The turn with what came in cleaned, and then what it came to, whoever made it."""
        self._begin(state)
        run, mask = current_frame.get().run, self.mask(state, ALONE)
        if request.load_history and not (request.resume is not None and self.name in run.rewritten):
            messages = self._cleaned(mask, request.messages, ())
            if messages != request.messages:
                self._warn_within(run.extra.here)
            run.rewrite(self.name, messages)
            request = request.replace(messages=messages)
        result: Completed = next(request)
        final = mask.told(result.message)
        told = [final if one is result.message else one for one in result.messages]
        return result.replace(message=final, messages=run.masks.messages(told, run.history))

    def around_chat(self, request: ChatRequest, state: Any, next: Any) -> ChatReply:
        """The model reads what is clean, whatever other filters or an earlier release left in its history."""
        self._begin(state)
        mask = self.mask(state, ALONE)
        self._warn()
        messages = self._cleaned(mask, request.messages, current_frame.get().run.history)
        reply: ChatReply = next(request.replace(messages=messages))
        return reply.replace(message=mask.reply(reply.message))

    def around_tool(self, request: ToolRequest, state: Any, next: Any) -> ToolReply:
        """An approved tool has the values in the place of their tokens; what it gives is cleaned."""
        mask = self.mask(state, ALONE)
        args = mask.args(request.call["args"])
        if not self._may_have(request.tool, args):
            args = request.call["args"]
        reply: ToolReply = next(request.replace(call={**request.call, "args": args}))
        return mask.result(reply)

    def _begin(self, state: Any) -> None:
        extra = current_frame.get().run.extra
        here = getattr(extra, "here", None) or getattr(extra, "invocation", None)
        if self.tokenises:
            has_own = here and here.around is None and not here.agents
            begun(self.key, state, here.thread if here and has_own else None)

    def _may_have(self, tool: Any, args: Any) -> bool:
        """Whether the tool runs here; an agent only where its own guards keep what it is given out of all tables."""
        if tool is None or (tool.metadata or {}).get("external"):
            return False
        if not hasattr(tool, "takes_out"):
            return True
        if tool.takes_out is None:
            return False
        try:
            (kept,) = tool.takes_out([HumanMessage(str(args.get("request")))])
        except Blocked:
            return True
        return bool(self.walk(None).value(kept.text, self.apply_to[0]) == kept.text)

    def _cleaned(
        self, mask: PiiMask, messages: Sequence[BaseMessage], held: Iterable[BaseMessage]
    ) -> list[BaseMessage]:
        """The messages; those that the thread held before just so stop nothing."""
        opened = Spelling(self._waiting.opened) if self.tokenises else None
        known = {one.id: one for one in held} if self._blocks else {}
        told = [mask.kept if known.get(one.id) == one else mask.told for one in messages]
        given = [opened.message(one) if opened and self._is_covered(one) else one for one in messages]
        return [tell(one) for tell, one in zip(told, given, strict=True)]

    def _is_covered(self, message: BaseMessage) -> bool:
        """Whether what is opened in it becomes a token at once."""
        return MESSAGES.get(message.type, "input") in self._places

    def _warn_within(self, here: Any) -> None:
        """Say once where another graph has the input already, which is no agent that could have a guard."""
        if here.around is None and here.agents:
            warnings.warn(WITHIN.format(here.agents[-1], self.name), UserWarning, stacklevel=2)

    def _warn(self) -> None:
        """Say once where the input of a bare graph was stored already."""
        here = getattr(current_frame.get().run.extra, "invocation", None)
        if here is not None and here.turn is None and "input" in self._places:
            warnings.warn(UNGUARDED.format(self.name), UserWarning, stacklevel=2)


def pii(
    *types: str | Rule,
    apply_to: Iterable[Place] = PLACES,
    strategy: str = "redact",
    detectors: Mapping[str, Any] | None = None,
    key: bytes | str | None = None,
    restore: Iterable[Restore] = ("tool_args",),
    name: str = "pii",
    **per_type: str,
) -> Filter:
    """Take personal data and secrets out of all that carries text, before it is stored, shown or traced.

    `types`: those to find, done with by `strategy`; `per_type` names another strategy for one: `pii("email", ip="mask",
    api_key="block")`. Or `Rule`s, for finer control. `detectors`: a regular expression or a function for types of your
    own; one of them that is not named is found too. Strategies: "redact", "mask", "hash", "tokenise", "block", which
    ends the turn with Blocked. `apply_to`: where it is taken out.
    `key`: a secret of 16 bytes or more, for "hash" and "tokenise"; by default that in SCALLION_PII_KEY.
    `restore`: who gets the values in the place of tokens: "tool_args", tools that run; "answer", the caller, in the
    answer and its tokens. The thread keeps tokens in any case. Where a detector fails, the turn fails.

    Raises ConfigurationError.
    """
    places = _chosen(apply_to, PLACES, "apply_to", name)
    if not places:
        raise ConfigurationError(f"filter {name!r}: apply_to is empty: name at least one of {', '.join(PLACES)}")
    restored = frozenset(cast("tuple[Restore, ...]", _chosen(restore, get_args(Restore), "restore", name)))
    rules = _rules(types, strategy, detectors, per_type, name)
    secret = _secret(key, rules, name)
    try:
        return Pii(rules, cast("tuple[Place, ...]", places), restored, secret, name)
    except ConfigurationError as error:
        raise _named(error, name) from None


OPTIONS = [one.name for one in inspect.signature(pii).parameters.values() if one.kind is one.KEYWORD_ONLY]


def _chosen(given: Any, known: tuple[str, ...], parameter: str, name: str) -> tuple[str, ...]:
    if isinstance(given, str) or not isinstance(given, Iterable):
        told = f"is a list of places, not {given!r}: put it into brackets"
        raise ConfigurationError(f"filter {name!r}: {parameter} {told}")
    chosen = tuple(given)
    if wrong := [one for one in chosen if one not in known]:
        raise ConfigurationError(f"filter {name!r}: {parameter} holds {wrong[0]!r}: there are {', '.join(known)}")
    return tuple(one for one in known if one in chosen)


def _rules(types: tuple[Any, ...], strategy: str, detectors: Any, per_type: Mapping[str, Any], name: str) -> list[Rule]:
    if detectors is not None and not isinstance(detectors, Mapping):
        told = f"detectors maps types to expressions or functions, not {type(detectors).__name__}"
        raise ConfigurationError(f"filter {name!r}: {told}")
    own = dict(detectors or {})
    flat = [one for given in types for one in (given if isinstance(given, list | tuple) else [given])]
    if wrong := [one for one in flat if not isinstance(one, str | Rule)]:
        raise ConfigurationError(f"filter {name!r}: takes names of types and Rules, not {type(wrong[0]).__name__}")
    if wrong := [one for one, value in per_type.items() if not isinstance(value, str)]:
        raise ConfigurationError(f"filter {name!r}: there is no parameter {wrong[0]!r}; a type takes a strategy")
    for unknown in per_type.keys() - BUILTIN.keys() - ALIASES.keys() - own.keys():
        if meant := get_close_matches(unknown, OPTIONS, 1, cutoff=0.75):
            told = f"there is no parameter {unknown!r}: did you mean {meant[0]}=?"
            raise ConfigurationError(f"filter {name!r}: {told}")
    named = [one for one in flat if isinstance(one, str)]
    ruled = {one.type for one in flat if isinstance(one, Rule)}
    strategies = {one: strategy for one in (*named, *own) if one not in ruled} | dict(per_type)
    make = partial(_rule, own, name)
    rules = [one for one in flat if isinstance(one, Rule)] + [make(kind, what) for kind, what in strategies.items()]
    if not rules:
        raise ConfigurationError(f'filter {name!r}: there is nothing to find: name types, as in pii("email", "ip")')
    return rules


def _rule(detectors: Mapping[str, Any], name: str, kind: str, strategy: str) -> Rule:
    try:
        return Rule(kind, cast("Any", strategy), detector=detectors.get(kind))
    except ConfigurationError as error:
        raise _named(error, name) from None


def _named(error: ConfigurationError, name: str) -> ConfigurationError:
    whose = f"filter {name!r}: "
    return ConfigurationError(whose + str(error).removeprefix("pii: ").removeprefix(whose))


def _secret(key: Any, rules: Iterable[Rule], name: str) -> bytes | None:
    """The key for hashes and tokens, of whatever length; None where nothing needs one."""
    wanting = next((one for one in rules if one.strategy in ("hash", "tokenise")), None)
    given = os.environ.get(KEY) if key is None else key
    if given is None:
        if wanting is not None:
            told = f"{wanting.strategy!r} needs a key: give key=..., or set {KEY}"
            raise ConfigurationError(f"filter {name!r}: {told}")
        return None
    data = given.encode() if isinstance(given, str) else given
    if not isinstance(data, bytes) or len(data) < SHORTEST:
        raise ConfigurationError(f"filter {name!r}: key is a secret of at least {SHORTEST} bytes, as text or bytes")
    return blake2b(data, digest_size=32, person=b"scallion pii key").digest()
